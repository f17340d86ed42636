"""Bodies: what they may cost to read, and uploads."""

import contextlib
import io
import json

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from saccade.serve import app
from saccade.serve import json_body as strict
from saccade.serve.json_body import count_values
from saccade.serve.multipart import boundary_of, parts_of
from saccade.serve.problems import LONGEST_MESSAGE, Problem
from saccade.serve.schemas import CompletionRequest, PredictRequest, TranslateRequest
from tests.serve.conftest import asked, in_base64, picture

JSON = {"content-type": "application/json"}
ROUTES = {
    "/v1/predict": (b'"model": "book"', b'"inputs"'),
    "/translate": (b'"source": "en", "target": "fr"', b'"q"'),
    "/v1/completions": (b'"model": "book"', b'"prompt"'),
}
"""The routes that read a body: fields that they need, and the one that holds the texts."""
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
    """As many units as fit in this size, without the last comma."""
    count = (size - len(head) - len(tail)) // len(unit)
    return head + (unit * count).removesuffix(b",") + tail


def hostile(path: str, size: int):
    """Bodies of this size for a route, by what is hostile about them."""
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


class Work:
    """How much was done to read bodies: values parsed, and mistakes described."""

    def __init__(self, monkeypatch):
        self.values = self.mistakes = 0
        from_json, invalid = strict.from_json, app.invalid

        def parse(body, **options):
            value = from_json(body, **options)
            self.values += number_of_values(value)
            return value

        def describe(error):
            self.mistakes += len(error.errors())
            return invalid(error)

        monkeypatch.setattr(strict, "from_json", parse)
        monkeypatch.setattr(app, "invalid", describe)


def number_of_values(value) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(number_of_values, inner))


@pytest.mark.parametrize("path", ROUTES)
def test_hostile_bodies_cost_little(everything, path, monkeypatch):
    """Whatever a body of the largest size holds, few objects are made of it."""
    limits = everything.limits
    most_mistakes = 4 * len(SCHEMAS[path].model_fields) + 2 * strict.MOST_KEYS
    for name, body in hostile(path, limits.json):
        assert len(body) <= limits.json
        work = Work(monkeypatch)
        found = asked(everything, "POST", path, content=body, headers=JSON)
        assert 400 <= found.status_code < 500, name
        assert found.json()["error"]["code"] in ("invalid", "bad_json", "no_such_model"), name
        assert len(found.json()["error"]["message"]) <= LONGEST_MESSAGE, name
        assert work.values <= limits.values + 1, name
        assert work.mistakes <= most_mistakes, name


@pytest.mark.parametrize("path", ROUTES)
def test_json_may_have_one_mebibyte(everything, path):
    body = b" " * (2**20 + 1)
    found = asked(everything, "POST", path, content=body, headers=JSON)
    assert found.status_code == 413
    said = found.json()["error"]
    assert said["code"] == "too_large"
    assert "1,048,576 bytes" in said["message"]
    assert "multipart/form-data to /v1/predict: up to 8,388,608 bytes" in said["message"]
    assert asked(everything, "POST", path, content=body[1:], headers=JSON).status_code == 400


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"beam": 10**400}, "beam"),
        ({"max_length": 10**4000}, "max_length"),
        ({"model": "m" * 10**5}, "no such model"),
        ({"k" * 10**5: 1}, "Extra inputs"),
    ],
)
def test_long_values_are_shortened_in_messages(everything, changes, said):
    body = json.dumps({"model": "en-fr", "inputs": ["a"], **changes}).encode()
    found = asked(everything, "POST", "/v1/predict", content=body, headers=JSON)
    assert found.status_code in (404, 422)
    assert said in found.json()["error"]["message"]
    assert len(found.text) < LONGEST_MESSAGE + 100


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a,[{"\\}]:é'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='a,["\\'), inner),
    max_leaves=40,
)


@settings(deadline=None, max_examples=200)
@given(value=json_values, ascii_only=st.booleans())
def test_values_are_counted_without_parsing(value, ascii_only):
    body = json.dumps(value, ensure_ascii=ascii_only).encode()
    true = number_of_values(value)  # a text may hold commas and brackets, which do not count
    for most in (5, 1_000):
        found = count_values(body, most)
        if found <= most:
            assert true <= found + 1
    in_texts = count_values(body, 0) if b'"' not in body else None
    assert in_texts is None or true <= in_texts + 1 <= 2 * true


def test_text_is_not_counted_as_values():
    text = ', [ { " \\ ' * 2_000
    assert count_values(json.dumps({"q": text}).encode(), 100) == 1
    assert count_values(json.dumps([text] * 50).encode(), 100) == 50


# uploads


def form(request, *images, name="image"):
    parts = [] if request is None else [("request", (None, json.dumps(request)))]
    return [*parts, *((name, ("photo.png", image, "image/png")) for image in images)]


@pytest.mark.parametrize("name", ["photos", "said"])
def test_uploads_are_answered_as_base64_is(everything, name):
    images = [picture(10), picture(12)]
    request = {"model": name, "attention": True}
    sent = {**request, "inputs": [in_base64(image) for image in images]}
    wanted = asked(everything, "POST", "/v1/predict", json=sent)
    found = asked(everything, "POST", "/v1/predict", files=form(request, *images))
    assert found.status_code == 200
    assert found.json() == wanted.json()


def large_image() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (700, 700)).save(file, "BMP")
    return file.getvalue()


def test_large_images_are_uploaded(build):
    gate, image = build("photos"), large_image()
    body = {"inputs": [in_base64(image)]}
    assert asked(gate, "POST", "/v1/predict", json=body).status_code == 413
    assert asked(gate, "POST", "/v1/predict", files=form(None, image)).status_code == 200
    too_many = asked(gate, "POST", "/v1/predict", files=form(None, *[image] * 6))
    assert too_many.status_code == 413
    assert "8,388,608 bytes" in too_many.json()["error"]["message"]


@pytest.mark.parametrize(
    ("files", "status", "said"),
    [
        (form({"model": "book"}, b"a"), 422, "does not read images"),
        (form({"model": "photos"}, b"a"), 422, "something else"),
        (form({"model": "photos"}), 422, "inputs: "),
        (form({"model": "photos", "inputs": []}, b"a"), 422, "without inputs"),
        (form({"model": "photos", "colour": 1}, b"a"), 422, "colour: "),
        (form([], b"a"), 422, "must be a JSON object"),
        (form({"model": "photos"}, *[b"a"] * 65), 422, "65 parts"),
        (form({}, b"a", name="n" * 3_000), 422, "nnn…nnn"),
        ([*form({}, b"a"), *form({})], 422, "unexpected part 'request'"),
        ([("request", (None, "{"))], 400, "not valid JSON"),
        ([("request", (None, "[" * 3_000))], 422, "2,000 values"),
        ([("request", (None, " " * 2**21))], 413, "1,048,576 bytes"),
    ],
)
def test_uploads_that_are_not_answered(everything, files, status, said):
    found = asked(everything, "POST", "/v1/predict", files=files)
    assert found.status_code == status, found.text
    assert said in found.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/translate", "/v1/completions"])
def test_other_routes_take_no_uploads(everything, path):
    found = asked(everything, "POST", path, files=form({}, picture()))
    assert (found.status_code, found.json()["error"]["code"]) == (415, "not_json")


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
def test_malformed_uploads(everything, body):
    headers = {"content-type": "multipart/form-data; boundary=b"}
    found = asked(everything, "POST", "/v1/predict", content=body, headers=headers)
    assert 400 <= found.status_code < 500
    assert found.json()["error"]["code"] in ("bad_request", "invalid")
    headers = {"content-type": "multipart/form-data"}
    found = asked(everything, "POST", "/v1/predict", content=body, headers=headers)
    assert (found.status_code, found.json()["error"]["code"]) == (400, "bad_request")


contents = st.binary(max_size=40) | st.sampled_from([b"\r\n", b"\r\n--", b"--b", b"\r\n\r\n", b""])


@settings(deadline=None)
@given(parts=st.lists(st.tuples(st.sampled_from(["request", "image"]), contents), max_size=5))
def test_parts_are_read_as_they_were_written(parts):
    files = [(name, ("f", content)) for name, content in parts]
    request = httpx.Request("POST", "http://a", files=files or [("image", ("f", b""))])
    boundary = boundary_of(request.headers["content-type"])
    found = [(part.name, part.content) for part in parts_of(request.read(), boundary, most=9)]
    assert found == (parts or [("image", b"")])


@settings(deadline=None)
@given(body=st.lists(contents | st.just(b'--b\r\nContent-Disposition: form-data; name="a"')))
def test_bodies_of_any_kind_are_parts_or_a_problem(body):
    with contextlib.suppress(Problem):
        assert len(parts_of(b"".join(body), "b", most=3)) <= 3
