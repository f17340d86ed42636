"""Cards of models: what /v1/models reports of the runs."""

import pytest

from saccade.data.corpus import Item
from saccade.metrics.score import MetricScore
from saccade.serve.cards import LONGEST, ModelCard
from saccade.training.run import Run
from tests.serve.conftest import in_base64, picture, send_request


@pytest.fixture
def kept(tmp_path):
    """Give `kept(name, *inputs)`: a folder that holds these samples."""

    def keep(name, *inputs):
        folder = tmp_path / name
        folder.mkdir()
        Run(folder).keep_samples([Item(texts, ("x",), 1) for texts in inputs])
        return folder

    return keep


def test_a_run_has_a_score_a_day_and_a_size(runs, tasks):
    card = ModelCard.of_run(runs["mood"], tasks["mood"])
    assert card.parameters == sum(p.numel() for p in tasks["mood"].parameters())
    assert (card.score, card.text, list(card.examples)) == (None, "", [])
    assert len(card.trained) == 10
    card = ModelCard(
        metric="bleu",
        score=MetricScore(name="bleu", value=31.44, signature="", interval=(29.9, 32.84)),
    )
    assert card.text == "BLEU 31.4 [29.9, 32.8]"


def test_a_folder_without_a_run_has_an_empty_card(tasks, tmp_path):
    assert ModelCard.of_run(tmp_path, tasks["mood"]) == ModelCard(examples=[])


def test_examples_go_from_short_to_long_and_are_none_without_samples(kept, tasks):
    words = [("a " * n,) for n in (9, 1, 5, 3, 7, 2, 500)]
    card = ModelCard.of_run(kept("mood", *words), tasks["mood"])
    lengths = [len(text) for text in card.examples]
    assert len(lengths) == 4
    assert lengths == sorted(lengths)
    assert max(lengths) <= LONGEST
    hidden = ModelCard.of_run(kept("names", *words), tasks["names"], examples=False)
    assert list(hidden.examples) == []


def test_examples_are_inputs_of_the_api(kept, tasks, build):
    photo = f"data:image/png;base64,{in_base64(picture(10))}"
    inputs = {
        "mood": (["i am"], "i am"),
        "nli": (["a cat", "a dog"], ["a cat", "a dog"]),
        "names": (["Ann sings"], "Ann sings"),
        "photos": ([photo], photo),
    }
    cards = {}
    for name, (given, expected) in inputs.items():
        cards[name] = ModelCard.of_run(kept(name, tuple(given)), tasks[name])
        assert list(cards[name].examples) == [expected]
    server = build(*inputs, cards=cards)
    listed = send_request(server, "GET", "/v1/models").json()["data"]
    for model in listed:
        body = {"model": model["id"], "inputs": model["examples"]}
        assert send_request(server, "POST", "/v1/predict", json=body).status_code == 200


def test_the_models_of_a_server_are_listed_with_their_scores(tasks, build):
    score = MetricScore(name="accuracy", value=0.9, signature="", interval=(0.85, 0.95))
    card = ModelCard(metric="accuracy", score=score, items=200, trained="2026-01-31")
    listed = send_request(build("mood", cards={"mood": card}), "GET", "/v1/models").json()["data"]
    assert listed[0]["score"] == {
        "metric": "accuracy",
        "value": 0.9,
        "interval": [0.85, 0.95],
        "items": 200,
        "text": "accuracy 90.0 % [85.0, 95.0]",
    }
    assert (listed[0]["trained"], listed[0]["examples"]) == ("2026-01-31", [])
