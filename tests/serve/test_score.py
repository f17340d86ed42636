"""The route /v1/score: the scores of `Task.score`, within the limits of predictions."""

import json

import pytest

from saccade.lens.record import AttentionRecord
from tests.serve.conftest import INPUTS, picture, send_request

OUTPUTS = {
    "en-fr": ["c b a", "e"],
    "mood": ["good", "bad"],
    "nli": ["no", "yes"],
    "names": ["O O O O O O", "O O B-place"],
    "holes": ["the dog cat", "a"],
    "book": ["x", "the"],
    "photos": ["dark", "light"],
    "captions": ["a dark square", "square"],
}


def score(server, **body):
    return send_request(server, "POST", "/v1/score", json=body)


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_task_scores_given_outputs(all_models, tasks, name):
    inputs = [tasks[name].from_json(value) for value in INPUTS[name]]
    expected = tasks[name].score(inputs, OUTPUTS[name], attention=True)
    body = {"model": name, "inputs": INPUTS[name], "outputs": OUTPUTS[name], "attention": True}
    response = score(all_models, **body)
    assert response.status_code == 200, response.text
    table = response.json()
    assert table["model"] == name
    for answer, right, output in zip(table["answers"], expected, OUTPUTS[name], strict=True):
        assert answer["text"] == output
        assert answer["confidence"] == pytest.approx(right.confidence, abs=1e-5)
        assert [token["text"] for token in answer["tokens"]] == [t.text for t in right.token_scores]
        assert answer["tokens"][0].keys() == {"text", "probability", "best", "best_probability"}
        record = AttentionRecord.from_json(json.dumps(answer["attention"]))
        assert record.wrote.tokens == right.attention.wrote.tokens


def test_an_image_is_uploaded_with_its_output(all_models):
    request = {"model": "captions", "outputs": ["a dark square"]}
    form = {"data": {"request": json.dumps(request)}, "files": {"image": picture()}}
    response = send_request(all_models, "POST", "/v1/score", **form)
    assert response.status_code == 200, response.text
    [answer] = response.json()["answers"]
    assert [token["text"] for token in answer["tokens"]][-1] == "</s>"
    assert "attention" not in answer


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outputs": ["a", "b"]}, "1 inputs and 2 outputs"),
        ({"outputs": []}, "outputs: must have at least 1 item"),
        ({"outputs": [1]}, "outputs.0: "),
        ({"outputs": ["a " * 600]}, "tokens, more than the 512 allowed"),
        ({"outputs": ["a " * 25_001]}, "more than the 50,000 allowed"),
        ({"beam": 2}, "beam: "),
        (
            {"model": "mood", "outputs": ["ugly"]},
            "must be a label of this model (bad, good)",
        ),
        ({"model": "holes", "inputs": ["a [MASK]"]}, "output 1 must be input 1"),
        ({"model": "names", "outputs": ["O"]}, "has 1 tags for 2 words"),
        ({"inputs": ["a"] * 65, "outputs": ["a"] * 65}, "65 inputs, more than the 64 allowed"),
    ],
)
def test_rejects_invalid_requests(all_models, change, message):
    body = {"model": "en-fr", "inputs": ["a b"], "outputs": ["b a"], **change}
    response = score(all_models, **body)
    assert response.status_code == 422, response.text
    assert response.json()["error"]["code"] == "invalid"
    assert message in response.json()["error"]["message"]


def test_scores_and_predictions_do_not_share_a_batch(build, tasks):
    middleware = build("en-fr")
    [answer] = send_request(
        middleware, "POST", "/v1/predict", json={"inputs": ["a b"], "attention": True}
    ).json()["answers"]
    [scored] = score(middleware, inputs=["a b"], outputs=[answer["text"]]).json()["answers"]
    assert "tokens" in scored
    assert "tokens" not in answer
