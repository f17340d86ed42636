"""Responses of the routes: the answers of `predict`, in the shapes of their APIs."""

import json
import re
import threading

import pytest
from PIL.PngImagePlugin import PngImageFile
from prometheus_client.parser import text_string_to_metric_families

from saccade.lens.record import AttentionRecord
from saccade.serve.page import PAGES, contents
from saccade.tasks import Answer
from saccade.tasks._shared.labels import Classification
from tests.serve.conftest import INPUTS, NAMES, in_base64, metric, picture, send_request
from tests.serve.fakes import Echo


def inputs_of(tasks, name):
    return [tasks[name].from_json(value) for value in INPUTS[name]]


@pytest.mark.parametrize("name", NAMES)
def test_every_task_gives_the_answers_of_predict(all_models, tasks, name):
    expected = tasks[name].predict(inputs_of(tasks, name), attention=True)
    body = {"model": name, "inputs": INPUTS[name]}
    plain = send_request(all_models, "POST", "/v1/predict", json=body)
    assert plain.status_code == 200
    table = plain.json()
    assert table["model"] == name
    assert len(table["answers"]) == 2
    for answer, right in zip(table["answers"], expected, strict=True):
        same = right.to_dict()
        assert answer.get("text", answer.get("label")) == same.get("text", same.get("label"))
        assert answer.get("tags") == same.get("tags")
        assert answer["score"] == pytest.approx(same["score"], abs=1e-5)
        assert answer["confidence"] == pytest.approx(same["confidence"], abs=1e-5)
        assert answer.keys() == same.keys()
    looked = send_request(
        all_models, "POST", "/v1/predict", json={**body, "attention": True}
    ).json()
    for answer, right in zip(looked["answers"], expected, strict=True):
        record = AttentionRecord.from_json(json.dumps(answer.pop("attention")))
        assert record.layers == right.attention.layers
        assert record.wrote.tokens == right.attention.wrote.tokens
    assert [a.keys() for a in looked["answers"]] == [a.keys() for a in table["answers"]]


def test_model_may_be_omitted_if_there_is_only_one(build, tasks):
    middleware = build("mood")
    response = send_request(middleware, "POST", "/v1/predict", json={"inputs": ["i am happy"]})
    assert response.json()["answers"][0]["label"] == tasks["mood"].predict(["i am happy"])[0].label


def test_alternatives_and_sampling(all_models, tasks):
    body = {"model": "en-fr", "inputs": ["a b c", "d"], "num_best": 3, "max_length": 6}
    answers = send_request(all_models, "POST", "/v1/predict", json=body).json()["answers"]
    expected = tasks["en-fr"].predict(["a b c", "d"], num_best=3, max_length=6)
    assert [a["text"] for a in answers] == [a.text for a in expected]
    assert [len(a["alternatives"]) for a in answers] == [2, 2]
    body = {"model": "book", "inputs": ["the", "the"], "temperature": 1.5, "seed": 7}
    answers = send_request(
        all_models, "POST", "/v1/predict", json={**body, "max_length": 12}
    ).json()
    expected = tasks["book"].predict(
        ["the", "the"], sample=True, temperature=1.5, seed=7, max_length=12
    )
    assert [a["text"] for a in answers["answers"]] == [a.text for a in expected]


def test_images_as_data_uris(all_models):
    uri = f"data:image/png;base64,{in_base64(picture())}"
    both = send_request(
        all_models,
        "POST",
        "/v1/predict",
        json={"model": "photos", "inputs": [uri, in_base64(picture())]},
    )
    first, second = both.json()["answers"]
    assert first == second


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("photos", "/etc/passwd", "base64"),
        ("photos", "builtin:digits/1", "base64"),
        ("photos", in_base64(b"no image"), "something else"),
        ("photos", in_base64(picture()[:60]), "damaged"),
        ("photos", 5, "got a number"),
        ("nli", "one text", "a list of two texts"),
        ("nli", ["a", "b", "c"], "a list of two texts"),
        ("nli", ["a", 1], "a list of two texts"),
        ("mood", ["a", "b"], "an input is a text, got a list"),
        ("book", None, "got null"),
        ("holes", "no hole here", "[MASK]"),
        ("en-fr", {"a": 1}, "got an object"),
    ],
)
def test_rejects_inputs_of_another_kind(all_models, name, value, message):
    response = send_request(
        all_models, "POST", "/v1/predict", json={"model": name, "inputs": [value]}
    )
    assert response.status_code == 422
    assert response.json()["error"]["code"] == "invalid"
    assert message in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"model": "mood", "beam": 3}, "'beam' is not an option"),
        ({"model": "en-fr", "beam": 17}, "beam must be at most 16, got 17"),
        ({"model": "en-fr", "num_best": 17}, "num_best must be at most 16"),
        ({"model": "en-fr", "max_length": 513}, "max_length must be at most 512"),
        ({"model": "en-fr", "sample": True, "beam": 3}, "sampling has no beams"),
        ({"model": "en-fr", "beam": 0}, "beam: "),
        ({"model": "en-fr", "beam": "3"}, "beam: "),
        ({"model": "en-fr", "beam": 3.0}, "beam: "),
        ({"model": "en-fr", "top_p": 1.1}, "top_p: "),
        ({"model": "en-fr", "seed": -1}, "seed: "),
        ({"model": "en-fr", "colour": "red"}, "colour: "),
        ({"model": "en-fr", "inputs": []}, "inputs: "),
        ({"model": "en-fr", "inputs": ["a"] * 65}, "65 inputs, more than the 64 allowed"),
        ({"model": "en-fr", "inputs": ["a " * 25_001]}, "more than the 50,000 allowed"),
        ({"model": "book", "attention": 1}, "attention: "),
    ],
)
def test_rejects_invalid_options(all_models, body, message):
    response = send_request(all_models, "POST", "/v1/predict", json={"inputs": ["a"], **body})
    assert response.status_code == 422, response.text
    assert message in response.json()["error"]["message"]


def test_unknown_or_missing_model_gets_status_404(all_models):
    response = send_request(
        all_models, "POST", "/v1/predict", json={"model": "../x", "inputs": ["a"]}
    )
    assert (response.status_code, response.json()["error"]["code"]) == (404, "no_such_model")
    missing = send_request(all_models, "POST", "/v1/predict", json={"inputs": ["a"]})
    assert "model is missing; available: en-fr, mood" in missing.json()["error"]["message"]


@pytest.mark.parametrize("name", NAMES)
def test_attention_size_is_checked_before_predicting(build, tasks, monkeypatch, name):
    inputs = inputs_of(tasks, name)
    most = tasks[name].attention_size(inputs, {})
    records = [answer.attention for answer in tasks[name].predict(inputs, attention=True)]
    sizes = [sum(layer.size for layer in record.weights.values()) for record in records]
    assert max(sizes) < sum(sizes) <= most  # each alone would be allowed
    monkeypatch.setattr(tasks[name], "predict", None)  # a call would fail
    response = send_request(
        build(name, weights=most - 1),
        "POST",
        "/v1/predict",
        json={"inputs": INPUTS[name], "attention": True},
    )
    assert response.status_code == 422
    assert response.json()["error"]["message"] == (
        f"the attention of the request can have {most:,} weights, more than the {most - 1:,} "
        "allowed; send fewer or shorter inputs or a smaller max_length, or ask without attention"
    )


def test_attention_size_is_checked_after_predicting(build, tasks, monkeypatch):
    monkeypatch.setattr(tasks["mood"], "attention_size", lambda inputs, options: 0)
    body = {"inputs": ["i am happy"], "attention": True}
    response = send_request(build("mood", weights=3), "POST", "/v1/predict", json=body)
    assert response.status_code == 422
    assert "weights, more than the 3 allowed" in response.json()["error"]["message"]
    allowed = send_request(build("mood", weights=10**6), "POST", "/v1/predict", json=body)
    assert allowed.status_code == 200


@pytest.mark.parametrize("name", ["en-fr", "book", "captions"])
def test_product_of_inputs_beam_and_length_is_bounded(build, name):
    middleware = build(name, max_beam=4, max_length=10, request_tokens=200)
    value, options = INPUTS[name][0], {"beam": 4, "max_length": 10}
    five, six = (
        send_request(middleware, "POST", "/v1/predict", json={"inputs": [value] * n, **options})
        for n in (5, 6)
    )
    assert (five.status_code, six.status_code) == (200, 422)
    error = six.json()["error"]
    assert (error["code"], error["message"]) == (
        "invalid",
        "inputs x beam x max_length is 6 x 4 x 10 = 240, more than the 200 allowed; send fewer "
        "inputs, or a smaller beam or max_length",
    )


def test_single_input_may_use_the_largest_beam_and_length(build):
    middleware = build("en-fr", max_beam=4, max_length=10, request_tokens=1)
    body = {"inputs": ["a b"], "beam": 4, "max_length": 10}
    assert send_request(middleware, "POST", "/v1/predict", json=body).status_code == 200


def test_pieces_of_a_split_text_are_counted_before_predicting(build, monkeypatch):
    middleware = build("en-fr", max_beam=4, max_length=10, request_tokens=200)
    monkeypatch.setattr("saccade.tasks.text_to_text.TextToText.answer", fail)
    body = {"inputs": ["a b\n" * 30], "beam": 4, "max_length": 10}
    response = send_request(middleware, "POST", "/v1/predict", json=body)
    assert response.status_code == 422
    message = response.json()["error"]["message"]
    assert message.startswith("the texts are split into 30 pieces, whose answers can have 1,200 ")
    assert "200 allowed; send shorter texts" in message


def fail(*_):
    raise AssertionError("must not be called")


def test_split_texts_come_back_joined_and_cut_ones_are_marked(build, tasks):
    middleware = build("en-fr")
    text = "a b c\n\nd e"
    body = {"inputs": [text, "a"], "beam": 1, "max_length": 6, "attention": True}
    joined, short = send_request(middleware, "POST", "/v1/predict", json=body).json()["answers"]
    parts = [
        answer.text for answer in tasks["en-fr"].predict(["a b c", "d e"], beam=1, max_length=6)
    ]
    assert joined["text"] == "\n\n".join(parts)
    assert [piece["input"] for piece in joined["pieces"]] == [[0, 5], [7, 10]]
    spans = [slice(*piece["text"]) for piece in joined["pieces"]]
    assert [joined["text"][span] for span in spans] == parts
    assert joined["attention"]["read"]["words"] == text.split()
    assert (joined["truncated"], short["truncated"], "pieces" in short) == (False, False, False)
    long = "a b c d " * 200
    body = {"q": [long, "a"], "source": "en", "target": "fr", "split": "none"}
    answer = send_request(middleware, "POST", "/translate", json=body)
    assert answer.json()["truncated"] == [True, False]
    body = {**body, "q": long, "split": "sentences"}
    assert send_request(middleware, "POST", "/translate", json=body).json()["truncated"] is False


@pytest.mark.parametrize("name", ["mood", "book"])
def test_cut_inputs_are_marked(build, name):
    body = {"inputs": ["the cat is here " * 500, "a"], "max_length": 3}
    if name == "mood":
        body.pop("max_length")
    answers = send_request(build(name), "POST", "/v1/predict", json=body).json()["answers"]
    assert [answer["truncated"] for answer in answers] == [True, False]


@pytest.mark.parametrize("stream", [False, True])
def test_completions_mark_a_cut_prompt(build, stream):
    middleware = build("book")
    for prompt, truncated in (("the cat is here " * 500, True), ("the", False)):
        body = {"model": "book", "prompt": prompt, "max_tokens": 2, "stream": stream}
        response = send_request(middleware, "POST", "/v1/completions", json=body)
        table = json.loads(events(response)[0]) if stream else response.json()
        assert table["choices"][0]["truncated"] is truncated


def test_completions_count_every_text_of_a_prompt(build):
    middleware = build("book", max_length=10, max_beam=1, request_tokens=100)
    body = {"model": "book", "prompt": ["the", "cat"], "max_tokens": 10, "temperature": 0}
    assert (
        send_request(middleware, "POST", "/v1/completions", json={**body, "n": 5}).status_code
        == 200
    )
    response = send_request(middleware, "POST", "/v1/completions", json={**body, "n": 6})
    assert response.status_code == 422
    assert "12 x 1 x 10 = 120" in response.json()["error"]["message"]


@pytest.mark.parametrize("name", ["photos", "captions"])
def test_pixels_are_checked_before_decoding(build, tasks, monkeypatch, name):
    middleware = build(name, pixels=250)
    one, other = in_base64(picture(10)), in_base64(picture(12))
    assert (
        send_request(middleware, "POST", "/v1/predict", json={"inputs": [one, other]}).status_code
        == 200
    )
    monkeypatch.setattr(PngImageFile, "load", None)  # decoding would fail
    response = send_request(middleware, "POST", "/v1/predict", json={"inputs": [one, one, other]})
    assert response.status_code == 422
    assert response.json()["error"]["message"] == (
        "the images of the request have 344 pixels together, more than the 250 allowed; send fewer "
        "or smaller images"
    )


def test_models_are_listed(all_models, tasks):
    table = send_request(all_models, "GET", "/v1/models").json()
    assert table["object"] == "list"
    by_name = {model["id"]: model for model in table["data"]}
    assert {name: model["task"] for name, model in by_name.items()} == {
        name: task.name for name, task in tasks.items()
    }
    assert [by_name[name]["reads"] for name in ("mood", "nli", "captions")] == [
        "text",
        "pair",
        "image",
    ]
    assert by_name["en-fr"]["languages"] == ["en", "fr"]
    assert [name for name, model in by_name.items() if model["streams"]] == ["book"]
    assert {name for name, model in by_name.items() if model["writes"]} == {
        "en-fr",
        "book",
        "captions",
    }


def test_translate_has_the_shape_of_libretranslate(all_models, tasks):
    assert send_request(all_models, "GET", "/languages").json() == [
        {"code": "en", "name": "en", "targets": ["fr"]}
    ]
    texts = [answer.text for answer in tasks["en-fr"].predict(["a b c", "d e"])]
    body = {"q": ["a b c", "d e"], "source": "en", "target": "fr", "format": "text", "api_key": ""}
    assert send_request(all_models, "POST", "/translate", json=body).json() == {
        "translatedText": texts,
        "truncated": [False] * len(texts),
    }
    one = {"q": "a b c", "source": "en", "target": "fr", "alternatives": 2, "attention": True}
    table = send_request(all_models, "POST", "/translate", json=one).json()
    best = tasks["en-fr"].predict(["a b c"], num_best=3)[0]
    assert table["translatedText"] == best.text
    assert table["alternatives"] == [other.text for other in best.alternatives]
    assert AttentionRecord.from_json(json.dumps(table["attention"])).layers
    several = send_request(all_models, "POST", "/translate", json={**one, "q": ["a", ""]}).json()
    assert [len(texts) for texts in several["alternatives"]] == [2, 0]
    assert several["attention"][1] is None


@pytest.mark.parametrize(
    "change",
    [
        {"source": "auto"},
        {"target": "de"},
        {"format": "html"},
        {"api_key": "x"},
        {"q": 3},
        {"alternatives": -1},
    ],
)
def test_rejects_invalid_translation_requests(all_models, change):
    body = {"q": "a", "source": "en", "target": "fr", **change}
    response = send_request(all_models, "POST", "/translate", json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (422, "invalid")


def test_completions_have_the_shape_of_openai(all_models, tasks):
    body = {"model": "book", "prompt": ["the", "a"], "max_tokens": 9, "seed": 3, "n": 2}
    table = send_request(all_models, "POST", "/v1/completions", json={**body, "echo": True}).json()
    assert re.fullmatch(r"cmpl-[0-9a-f]+", table["id"])
    assert (table["object"], table["model"]) == ("text_completion", "book")
    prompts = ["the", "the", "a", "a"]
    expected = tasks["book"].predict(prompts, max_length=9, seed=3)
    assert [choice["index"] for choice in table["choices"]] == [0, 1, 2, 3]
    assert [choice["text"] for choice in table["choices"]] == [
        prompt + answer.text for prompt, answer in zip(prompts, expected, strict=True)
    ]
    assert [choice["finish_reason"] for choice in table["choices"]] == [
        "stop" if answer.finished else "length" for answer in expected
    ]
    greedy = {"model": "book", "prompt": "the", "temperature": 0, "attention": True}
    [choice] = send_request(all_models, "POST", "/v1/completions", json=greedy).json()["choices"]
    assert choice["text"] == tasks["book"].predict(["the"], beam=1, max_length=16)[0].text
    assert AttentionRecord.from_json(json.dumps(choice["attention"])).layers


def test_completions_without_a_seed_differ(all_models):
    body = {"model": "book", "prompt": "the", "max_tokens": 40, "temperature": 1}
    texts = {
        send_request(all_models, "POST", "/v1/completions", json=body).json()["choices"][0]["text"]
        for _ in range(2)
    }
    assert len(texts) == 2


def events(response) -> list[str]:
    assert response.headers["content-type"].startswith("text/event-stream")
    lines = response.text.split("\n\n")
    assert lines.pop() == ""
    assert all(line.startswith("data: ") for line in lines)
    return [line.removeprefix("data: ") for line in lines]


@pytest.mark.parametrize("temperature", [0, 1])
def test_stream_equals_the_complete_text(all_models, temperature):
    body = {"model": "book", "prompt": "the", "max_tokens": 20, "temperature": temperature}
    body |= {"seed": 5, "echo": True}
    before = metric(all_models, "saccade_abandoned_total", model="book")
    [choice] = send_request(all_models, "POST", "/v1/completions", json=body).json()["choices"]
    *pieces, done = events(
        send_request(all_models, "POST", "/v1/completions", json={**body, "stream": True})
    )
    assert done == "[DONE]"
    choices = [json.loads(piece)["choices"][0] for piece in pieces]
    assert len(choices) > 5
    assert "".join(piece["text"] for piece in choices) == choice["text"]
    assert choices[0]["text"].startswith("the")
    assert [piece["finish_reason"] for piece in choices] == [
        *[None] * (len(choices) - 1),
        choice["finish_reason"],
    ]
    text = choice["text"].removeprefix("the")
    stop = text[4:7]
    cut = {**body, "stop": ["never there", stop], "echo": False}
    [choice] = send_request(all_models, "POST", "/v1/completions", json=cut).json()["choices"]
    assert (choice["text"], choice["finish_reason"]) == (text[: text.index(stop)], "stop")
    pieces = events(
        send_request(all_models, "POST", "/v1/completions", json={**cut, "stream": True})
    )[:-1]
    choices = [json.loads(piece)["choices"][0] for piece in pieces]
    assert "".join(piece["text"] for piece in choices) == choice["text"]
    assert choices[-1]["finish_reason"] == "stop"
    assert (
        metric(all_models, "saccade_abandoned_total", model="book") == before
    )  # the client got all it asked for


@pytest.mark.parametrize(
    "change",
    [
        {"model": "mood"},
        {"logprobs": 3},
        {"logit_bias": {"1": 2}},
        {"presence_penalty": 0.5},
        {"best_of": 2},
        {"suffix": "x"},
        {"prompt": [1, 2]},
        {"prompt": []},
        {"prompt": ["a", "b"], "stream": True},
        {"stream": True, "attention": True},
        {"stream": True, "n": 2},
        {"stream": True, "max_tokens": 513},
        {"n": 65},
        {"n": 10**9},
        {"stop": ["a"] * 5},
    ],
)
def test_rejects_invalid_completion_requests(all_models, change):
    body = {"model": "book", "prompt": "a", **change}
    response = send_request(all_models, "POST", "/v1/completions", json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (422, "invalid"), (
        response.text
    )


@pytest.mark.parametrize(
    ("change", "message", "field"),
    [
        ({"prompt": 5}, "prompt: must be a text or a list. See /docs", "prompt"),
        ({"prompt": ["a", 5]}, "prompt.1: must be a text. See /docs", "prompt"),
        ({"prompt": []}, "prompt: must have at least 1 item. See /docs", "prompt"),
        ({"max_tokens": 0}, "max_tokens: must be at least 1. See /docs", "max_tokens"),
        ({"max_tokens": 513}, "max_tokens must be at most 512, got 513", None),
        ({"temperature": 101}, "temperature: must be at most 100. See", "temperature"),
        ({"suffix": "x"}, "suffix: is not a field of this request. See", "suffix"),
        ({"stream": 1, "n": "2"}, "n: must be an integer; stream: must be true or false. ", None),
        ({"n": 65}, "the request has 65 prompts, more than the 64 allowed", None),
    ],
)
def test_errors_of_completions_are_in_our_words_and_openais_shape(
    all_models, change, message, field
):
    body = {"model": "book", "prompt": "a", **change}
    error = send_request(all_models, "POST", "/v1/completions", json=body).json()["error"]
    assert error["message"].startswith(message)
    assert (error["type"], error["param"]) == ("invalid_request_error", field)


class Odd(Echo):
    """Task with a fixed text and score."""

    def __init__(self, text, score):
        super().__init__()
        self.answer = Answer(text, score)

    def predict(self, inputs, **options):
        return [self.answer] * len(inputs)


def test_responses_are_valid_json_for_any_text(build):
    for text in ("\ud800", "é😀\x00", '"\\'):
        middleware = build(others={"odd": Odd(text, 0.5)})
        response = send_request(middleware, "POST", "/v1/predict", json={"inputs": ["a"] * 9})
        expected = {"text": text, "score": 0.5, "confidence": None, "truncated": False}
        assert response.json()["answers"] == [expected] * 9
    for score in (float("nan"), float("inf")):
        middleware = build(others={"odd": Odd("a", score)})
        response = send_request(middleware, "POST", "/v1/predict", json={"inputs": ["a"]})
        assert (response.status_code, response.json()["error"]["code"]) == (500, "failed")


@pytest.mark.parametrize(
    ("inputs", "attention", "in_thread"), [(1, False, False), (5, False, True), (1, True, True)]
)
def test_large_responses_are_encoded_in_a_thread(build, monkeypatch, inputs, attention, in_thread):
    middleware, threads = build("mood"), set()
    to_dict = Classification.to_dict

    def watched(answer):
        threads.add(threading.current_thread())
        return to_dict(answer)

    monkeypatch.setattr(Classification, "to_dict", watched)
    body = {"inputs": ["i am happy"] * inputs, "attention": attention}
    assert send_request(middleware, "POST", "/v1/predict", json=body).status_code == 200
    assert len(threads) == 1
    assert (threading.main_thread() not in threads) is in_thread


def test_health_checks_and_metrics(build):
    middleware = build("mood")
    assert send_request(middleware, "GET", "/healthz").json() == {"status": "ok"}
    assert send_request(middleware, "GET", "/readyz").json() == {"status": "ready"}
    send_request(middleware, "POST", "/v1/predict", json={"inputs": ["a", "b", "c"]})
    send_request(middleware, "GET", "/no/such/path?with=secrets")
    response = send_request(middleware, "GET", "/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = list(text_string_to_metric_families(response.text))
    assert {family.name: family.type for family in families} == {
        "saccade_requests": "counter",
        "saccade_request_seconds": "histogram",
        "saccade_batch_rows": "histogram",
        "saccade_batch_seconds": "histogram",
        "saccade_abandoned": "counter",
        "saccade_connections_dropped": "counter",
        "saccade_pending": "gauge",
    }
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }
    assert samples["saccade_requests_total", "/v1/predict", "200"] == 1
    assert samples["saccade_requests_total", "other", "404"] == 1
    assert samples["saccade_request_seconds_count", "/v1/predict"] == 1
    assert samples["saccade_batch_rows_bucket", "2.0", "mood"] == 0
    assert samples["saccade_batch_rows_bucket", "4.0", "mood"] == 1
    assert samples["saccade_batch_rows_sum", "mood"] == 3
    assert samples["saccade_pending", "mood"] == 0
    assert not any(name.endswith("_created") for name, *_ in samples)
    assert "secrets" not in response.text
    middleware.models.draining = True
    response = send_request(middleware, "GET", "/readyz")
    assert (response.status_code, response.json()["error"]["code"]) == (503, "ending")
    assert send_request(middleware, "GET", "/healthz").status_code == 200
    refused = send_request(middleware, "POST", "/v1/predict", json={"inputs": ["a"]})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")


def test_pages_have_no_inline_code_and_all_their_parts_exist(all_models):
    waiting, parts = [], {}
    for path in PAGES:
        response = send_request(all_models, "GET", path)
        assert response.headers["content-type"].startswith("text/html")
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "<script>" not in response.text
        assert " style=" not in response.text
        waiting += re.findall(r'(?:src|href)="/page/([^"]+)"', response.text)
    while waiting:
        name = waiting.pop()
        part = send_request(all_models, "GET", f"/page/{name}")
        assert part.status_code == 200, name
        parts[name] = part.text
        imported = re.findall(r' from "\./([^"]+)"', part.text)
        waiting += [other for other in imported if other not in parts]
    assert set(parts) == set(contents()) - set(PAGES.values())
    scripts = "".join(text for name, text in parts.items() if name.endswith(".js"))
    scripts = re.sub(r"/\*.*?\*/", "", scripts, flags=re.DOTALL)
    forbidden = r"innerHTML|outerHTML|insertAdj|document\.write|eval\(|import\(|Function\("
    assert not re.search(forbidden, scripts)
    assert set(re.findall(r"https?://[^\"' ]*", scripts)) == {"http://www.w3.org/2000/svg"}
    for name in ("__init__.py", "..%2fapp.py", "nothing.js"):
        assert send_request(all_models, "GET", f"/page/{name}").status_code == 404
