"""The middleware: authorization, limits, hostile requests, deadlines and logs."""

import asyncio
import json
import logging
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from saccade import engines
from saccade.serve.limits import RequestLimits
from saccade.serve.logs import JsonFormatter
from saccade.serve.models import ServedModel, ServedRun, load
from saccade.serve.problems import Problem
from saccade.serve.prometheus import ServerMetrics
from saccade.serve.schemas import as_list
from tests.serve.conftest import TOKEN, client, metric, send_request, together
from tests.serve.fakes import Echo, EndlessWriter, eventually

JSON = {"content-type": "application/json"}
BEARER = {"authorization": f"Bearer {TOKEN}"}


def send(middleware, body: bytes, path="/v1/predict", **headers):
    return send_request(middleware, "POST", path, content=body, headers={**JSON, **headers})


def code_of(response):
    return response.status_code, response.json()["error"]["code"]


@pytest.fixture
def echo(build):
    """A server of a task that returns its inputs."""
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
def test_host_header_must_name_this_server(echo, host, status):
    assert send_request(echo, "GET", "/healthz", headers={"host": host}).status_code == status


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
def test_origin_header_must_match_the_host(echo, origin, status):
    headers = {"host": "localhost:8000", "origin": origin}
    response = send_request(echo, "GET", "/v1/models", headers=headers)
    assert response.status_code == status
    assert "access-control-allow-origin" not in response.headers


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
def test_rejects_ambiguous_headers(echo, repeated):
    kept = [("host", "localhost")] if ("host", "localhost") not in repeated else []
    response = send_request(echo, "POST", "/v1/predict", headers=[*kept, *repeated])
    assert code_of(response) == (400, "bad_request")
    assert response.headers["connection"] == "close"


def test_every_route_requires_the_token(build):
    middleware = build("mood", token=TOKEN, host="0.0.0.0")
    schema = send_request(middleware, "GET", "/openapi.json", headers=BEARER).json()
    routes = [(path, method) for path, known in schema["paths"].items() for method in known]
    assert len(routes) >= 9
    open_paths = {"/healthz", "/readyz", "/", "/docs", "/page/{name}"}
    for path, method in [*routes, ("/openapi.json", "get"), ("/nowhere", "get"), ("/", "post")]:
        url = path.replace("{name}", "style.css")
        for wrong in (
            {},
            {"authorization": ""},
            {"authorization": f"Basic {TOKEN}"},
            {"authorization": f"Bearer {TOKEN}x"},
            {"authorization": "Bearer"},
            {"authorization": "Bearer \xff".encode("latin-1")},
        ):
            response = send_request(middleware, method.upper(), url, headers=wrong)
            if path in open_paths:
                assert response.status_code != 401
            else:
                assert code_of(response) == (401, "no_token"), path
                assert response.headers["www-authenticate"] == "Bearer"
        assert send_request(middleware, method.upper(), url, headers=BEARER).status_code != 401
    assert send_request(middleware, "GET", "/page/other.js").status_code == 401
    secured = {
        path
        for path, methods in schema["paths"].items()
        for route in methods.values()
        if "security" in route
    }
    assert secured == {path for path, _ in routes} - open_paths


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
def test_hostile_bodies_get_a_4xx(all_models, path):
    for body in BAD_BODIES:
        response = send(all_models, body, path)
        assert 400 <= response.status_code < 500, (body[:60], response.text)
        assert set(response.json()["error"]) == {"code", "message", "type", "param"}


def test_unusual_characters_are_accepted(build, tasks):
    middleware = build("mood")
    for text in ("\x00", "\u2028", "😀", "</script>", "[CLS]", " ", "\ufeff", "a" * 1000):
        response = send(middleware, json.dumps({"inputs": [text]}).encode())
        assert response.status_code == 200, text
        assert response.json()["answers"][0]["label"] == tasks["mood"].predict([text])[0].label


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
def test_no_body_causes_an_internal_error(all_models, body, path):
    if isinstance(body, dict) and path != "/translate":
        body = {"model": "book", "max_length" if path == "/v1/predict" else "max_tokens": 3} | body
    response = send(all_models, json.dumps(body).encode("utf-8", "surrogatepass"), path)
    assert response.status_code == 200 or 400 <= response.status_code < 500, response.text


def test_type_checks_do_not_change_the_global_random_state():
    """Hypothesis raises if it changes meanwhile, and the server's threads run type-checked code."""
    before = random.getstate()
    assert as_list(["a", "b"]) == ["a", "b"]
    assert random.getstate() == before


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
def test_rejects_other_media_types_encodings_and_lengths(echo, headers, expected):
    assert code_of(send(echo, b'{"inputs": ["a"]}', **headers)) == expected


def test_unknown_paths_and_methods(echo):
    assert code_of(send_request(echo, "GET", "/nowhere")) == (404, "not_found")
    assert code_of(send_request(echo, "GET", "/v1/predict/")) == (404, "not_found")
    wrong = send_request(echo, "GET", "/v1/predict")
    assert code_of(wrong) == (405, "wrong_method")
    assert wrong.headers["allow"] == "POST"
    assert "this path takes POST" in wrong.json()["error"]["message"]
    assert send_request(echo, "GET", "/redoc").status_code == 404
    assert send_request(echo, "OPTIONS", "/v1/predict").status_code == 405


def test_body_without_a_length_is_cut_off_at_the_limit(build):
    middleware, sent = build(others={"echo": Echo()}, upload_bytes=5_000), []

    async def endless():
        while True:
            sent.append(1_000)
            yield b" " * 1_000

    async def ask():
        async with client(middleware) as http:
            return await http.post("/v1/predict", content=endless(), headers=JSON)

    response = asyncio.run(ask())
    assert code_of(response) == (413, "too_large")
    assert response.headers["connection"] == "close"
    assert sum(sent) < 10_000


def test_body_that_does_not_arrive_gets_status_408(build):
    middleware = build(others={"echo": Echo()}, body_seconds=0.1)

    async def stuck():
        yield b"{"
        await asyncio.sleep(3600)

    async def ask():
        async with client(middleware) as http:
            return await http.post("/v1/predict", content=stuck(), headers=JSON)

    assert code_of(asyncio.run(ask())) == (408, "slow_body")


def predicting(text, **more):
    async def call(http):
        return await http.post("/v1/predict", json={"inputs": [text], **more})

    return call


def after(began, call):
    async def wait(http):
        while not began.is_set():
            await asyncio.sleep(0.005)
        return await call(http)

    return wait


def test_full_queue_gets_status_429_and_recovers(build):
    task = Echo()
    middleware = build(others={"echo": task}, queue=2)

    async def refused(http):
        while not middleware.models.full:
            await asyncio.sleep(0.005)
        unread = await http.post("/v1/predict", content=b"not even JSON", headers=JSON)
        task.go.set()
        return unread

    first, second, third = together(middleware, [predicting("slow"), predicting("b"), refused])
    assert (first.status_code, second.status_code) == (200, 200)
    assert code_of(third) == (429, "full")
    assert third.headers["retry-after"] == "1"
    assert (
        send_request(middleware, "POST", "/v1/predict", json={"inputs": ["a"]}).status_code == 200
    )


def test_full_queue_of_one_model_does_not_affect_others(build):
    slow, quick = Echo(), Echo()
    middleware = build(others={"slow": slow, "quick": quick}, queue=1)

    async def others(http):
        full = await predicting("a", model="slow")(http)
        free = await predicting("a", model="quick")(http)
        slow.go.set()
        return full.status_code, free.status_code

    _, statuses = together(
        middleware, [predicting("slow", model="slow"), after(slow.began, others)]
    )
    assert statuses == (429, 200)


def test_bytes_of_all_bodies_are_bounded(build):
    task = Echo()
    middleware = build(others={"echo": task}, total_bytes=3_000)

    async def large(http):
        return await http.post("/v1/predict", json={"inputs": ["slow", "y" * 2_000]})

    async def others(http):
        refused = await predicting("x" * 1_500)(http)
        task.go.set()
        return refused.status_code, (await predicting("x")(http)).status_code

    first, statuses = together(middleware, [large, after(task.began, others)])
    assert (first.status_code, statuses) == (200, (429, 200))


def test_missed_deadline_gets_status_504(build):
    task = Echo()
    middleware = build(others={"echo": task}, timeout=0.2)
    response = send_request(middleware, "POST", "/v1/predict", json={"inputs": ["slow"]})
    assert code_of(response) == (504, "too_late")
    assert eventually(lambda: task.stopped == 1)  # the task does not continue
    [model] = middleware.models
    assert model.pending == 0
    assert metric(middleware, "saccade_abandoned_total", model="echo") == 1


def test_poisoned_request_fails_alone(build, caplog):
    task = Echo()
    middleware = build(others={"echo": task}, linger_seconds=0.2)
    calls = [predicting("a"), predicting("broken"), predicting("wrong"), predicting("b")]
    with caplog.at_level(logging.INFO, "saccade.serve"):
        good, broken, wrong, also = together(middleware, calls)
    assert len(task.batches[0]) == 4
    assert [good.status_code, also.status_code] == [200, 200]
    assert code_of(broken) == (500, "failed")
    assert "secret" not in broken.text
    assert (wrong.status_code, wrong.json()["error"]["message"]) == (422, "input 1 is wrong")
    [failure] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "secret" not in JsonFormatter(text=False).format(failure)


@pytest.mark.parametrize("log_text", [False, True])
def test_logs_include_user_text_only_with_log_text(build, caplog, log_text):
    middleware = build(others={"echo": Echo()}, log_text=log_text)
    with caplog.at_level(logging.INFO, "saccade.serve"):
        send_request(middleware, "POST", "/v1/predict?key=secret", json={"inputs": ["a secret"]})
        send_request(middleware, "GET", "/secret/path", headers={"user-agent": "secret"})
        send_request(middleware, "POST", "/v1/predict", json={"secret": ["secret"]})
        send_request(middleware, "POST", "/v1/predict", json={"inputs": ["a"], "model": "secret"})
    lines = [JsonFormatter(text=log_text).format(record) for record in caplog.records]
    assert [json.loads(line)["status"] for line in lines] == [200, 404, 422, 404]
    assert ("secret" in "".join(lines)) is log_text
    first = json.loads(lines[0])
    assert (first["route"], first["model"], first["inputs"]) == ("/v1/predict", "echo", 1)
    assert first.get("text") == (["a secret"] if log_text else None)
    assert json.loads(lines[1])["route"] == "other"


def test_responses_have_a_request_id_and_are_not_cached(echo):
    first, second = (send_request(echo, "GET", "/healthz") for _ in range(2))
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    assert first.headers["cache-control"] == "no-store"
    assert first.headers["x-content-type-options"] == "nosniff"


def streaming(**more):
    return {"model": "writer", "prompt": "a", "stream": True, **more}


def test_stream_ends_at_the_deadline_with_an_error_event(build):
    task = EndlessWriter()
    middleware = build(others={"writer": task}, timeout=0.5)
    response = send_request(middleware, "POST", "/v1/completions", json=streaming())
    last = response.text.strip().split("\n\n")[-1]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "too_late"
    assert eventually(lambda: task.writing == 0)
    [model] = middleware.models
    assert model.pending == 0


def test_failing_stream_gets_a_status_or_an_error_event(build):
    early = build(others={"writer": EndlessWriter(fails_after=1)})
    response = send_request(early, "POST", "/v1/completions", json=streaming())
    assert code_of(response) == (422, "invalid")  # no event was sent yet, so there is a status
    late = build(others={"writer": EndlessWriter(fails_after=4)})
    response = send_request(late, "POST", "/v1/completions", json=streaming())
    *pieces, last = response.text.strip().split("\n\n")
    assert (response.status_code, len(pieces)) == (200, 3)
    assert json.loads(last.removeprefix("data: "))["error"]["message"] == "it cannot continue"


def test_streams_beyond_the_limit_wait(build):
    task = EndlessWriter()
    middleware = build(others={"writer": task}, streams=1, timeout=0.6)

    async def call(http):
        return await http.post("/v1/completions", json=streaming())

    responses = together(middleware, [call, call, call])
    assert {response.status_code for response in responses} <= {200, 504}
    assert eventually(lambda: task.writing == 0)
    assert task.most == 1


def test_only_translators_have_languages(tasks, all_models):
    by_name = {model.name: model.languages for model in all_models.models}
    assert by_name["en-fr"] == ("en", "fr")
    assert isinstance(next(iter(all_models.models)), ServedModel)
    assert all(pair is None for name, pair in by_name.items() if name != "en-fr")


def test_languages_come_from_the_run_or_from_the_name(tasks, tmp_path, monkeypatch):
    (tmp_path / "run.json").write_text('{"format": 2, "languages": ["de", "pt"]}')
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "run.json").write_text('{"format": 2}')
    monkeypatch.setattr(engines, "load", lambda folder, **options: tasks["en-fr"])

    def languages(name, folder):
        runs, options = [ServedRun.parse(f"{name}={folder}")], {"device": "cpu", "engine": "eager"}
        metrics = ServerMetrics()
        registry = load(runs, limits=RequestLimits(), metrics=metrics, **options)
        [model] = registry
        try:
            registry.translator("de", "pt")
        except Problem as problem:
            return model.languages, problem.detail
        finally:
            registry.close(5.0)
        return model.languages, ""

    assert languages("mine", tmp_path) == (("de", "pt"), "")
    pair, message = languages("en-fr", tmp_path)
    assert pair == ("en", "fr")
    assert message.endswith("available: en-fr")
    pair, message = languages("mine", tmp_path / "old")
    assert pair is None
    assert "saccade serve en-fr=RUN" in message
