"""Request bodies: the cost of parsing them, and uploads."""

import contextlib
import io
import json

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from saccade.serve import json_body
from saccade.serve.json_body import count_values
from saccade.serve.multipart import boundary_of, parts_of
from saccade.serve.problems import MAX_MESSAGE, Problem
from saccade.serve.schemas import CompletionRequest, PredictRequest, TranslateRequest
from tests.serve.conftest import in_base64, picture, send_request

JSON = {"content-type": "application/json"}
ROUTES = {
    "/v1/predict": (b'"model": "book"', b'"inputs"'),
    "/translate": (b'"source": "en", "target": "fr"', b'"q"'),
    "/v1/completions": (b'"model": "book"', b'"prompt"'),
}
"""Routes with a body: the fields they require, and the one with the texts."""
SCHEMAS = {
    "/v1/predict": PredictRequest,
    "/translate": TranslateRequest,
    "/v1/completions": CompletionRequest,
}
NESTED = {
    "numbers": b"0,",
    "floats": b"1.5,",
    "empty lists": b"[],",
    "empty objects": b"{},",
    "empty strings": b'"",',
    "short strings": b'"\\u00e9",',
    "deep lists": b"[" * 150 + b"]" * 150 + b",",
    "deep objects": b'{"a":' * 90 + b"0" + b"}" * 90 + b",",
}
STRINGS = {
    "letters": b"a",
    "escapes": rb"\u00e9",
    "surrogate pairs": rb"\ud83d\ude00",
    "quotes": rb"\"",
    "backslashes": rb"\\",
    "separators": b",[{",
}


def filled(head: bytes, unit: bytes, tail: bytes, size: int) -> bytes:
    """Return as many units as fit in this size, without the last comma."""
    count = (size - len(head) - len(tail)) // len(unit)
    return head + (unit * count).removesuffix(b",") + tail


def hostile(path: str, size: int):
    """Yield hostile bodies of this size for a route, with their names."""
    needed, field = ROUTES[path]
    start = b"{%s, %s: " % (needed, field)
    for name, unit in NESTED.items():
        yield name, filled(start + b"[", unit, b"]}", size)
    for name, unit in STRINGS.items():
        yield name, filled(start + b'["', unit, b'"]}', size)
        yield f"a name of {name}", filled(b'{"', unit, b'": 0}', size)
    yield "keys", b"{%s}" % b",".join(b'"%07x": 0' % number for number in range(size // 13))
    yield "one key", filled(b"{", field + b": 0,", b"}", size)
    yield "only brackets", b"[" * size
    yield "wrong items", start + b"[%s]}" % b",".join([b"0"] * 1_900)
    yield "wrong keys", b"{%s}" % b",".join(b'"%x": 0' % number for number in range(900))
    yield "wrong fields", json.dumps({key: [[]] for key in SCHEMAS[path].model_fields}).encode()


class ParsingCost:
    """Count of values parsed and mistakes described while bodies are read."""

    def __init__(self, monkeypatch):
        self.values = self.mistakes = 0
        from_json, from_validation = json_body.from_json, Problem.from_validation

        def parse(body, **options):
            value = from_json(body, **options)
            self.values += number_of_values(value)
            return value

        def describe(error):
            self.mistakes += len(error.errors())
            return from_validation(error)

        monkeypatch.setattr(json_body, "from_json", parse)
        monkeypatch.setattr(Problem, "from_validation", describe)


def number_of_values(value) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(number_of_values, inner))


@pytest.mark.parametrize("path", ROUTES)
def test_hostile_bodies_are_cheap_to_reject(all_models, path, monkeypatch):
    """A body of the largest size creates few objects, whatever it contains."""
    limits = all_models.limits
    most_mistakes = 4 * len(SCHEMAS[path].model_fields) + 2 * json_body.MAX_KEYS
    for name, body in hostile(path, limits.json_bytes):
        assert len(body) <= limits.json_bytes
        cost = ParsingCost(monkeypatch)
        response = send_request(all_models, "POST", path, content=body, headers=JSON)
        assert 400 <= response.status_code < 500, name
        assert response.json()["error"]["code"] in ("invalid", "bad_json", "no_such_model"), name
        assert len(response.json()["error"]["message"]) <= MAX_MESSAGE, name
        assert cost.values <= limits.json_values + 1, name
        assert cost.mistakes <= most_mistakes, name


@pytest.mark.parametrize("path", ROUTES)
def test_json_bodies_are_limited_to_one_mebibyte(all_models, path):
    body = b" " * (2**20 + 1)
    response = send_request(all_models, "POST", path, content=body, headers=JSON)
    assert response.status_code == 413
    error = response.json()["error"]
    assert error["code"] == "too_large"
    assert "1,048,576 bytes" in error["message"]
    assert "multipart/form-data to /v1/predict: up to 8,388,608 bytes" in error["message"]
    assert send_request(all_models, "POST", path, content=body[1:], headers=JSON).status_code == 400


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beam": 10**400}, "beam"),
        ({"max_length": 10**4000}, "max_length"),
        ({"model": "m" * 10**5}, "no model has this name"),
        ({"k" * 10**5: 1}, "is not a field of this request"),
    ],
)
def test_long_values_are_shortened_in_messages(all_models, changes, message):
    body = json.dumps({"model": "en-fr", "inputs": ["a"], **changes}).encode()
    response = send_request(all_models, "POST", "/v1/predict", content=body, headers=JSON)
    assert response.status_code in (404, 422)
    assert message in response.json()["error"]["message"]
    assert len(response.text) < MAX_MESSAGE + 100


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a,[{"\\}]:é'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='a,["\\'), inner),
    max_leaves=40,
)


@settings(deadline=None, max_examples=200)
@given(value=json_values, ascii_only=st.booleans())
def test_count_values_bounds_the_parsed_values(value, ascii_only):
    body = json.dumps(value, ensure_ascii=ascii_only).encode()
    true = number_of_values(value)  # commas and brackets inside texts do not count
    for most in (5, 1_000):
        counted = count_values(body, most)
        if counted <= most:
            assert true <= counted + 1
    in_texts = count_values(body, 0) if b'"' not in body else None
    assert in_texts is None or true <= in_texts + 1 <= 2 * true


def test_count_values_ignores_separators_inside_texts():
    text = ', [ { " \\ ' * 2_000
    assert count_values(json.dumps({"q": text}).encode(), 100) == 1
    assert count_values(json.dumps([text] * 50).encode(), 100) == 50


# uploads


def form(request, *images, name="image"):
    parts = [] if request is None else [("request", (None, json.dumps(request)))]
    return [*parts, *((name, ("photo.png", image, "image/png")) for image in images)]


@pytest.mark.parametrize("name", ["photos", "captions"])
def test_uploads_give_the_same_answers_as_base64(all_models, name):
    images = [picture(10), picture(12)]
    request = {"model": name, "attention": True}
    sent = {**request, "inputs": [in_base64(image) for image in images]}
    expected = send_request(all_models, "POST", "/v1/predict", json=sent)
    response = send_request(all_models, "POST", "/v1/predict", files=form(request, *images))
    assert response.status_code == 200
    assert response.json() == expected.json()


def test_fields_of_an_upload_may_be_parts_of_a_form(all_models):
    request = {"model": "captions", "attention": True, "beam": 2}
    expected = send_request(
        all_models, "POST", "/v1/predict", files=form(request, picture(10))
    ).json()
    fields = [("model", (None, "captions")), ("attention", (None, "true")), ("beam", (None, "2"))]
    files = [*fields, *form(None, picture(10))]
    assert send_request(all_models, "POST", "/v1/predict", files=files).json() == expected


def large_image() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (700, 700)).save(file, "BMP")
    return file.getvalue()


def test_uploads_may_be_larger_than_json(build):
    middleware, image = build("photos"), large_image()
    body = {"inputs": [in_base64(image)]}
    assert send_request(middleware, "POST", "/v1/predict", json=body).status_code == 413
    assert (
        send_request(middleware, "POST", "/v1/predict", files=form(None, image)).status_code == 200
    )
    too_many = send_request(middleware, "POST", "/v1/predict", files=form(None, *[image] * 6))
    assert too_many.status_code == 413
    assert "8,388,608 bytes" in too_many.json()["error"]["message"]


@pytest.mark.parametrize(
    ("files", "status", "message"),
    [
        (form({"model": "book"}, b"a"), 422, "reads neither images nor vectors"),
        (form({"model": "photos"}, b"a"), 422, "something else"),
        (form({"model": "photos"}), 422, "inputs: "),
        (form({"model": "photos", "inputs": []}, b"a"), 422, "without inputs"),
        (form({"model": "photos", "colour": 1}, b"a"), 422, "colour: "),
        (form([], b"a"), 422, "must be a JSON object"),
        (form({"model": "photos"}, *[b"a"] * 100), 422, "parts; send fewer images"),
        (form({"model": "photos"}, *[b"a"] * 65), 422, "65 inputs, more than the 64"),
        ([("beam", (None, "two")), *form({"model": "captions"}, b"a")], 422, "beam: must be an "),
        ([("inputs", (None, "[]")), *form(None, b"a")], 422, "unexpected part 'inputs'"),
        ([("model", (None, "x" * 2_000)), *form(None, b"a")], 413, "1,024 bytes"),
        ([("model", (None, b"\xff")), *form(None, b"a")], 422, "model is not UTF-8"),
        ([("model", (None, "photos")), *form({"model": "a"}, b"a")], 422, "send it once"),
        (form({}, b"a", name="n" * 3_000), 422, "nnn…nnn"),
        ([*form({}, b"a"), *form({})], 422, "unexpected part 'request'"),
        ([("request", (None, "{"))], 400, "not valid JSON"),
        ([("request", (None, "[" * 3_000))], 422, "2,000 values"),
        ([("request", (None, " " * 2**21))], 413, "1,048,576 bytes"),
    ],
)
def test_rejects_invalid_uploads(all_models, files, status, message):
    response = send_request(all_models, "POST", "/v1/predict", files=files)
    assert response.status_code == status, response.text
    assert message in response.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/translate", "/v1/completions"])
def test_other_routes_reject_uploads(all_models, path):
    response = send_request(all_models, "POST", path, files=form({}, picture()))
    assert (response.status_code, response.json()["error"]["code"]) == (415, "not_json")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--b",
        b"--b--",
        b"--b\r\n",
        b"--b\r\n\r\n\r\n--b--",
        b'--b\r\nContent-Disposition: form-data; name="image"\r\n\r\na',
        b'--b\r\nContent-Disposition: form-data; name="image"\r\n\r\na\r\n--b',
        b'--b\r\nContent-Disposition: form-data; name="image"\r\n--b--',
        b'--b\r\nContent-Disposition: form-data; filename="image"\r\n\r\na\r\n--b--',
        b'--b\r\nContent-Disposition: attachment; name="image"\r\n\r\na\r\n--b--',
        b"preamble\r\n--b--",
    ],
)
def test_rejects_malformed_multipart_bodies(all_models, body):
    headers = {"content-type": "multipart/form-data; boundary=b"}
    response = send_request(all_models, "POST", "/v1/predict", content=body, headers=headers)
    assert 400 <= response.status_code < 500
    assert response.json()["error"]["code"] in ("bad_request", "invalid")
    headers = {"content-type": "multipart/form-data"}
    response = send_request(all_models, "POST", "/v1/predict", content=body, headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "bad_request")


contents = st.binary(max_size=40) | st.sampled_from([b"\r\n", b"\r\n--", b"--b", b"\r\n\r\n", b""])


@settings(deadline=None)
@given(parts=st.lists(st.tuples(st.sampled_from(["request", "image"]), contents), max_size=5))
def test_multipart_parts_round_trip(parts):
    files = [(name, ("f", content)) for name, content in parts]
    request = httpx.Request("POST", "http://a", files=files or [("image", ("f", b""))])
    boundary = boundary_of(request.headers["content-type"])
    parsed = [(part.name, part.content) for part in parts_of(request.read(), boundary, most=9)]
    assert parsed == (parts or [("image", b"")])


@settings(deadline=None)
@given(body=st.lists(contents | st.just(b'--b\r\nContent-Disposition: form-data; name="a"')))
def test_multipart_parser_returns_parts_or_raises_a_problem(body):
    with contextlib.suppress(Problem):
        assert len(parts_of(b"".join(body), "b", most=3)) <= 3
