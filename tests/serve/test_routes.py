"""What the routes answer: the same as `predict`, in the shapes of their APIs."""

import json
import re
import threading

import pytest
from PIL.PngImagePlugin import PngImageFile
from prometheus_client.parser import text_string_to_metric_families

from saccade.lens.record import AttentionRecord
from saccade.serve.page import contents
from saccade.tasks import Answer
from saccade.tasks._shared.labels import Classification
from tests.serve.conftest import INPUTS, NAMES, asked, in_base64, metric, picture
from tests.serve.fakes import Echo


def inputs_of(tasks, name):
    return [tasks[name].from_json(value) for value in INPUTS[name]]


@pytest.mark.parametrize("name", NAMES)
def test_every_task_answers_as_predict_does(everything, tasks, name):
    wanted = tasks[name].predict(inputs_of(tasks, name), attention=True)
    body = {"model": name, "inputs": INPUTS[name]}
    plain = asked(everything, "POST", "/v1/predict", json=body)
    assert plain.status_code == 200
    found = plain.json()
    assert found["model"] == name
    assert len(found["answers"]) == 2
    for answer, right in zip(found["answers"], wanted, strict=True):
        told = right.as_json()
        assert answer.get("text", answer.get("label")) == told.get("text", told.get("label"))
        assert answer["score"] == pytest.approx(told["score"], abs=1e-5)
        assert answer.keys() == told.keys()
    looked = asked(everything, "POST", "/v1/predict", json={**body, "attention": True}).json()
    for answer, right in zip(looked["answers"], wanted, strict=True):
        record = AttentionRecord.from_json(json.dumps(answer.pop("attention")))
        assert record.layers == right.attention.layers
        assert record.wrote.tokens == right.attention.wrote.tokens
    assert [a.keys() for a in looked["answers"]] == [a.keys() for a in found["answers"]]


def test_the_only_model_need_not_be_named(build, tasks):
    gate = build("mood")
    found = asked(gate, "POST", "/v1/predict", json={"inputs": ["i am happy"]})
    assert found.json()["answers"][0]["label"] == tasks["mood"].predict(["i am happy"])[0].label


def test_several_answers_and_drawn_ones(everything, tasks):
    ask = {"model": "en-fr", "inputs": ["a b c", "d"], "num_best": 3, "max_length": 6}
    found = asked(everything, "POST", "/v1/predict", json=ask).json()["answers"]
    wanted = tasks["en-fr"].predict(["a b c", "d"], num_best=3, max_length=6)
    assert [a["text"] for a in found] == [a.text for a in wanted]
    assert [len(a["alternatives"]) for a in found] == [2, 2]
    ask = {"model": "book", "inputs": ["the", "the"], "temperature": 1.5, "seed": 7}
    found = asked(everything, "POST", "/v1/predict", json={**ask, "max_length": 12}).json()
    wanted = tasks["book"].predict(
        ["the", "the"], sample=True, temperature=1.5, seed=7, max_length=12
    )
    assert [a["text"] for a in found["answers"]] == [a.text for a in wanted]


def test_an_image_as_a_data_uri(everything):
    uri = f"data:image/png;base64,{in_base64(picture())}"
    both = asked(
        everything,
        "POST",
        "/v1/predict",
        json={"model": "photos", "inputs": [uri, in_base64(picture())]},
    )
    first, second = both.json()["answers"]
    assert first == second


@pytest.mark.parametrize(
    ("name", "given", "said"),
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
def test_inputs_that_a_task_does_not_take(everything, name, given, said):
    found = asked(everything, "POST", "/v1/predict", json={"model": name, "inputs": [given]})
    assert found.status_code == 422
    assert found.json()["error"]["code"] == "invalid"
    assert said in found.json()["error"]["message"]


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        ({"model": "mood", "beam": 3}, "no option 'beam'"),
        ({"model": "en-fr", "beam": 17}, "beam may be 16 at most, got 17"),
        ({"model": "en-fr", "num_best": 17}, "num_best may be 16 at most"),
        ({"model": "en-fr", "max_length": 513}, "max_length may be 512 at most"),
        ({"model": "en-fr", "sample": True, "beam": 3}, "sampling has no beams"),
        ({"model": "en-fr", "beam": 0}, "beam: "),
        ({"model": "en-fr", "beam": "3"}, "beam: "),
        ({"model": "en-fr", "beam": 3.0}, "beam: "),
        ({"model": "en-fr", "top_p": 1.1}, "top_p: "),
        ({"model": "en-fr", "seed": -1}, "seed: "),
        ({"model": "en-fr", "colour": "red"}, "colour: "),
        ({"model": "en-fr", "inputs": []}, "inputs: "),
        ({"model": "en-fr", "inputs": ["a"] * 65}, "64 inputs, this one has 65"),
        ({"model": "en-fr", "inputs": ["a " * 25_001]}, "50,000 characters"),
        ({"model": "book", "attention": 1}, "attention: "),
    ],
)
def test_options_that_cannot_be(everything, ask, said):
    found = asked(everything, "POST", "/v1/predict", json={"inputs": ["a"], **ask})
    assert found.status_code == 422, found.text
    assert said in found.json()["error"]["message"]


def test_no_such_model(everything):
    found = asked(everything, "POST", "/v1/predict", json={"model": "../x", "inputs": ["a"]})
    assert (found.status_code, found.json()["error"]["code"]) == (404, "no_such_model")
    missing = asked(everything, "POST", "/v1/predict", json={"inputs": ["a"]})
    assert "model is missing; there are: en-fr, mood" in missing.json()["error"]["message"]


@pytest.mark.parametrize("name", NAMES)
def test_attention_is_bounded_for_a_request_before_the_work(build, tasks, monkeypatch, name):
    inputs = inputs_of(tasks, name)
    most = tasks[name].attention_size(inputs, {})
    records = [answer.attention for answer in tasks[name].predict(inputs, attention=True)]
    sizes = [sum(layer.size for layer in record.weights.values()) for record in records]
    assert max(sizes) < sum(sizes) <= most  # each alone would be allowed
    monkeypatch.setattr(tasks[name], "predict", None)  # a call would fail
    found = asked(
        build(name, weights=most - 1),
        "POST",
        "/v1/predict",
        json={"inputs": INPUTS[name], "attention": True},
    )
    assert found.status_code == 422
    assert found.json()["error"]["message"] == (
        f"the attention of a request may have {most - 1:,} weights, this one can have {most:,}; "
        "send fewer or shorter inputs or a smaller max_length, or ask without attention"
    )


def test_attention_is_measured_after_the_work_too(build, tasks, monkeypatch):
    monkeypatch.setattr(tasks["mood"], "attention_size", lambda inputs, options: 0)
    ask = {"inputs": ["i am happy"], "attention": True}
    found = asked(build("mood", weights=3), "POST", "/v1/predict", json=ask)
    assert found.status_code == 422
    assert "may have 3 weights, this one has " in found.json()["error"]["message"]
    allowed = asked(build("mood", weights=10**6), "POST", "/v1/predict", json=ask)
    assert allowed.status_code == 200


@pytest.mark.parametrize("name", ["en-fr", "book", "said"])
def test_inputs_beam_and_length_are_bounded_together(build, name):
    gate = build(name, beam=4, tokens=10, request_tokens=200)
    given, ask = INPUTS[name][0], {"beam": 4, "max_length": 10}
    five, six = (
        asked(gate, "POST", "/v1/predict", json={"inputs": [given] * n, **ask}) for n in (5, 6)
    )
    assert (five.status_code, six.status_code) == (200, 422)
    assert six.json()["error"] == {
        "code": "invalid",
        "message": "inputs x beam x max_length may be 200 in a request, this one has 6 x 4 x 10 = "
        "240; send fewer inputs, or a smaller beam or max_length",
    }


def test_one_input_may_have_the_largest_beam_and_length(build):
    gate = build("en-fr", beam=4, tokens=10, request_tokens=1)
    ask = {"inputs": ["a b"], "beam": 4, "max_length": 10}
    assert asked(gate, "POST", "/v1/predict", json=ask).status_code == 200


def test_completions_count_each_text_of_a_prompt(build):
    gate = build("book", tokens=10, beam=1, request_tokens=100)
    ask = {"model": "book", "prompt": ["the", "cat"], "max_tokens": 10, "temperature": 0}
    assert asked(gate, "POST", "/v1/completions", json={**ask, "n": 5}).status_code == 200
    found = asked(gate, "POST", "/v1/completions", json={**ask, "n": 6})
    assert found.status_code == 422
    assert "12 x 1 x 10 = 120" in found.json()["error"]["message"]


@pytest.mark.parametrize("name", ["photos", "said"])
def test_pixels_are_bounded_for_a_request_by_the_headers(build, tasks, monkeypatch, name):
    gate = build(name, pixels=250)
    one, other = in_base64(picture(10)), in_base64(picture(12))
    assert asked(gate, "POST", "/v1/predict", json={"inputs": [one, other]}).status_code == 200
    monkeypatch.setattr(PngImageFile, "load", None)  # decoding would fail
    found = asked(gate, "POST", "/v1/predict", json={"inputs": [one, one, other]})
    assert found.status_code == 422
    assert found.json()["error"]["message"] == (
        "the images of a request may have 250 pixels together, these have 344; send fewer images, "
        "or make them smaller"
    )


def test_models_are_listed(everything, tasks):
    found = asked(everything, "GET", "/v1/models").json()
    assert found["object"] == "list"
    by_name = {each["id"]: each for each in found["data"]}
    assert {name: each["task"] for name, each in by_name.items()} == {
        name: task.name for name, task in tasks.items()
    }
    assert [by_name[name]["reads"] for name in ("mood", "nli", "said")] == ["text", "pair", "image"]
    assert by_name["en-fr"]["languages"] == ["en", "fr"]
    assert [name for name, each in by_name.items() if each["streams"]] == ["book"]
    assert {name for name, each in by_name.items() if each["writes"]} == {"en-fr", "book", "said"}


def test_translation_in_libretranslates_shape(everything, tasks):
    assert asked(everything, "GET", "/languages").json() == [
        {"code": "en", "name": "en", "targets": ["fr"]}
    ]
    texts = [answer.text for answer in tasks["en-fr"].predict(["a b c", "d e"])]
    ask = {"q": ["a b c", "d e"], "source": "en", "target": "fr", "format": "text", "api_key": ""}
    assert asked(everything, "POST", "/translate", json=ask).json() == {"translatedText": texts}
    one = {"q": "a b c", "source": "en", "target": "fr", "alternatives": 2, "attention": True}
    found = asked(everything, "POST", "/translate", json=one).json()
    best = tasks["en-fr"].predict(["a b c"], num_best=3)[0]
    assert found["translatedText"] == best.text
    assert found["alternatives"] == [other.text for other in best.alternatives]
    assert AttentionRecord.from_json(json.dumps(found["attention"])).layers
    several = asked(everything, "POST", "/translate", json={**one, "q": ["a", ""]}).json()
    assert [len(each) for each in several["alternatives"]] == [2, 0]
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
def test_translations_that_are_not_done(everything, change):
    ask = {"q": "a", "source": "en", "target": "fr", **change}
    found = asked(everything, "POST", "/translate", json=ask)
    assert (found.status_code, found.json()["error"]["code"]) == (422, "invalid")


def test_completions_in_openais_shape(everything, tasks):
    ask = {"model": "book", "prompt": ["the", "a"], "max_tokens": 9, "seed": 3, "n": 2}
    found = asked(everything, "POST", "/v1/completions", json={**ask, "echo": True}).json()
    assert re.fullmatch(r"cmpl-[0-9a-f]+", found["id"])
    assert (found["object"], found["model"]) == ("text_completion", "book")
    prompts = ["the", "the", "a", "a"]
    wanted = tasks["book"].predict(prompts, max_length=9, seed=3)
    assert [each["index"] for each in found["choices"]] == [0, 1, 2, 3]
    assert [each["text"] for each in found["choices"]] == [
        prompt + answer.text for prompt, answer in zip(prompts, wanted, strict=True)
    ]
    assert [each["finish_reason"] for each in found["choices"]] == [
        "stop" if answer.finished else "length" for answer in wanted
    ]
    greedy = {"model": "book", "prompt": "the", "temperature": 0, "attention": True}
    [choice] = asked(everything, "POST", "/v1/completions", json=greedy).json()["choices"]
    assert choice["text"] == tasks["book"].predict(["the"], beam=1, max_length=16)[0].text
    assert AttentionRecord.from_json(json.dumps(choice["attention"])).layers


def test_texts_are_drawn_anew_without_a_seed(everything):
    ask = {"model": "book", "prompt": "the", "max_tokens": 40, "temperature": 1}
    texts = {
        asked(everything, "POST", "/v1/completions", json=ask).json()["choices"][0]["text"]
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
def test_a_stream_says_the_same_in_pieces(everything, temperature):
    ask = {"model": "book", "prompt": "the", "max_tokens": 20, "temperature": temperature}
    ask |= {"seed": 5, "echo": True}
    before = metric(everything, "saccade_abandoned_total", model="book")
    [choice] = asked(everything, "POST", "/v1/completions", json=ask).json()["choices"]
    *pieces, done = events(
        asked(everything, "POST", "/v1/completions", json={**ask, "stream": True})
    )
    assert done == "[DONE]"
    said = [json.loads(piece)["choices"][0] for piece in pieces]
    assert len(said) > 5
    assert "".join(each["text"] for each in said) == choice["text"]
    assert said[0]["text"].startswith("the")
    assert [each["finish_reason"] for each in said] == [
        *[None] * (len(said) - 1),
        choice["finish_reason"],
    ]
    whole = choice["text"].removeprefix("the")
    stop = whole[4:7]
    cut = {**ask, "stop": ["never there", stop], "echo": False}
    [choice] = asked(everything, "POST", "/v1/completions", json=cut).json()["choices"]
    assert (choice["text"], choice["finish_reason"]) == (whole[: whole.index(stop)], "stop")
    pieces = events(asked(everything, "POST", "/v1/completions", json={**cut, "stream": True}))[:-1]
    said = [json.loads(piece)["choices"][0] for piece in pieces]
    assert "".join(each["text"] for each in said) == choice["text"]
    assert said[-1]["finish_reason"] == "stop"
    assert (
        metric(everything, "saccade_abandoned_total", model="book") == before
    )  # it was all that was wanted


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
def test_completions_that_are_not_done(everything, change):
    ask = {"model": "book", "prompt": "a", **change}
    found = asked(everything, "POST", "/v1/completions", json=ask)
    assert (found.status_code, found.json()["error"]["code"]) == (422, "invalid"), found.text


class Odd(Echo):
    """Answers with the text and score it was given."""

    def __init__(self, text, score):
        super().__init__()
        self.answer = Answer(text, score)

    def predict(self, inputs, **options):
        return [self.answer] * len(inputs)


def test_answers_are_valid_json_whatever_they_hold(build):
    for text in ("\ud800", "é😀\x00", '"\\'):
        gate = build(others={"odd": Odd(text, 0.5)})
        found = asked(gate, "POST", "/v1/predict", json={"inputs": ["a"] * 9})
        assert found.json()["answers"] == [{"text": text, "score": 0.5}] * 9
    for score in (float("nan"), float("inf")):
        gate = build(others={"odd": Odd("a", score)})
        found = asked(gate, "POST", "/v1/predict", json={"inputs": ["a"]})
        assert (found.status_code, found.json()["error"]["code"]) == (500, "failed")


@pytest.mark.parametrize(
    ("inputs", "attention", "in_thread"), [(1, False, False), (5, False, True), (1, True, True)]
)
def test_large_answers_are_written_in_a_thread(build, monkeypatch, inputs, attention, in_thread):
    gate, threads = build("mood"), set()
    as_json = Classification.as_json

    def watched(answer):
        threads.add(threading.current_thread())
        return as_json(answer)

    monkeypatch.setattr(Classification, "as_json", watched)
    ask = {"inputs": ["i am happy"] * inputs, "attention": attention}
    assert asked(gate, "POST", "/v1/predict", json=ask).status_code == 200
    assert len(threads) == 1
    assert (threading.main_thread() not in threads) is in_thread


def test_health_and_measures(build):
    gate = build("mood")
    assert asked(gate, "GET", "/healthz").json() == {"status": "ok"}
    assert asked(gate, "GET", "/readyz").json() == {"status": "ready"}
    asked(gate, "POST", "/v1/predict", json={"inputs": ["a", "b", "c"]})
    asked(gate, "GET", "/no/such/path?with=secrets")
    found = asked(gate, "GET", "/metrics")
    assert found.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = list(text_string_to_metric_families(found.text))
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
    assert "secrets" not in found.text
    gate.ending = True
    found = asked(gate, "GET", "/readyz")
    assert (found.status_code, found.json()["error"]["code"]) == (503, "ending")
    assert asked(gate, "GET", "/healthz").status_code == 200
    refused = asked(gate, "POST", "/v1/predict", json={"inputs": ["a"]})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")


def test_the_page_runs_nothing_that_stands_in_it(everything):
    found = asked(everything, "GET", "/")
    assert found.headers["content-type"].startswith("text/html")
    policy = found.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "<script>" not in found.text
    assert " style=" not in found.text
    waiting, parts = re.findall(r'(?:src|href)="/page/([^"]+)"', found.text), {}
    while waiting:
        name = waiting.pop()
        part = asked(everything, "GET", f"/page/{name}")
        assert part.status_code == 200, name
        parts[name] = part.text
        imported = re.findall(r' from "\./([^"]+)"', part.text)
        waiting += [other for other in imported if other not in parts]
    assert set(parts) == set(contents()) - {"index.html"}
    scripts = "".join(text for name, text in parts.items() if name.endswith(".js"))
    forbidden = r"innerHTML|outerHTML|insertAdj|document\.write|eval\(|import\(|Function\("
    assert not re.search(forbidden, scripts)
    assert set(re.findall(r"https?://[^\"' ]*", scripts)) == {"http://www.w3.org/2000/svg"}
    for name in ("__init__.py", "..%2fapp.py", "nothing.js"):
        assert asked(everything, "GET", f"/page/{name}").status_code == 404
