"""Who is let in, with how much, and what hostile bodies get."""

import asyncio
import json
import logging

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from saccade.serve.logs import JsonLines
from saccade.serve.models import Model
from tests.serve.conftest import TOKEN, asked, client, metric, together
from tests.serve.fakes import Echo, Teller, eventually

JSON = {"content-type": "application/json"}
BEARER = {"authorization": f"Bearer {TOKEN}"}


def send(gate, body: bytes, path="/v1/predict", **headers):
    return asked(gate, "POST", path, content=body, headers={**JSON, **headers})


def code_of(response):
    return response.status_code, response.json()["error"]["code"]


@pytest.fixture
def echo(build):
    """A server of a task that says its inputs."""
    return build(others={"echo": Echo()})


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8000", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:80", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("localhost:8801.evil.example", 421),
        ("localhost:evil", 421),
        ("localhost:", 421),
        ("localhost:123456", 421),
        ("localhost/", 421),
        ("localhost?", 421),
        ("localhost, localhost", 421),
        (" localhost:80 x", 421),
        ("127.0.0.1.evil.example", 421),
        ("[::1", 421),
        ("[::1].evil.example", 421),
        ("::1", 421),
        ("evil.example:localhost", 421),
        ("localhost@evil.example", 421),
        ("[", 421),
        ("", 421),
    ],
)
def test_the_host_must_be_ours(echo, host, status):
    assert asked(echo, "GET", "/healthz", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:8000", 200),
        ("https://localhost:8000", 200),
        ("http://localhost:9000", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("", 403),
        ("file://localhost:8000", 403),
        ("http://localhost:8000.evil.example", 403),
        ("http://localhost:8000/", 403),
        ("http://evil.example@localhost:8000", 403),
        ("http://localhost:8000 http://evil.example", 403),
        ("http://localhost:8000, http://evil.example", 403),
        ("http:localhost:8000", 403),
        ("//localhost:8000", 403),
        ("http://[", 403),
    ],
)
def test_the_origin_must_be_ours(echo, origin, status):
    headers = {"host": "localhost:8000", "origin": origin}
    found = asked(echo, "GET", "/v1/models", headers=headers)
    assert found.status_code == status
    assert "access-control-allow-origin" not in found.headers


@pytest.mark.parametrize(
    "repeated",
    [
        [("origin", "http://localhost"), ("origin", "http://localhost")],
        [("Origin", "http://localhost"), ("origin", "http://evil.example")],
        [("host", "localhost"), ("host", "evil.example")],
        [("content-type", "application/json"), ("content-type", "text/plain")],
        [("content-length", "2"), ("content-length", "2")],
        [("content-length", "2"), ("transfer-encoding", "chunked")],
        [("authorization", "Bearer a"), ("authorization", "Bearer b")],
        [("x", "y")] * 101,
    ],
)
def test_headers_that_can_be_read_in_two_ways(echo, repeated):
    kept = [("host", "localhost")] if ("host", "localhost") not in repeated else []
    found = asked(echo, "POST", "/v1/predict", headers=[*kept, *repeated])
    assert code_of(found) == (400, "bad_request")
    assert found.headers["connection"] == "close"


def test_every_route_wants_the_token(build):
    gate = build("mood", token=TOKEN, host="0.0.0.0")
    schema = asked(gate, "GET", "/openapi.json", headers=BEARER).json()
    walked = [(path, method) for path, known in schema["paths"].items() for method in known]
    assert len(walked) >= 9
    needless = {"/healthz", "/readyz", "/", "/page/{name}"}
    for path, method in [*walked, ("/openapi.json", "get"), ("/nowhere", "get"), ("/", "post")]:
        url = path.replace("{name}", "style.css")
        for wrong in (
            {},
            {"authorization": ""},
            {"authorization": f"Basic {TOKEN}"},
            {"authorization": f"Bearer {TOKEN}x"},
            {"authorization": "Bearer"},
            {"authorization": "Bearer \xff".encode("latin-1")},
        ):
            found = asked(gate, method.upper(), url, headers=wrong)
            if path in needless:
                assert found.status_code != 401
            else:
                assert code_of(found) == (401, "no_token"), path
                assert found.headers["www-authenticate"] == "Bearer"
        assert asked(gate, method.upper(), url, headers=BEARER).status_code != 401
    assert asked(gate, "GET", "/page/other.js").status_code == 401
    described = {
        path
        for path, known in schema["paths"].items()
        for each in known.values()
        if "security" in each
    }
    assert described == {path for path, _ in walked} - needless


BAD_BODIES = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'"text"',
    b"NaN",
    b'{"inputs": ["a"], "temperature": NaN}',
    b'{"inputs": ["a"], "temperature": Infinity}',
    b'{"inputs": ["a"], "temperature": 1e999}',
    b'{"inputs": ["a"], "temperature": -1e999}',
    b'{"inputs": ["a"], "beam": 1e999}',
    b'{"inputs": ["a"], "beam": ' + b"9" * 400 + b"}",
    b'{"inputs": ["a"], "temperature": ' + b"9" * 400 + b"}",
    b'{"inputs": ["a"], "seed": ' + b"9" * 30 + b"}",
    b'{"inputs": ["\\ud800"]}',
    b'{"inputs": ["\\udc00\\ud800"]}',
    b'{"\\ud800": 1}',
    b'{"inputs": ["\xed\xa0\x80"]}',
    b'{"inputs": ["\xff"]}',
    b'\xef\xbb\xbf{"inputs": ["a"]}',
    b'{"inputs": ["a"], "unknown": 1}',
    b'{"inputs": ["a"], "model": 5}',
    b'{"inputs": "a"}',
    b'{"inputs": [[[]]]}',
    b'{"inputs": [' + b"[" * 100 + b"]" * 100 + b"]}",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"inputs": ["a"]} x',
]


@pytest.mark.parametrize("path", ["/v1/predict", "/translate", "/v1/completions"])
def test_hostile_bodies_get_a_4xx(everything, path):
    for body in BAD_BODIES:
        found = send(everything, body, path)
        assert 400 <= found.status_code < 500, (body[:60], found.text)
        assert set(found.json()["error"]) == {"code", "message"}


def test_what_json_may_hold_is_no_problem(build, tasks):
    gate = build("mood")
    for text in ("\x00", "\u2028", "😀", "</script>", "[CLS]", " ", "\ufeff", "a" * 1000):
        found = send(gate, json.dumps({"inputs": [text]}).encode())
        assert found.status_code == 200, text
        assert found.json()["answers"][0]["label"] == tasks["mood"].predict([text])[0].label


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = (
    *("model", "inputs", "attention", "beam", "num_best", "sample", "temperature", "top_k"),
    *("top_p", "max_length", "seed", "q", "source", "target", "prompt", "max_tokens", "stop"),
    *("stream", "n", "alternatives"),
)
names = st.sampled_from(FIELDS)
likely = st.sampled_from(["book", "en", "fr", ["a"], 1, 0, 1e-30, 2, 0.5, True, "a", 1e300, -0.0])


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    body=st.dictionaries(names, likely | json_values, max_size=6) | json_values,
    path=st.sampled_from(["/v1/predict", "/translate", "/v1/completions"]),
)
def test_no_body_makes_the_server_fail(everything, body, path):
    if isinstance(body, dict) and path != "/translate":
        body = {"model": "book", "max_length" if path == "/v1/predict" else "max_tokens": 3} | body
    found = send(everything, json.dumps(body).encode("utf-8", "surrogatepass"), path)
    assert found.status_code == 200 or 400 <= found.status_code < 500, found.text


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"content-type": "text/plain"}, (415, "not_json")),
        ({"content-type": "application/x-www-form-urlencoded"}, (415, "not_json")),
        ({"content-encoding": "gzip"}, (415, "not_json")),
        ({"content-length": "99999999999"}, (413, "too_large")),
        ({"content-length": "-1"}, (413, "too_large")),
        ({"content-length": "9" * 5_000}, (413, "too_large")),
    ],
)
def test_bodies_of_another_kind(echo, headers, expected):
    assert code_of(send(echo, b'{"inputs": ["a"]}', **headers)) == expected


def test_other_paths_and_methods(echo):
    assert code_of(asked(echo, "GET", "/nowhere")) == (404, "not_found")
    assert code_of(asked(echo, "GET", "/v1/predict/")) == (404, "not_found")
    wrong = asked(echo, "GET", "/v1/predict")
    assert code_of(wrong) == (405, "wrong_method")
    assert wrong.headers["allow"] == "POST"
    assert asked(echo, "GET", "/docs").status_code == 404
    assert asked(echo, "OPTIONS", "/v1/predict").status_code == 405


def test_a_body_without_a_length_is_cut_off_while_it_comes(build):
    gate, sent = build(others={"echo": Echo()}, body=5_000), []

    async def endless():
        while True:
            sent.append(1_000)
            yield b" " * 1_000

    async def ask():
        async with client(gate) as http:
            return await http.post("/v1/predict", content=endless(), headers=JSON)

    found = asyncio.run(ask())
    assert code_of(found) == (413, "too_large")
    assert found.headers["connection"] == "close"
    assert sum(sent) < 10_000


def test_a_body_that_does_not_come(build):
    gate = build(others={"echo": Echo()}, body_seconds=0.1)

    async def stuck():
        yield b"{"
        await asyncio.sleep(3600)

    async def ask():
        async with client(gate) as http:
            return await http.post("/v1/predict", content=stuck(), headers=JSON)

    assert code_of(asyncio.run(ask())) == (408, "slow_body")


def ask_for(text, **more):
    async def call(http):
        return await http.post("/v1/predict", json={"inputs": [text], **more})

    return call


def after(began, call):
    async def wait(http):
        while not began.is_set():
            await asyncio.sleep(0.005)
        return await call(http)

    return wait


def test_a_full_queue_says_so_at_once_and_recovers(build):
    task = Echo()
    gate = build(others={"echo": task}, queue=2)

    async def refused(http):
        while not gate.models.full:
            await asyncio.sleep(0.005)
        unread = await http.post("/v1/predict", content=b"not even JSON", headers=JSON)
        task.go.set()
        return unread

    first, second, third = together(gate, [ask_for("slow"), ask_for("b"), refused])
    assert (first.status_code, second.status_code) == (200, 200)
    assert code_of(third) == (429, "full")
    assert third.headers["retry-after"] == "1"
    assert asked(gate, "POST", "/v1/predict", json={"inputs": ["a"]}).status_code == 200


def test_one_full_model_leaves_the_others_alone(build):
    slow, quick = Echo(), Echo()
    gate = build(others={"slow": slow, "quick": quick}, queue=1)

    async def others(http):
        full = await ask_for("a", model="slow")(http)
        free = await ask_for("a", model="quick")(http)
        slow.go.set()
        return full.status_code, free.status_code

    _, found = together(gate, [ask_for("slow", model="slow"), after(slow.began, others)])
    assert found == (429, 200)


def test_bodies_together_are_bounded(build):
    task = Echo()
    gate = build(others={"echo": task}, bodies=3_000)

    async def large(http):
        return await http.post("/v1/predict", json={"inputs": ["slow", "y" * 2_000]})

    async def others(http):
        refused = await ask_for("x" * 1_500)(http)
        task.go.set()
        return refused.status_code, (await ask_for("x")(http)).status_code

    first, found = together(gate, [large, after(task.began, others)])
    assert (first.status_code, found) == (200, (429, 200))


def test_a_deadline(build):
    task = Echo()
    gate = build(others={"echo": task}, seconds=0.2)
    found = asked(gate, "POST", "/v1/predict", json={"inputs": ["slow"]})
    assert code_of(found) == (504, "too_late")
    assert eventually(lambda: task.stopped == 1)  # and nobody goes on with it
    [model] = gate.models
    assert model.pending == 0
    assert metric(gate, "saccade_abandoned_total", model="echo") == 1


def test_a_poisoned_request_fails_alone(build, caplog):
    task = Echo()
    gate = build(others={"echo": task}, linger=0.2)
    calls = [ask_for("a"), ask_for("broken"), ask_for("wrong"), ask_for("b")]
    with caplog.at_level(logging.INFO, "saccade.serve"):
        good, broken, wrong, also = together(gate, calls)
    assert len(task.batches[0]) == 4
    assert [good.status_code, also.status_code] == [200, 200]
    assert code_of(broken) == (500, "failed")
    assert "secret" not in broken.text
    assert (wrong.status_code, wrong.json()["error"]["message"]) == (422, "input 1 is wrong")
    [failure] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "secret" not in JsonLines(text=False).format(failure)


@pytest.mark.parametrize("log_text", [False, True])
def test_logs_hold_what_users_write_only_if_asked(build, caplog, log_text):
    gate = build(others={"echo": Echo()}, log_text=log_text)
    with caplog.at_level(logging.INFO, "saccade.serve"):
        asked(gate, "POST", "/v1/predict?key=secret", json={"inputs": ["a secret"]})
        asked(gate, "GET", "/secret/path", headers={"user-agent": "secret"})
        asked(gate, "POST", "/v1/predict", json={"secret": ["secret"]})
        asked(gate, "POST", "/v1/predict", json={"inputs": ["a"], "model": "secret"})
    lines = [JsonLines(text=log_text).format(record) for record in caplog.records]
    assert [json.loads(line)["status"] for line in lines] == [200, 404, 422, 404]
    assert ("secret" in "".join(lines)) is log_text
    first = json.loads(lines[0])
    assert (first["route"], first["model"], first["inputs"]) == ("/v1/predict", "echo", 1)
    assert first.get("text") == (["a secret"] if log_text else None)
    assert json.loads(lines[1])["route"] == "other"


def test_answers_carry_their_number_and_are_not_kept(echo):
    first, second = (asked(echo, "GET", "/healthz") for _ in range(2))
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    assert first.headers["cache-control"] == "no-store"
    assert first.headers["x-content-type-options"] == "nosniff"


def streaming(**more):
    return {"model": "teller", "prompt": "a", "stream": True, **more}


def test_a_stream_ends_in_time_and_says_why(build):
    task = Teller()
    gate = build(others={"teller": task}, seconds=0.5)
    found = asked(gate, "POST", "/v1/completions", json=streaming())
    last = found.text.strip().split("\n\n")[-1]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "too_late"
    assert eventually(lambda: task.writing == 0)
    [model] = gate.models
    assert model.pending == 0


def test_a_stream_that_fails(build):
    early = build(others={"teller": Teller(fails_after=1)})
    found = asked(early, "POST", "/v1/completions", json=streaming())
    assert code_of(found) == (422, "invalid")  # nothing was said yet, so there is a status
    late = build(others={"teller": Teller(fails_after=4)})
    found = asked(late, "POST", "/v1/completions", json=streaming())
    *pieces, last = found.text.strip().split("\n\n")
    assert (found.status_code, len(pieces)) == (200, 3)
    assert json.loads(last.removeprefix("data: "))["error"]["message"] == "it cannot go on"


def test_streams_wait_for_each_other(build):
    task = Teller()
    gate = build(others={"teller": task}, streams=1, seconds=0.6)

    async def call(http):
        return await http.post("/v1/completions", json=streaming())

    found = together(gate, [call, call, call])
    assert {each.status_code for each in found} <= {200, 504}
    assert eventually(lambda: task.writing == 0)
    assert task.most == 1


def test_a_model_knows_no_languages_if_it_does_not_translate(tasks, everything):
    by_name = {model.name: model.languages for model in everything.models}
    assert by_name["en-fr"] == ("en", "fr")
    assert isinstance(next(iter(everything.models)), Model)
    assert all(each is None for name, each in by_name.items() if name != "en-fr")
