"""The page of records: its content, precision and size, and that no text can run as code."""

import base64
import hashlib
import io
import json
import re
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import saccade
from saccade.errors import FigureError
from saccade.lens.page import page, view_inputs
from saccade.lens.page.view import packed, steps
from saccade.lens.record import AttentionRecord, ImageSide, Side
from saccade.lens.record.sides import LONGEST_SIDE
from tests.pages import Seen

READ = Side(("▁un", "▁chat", "on", "</s>"), ("un", "chaton"), (0, 1, 1, None))
WROTE = Side(("▁a", "</s>"), ("a",), (0, None))


def weights(*shape, seed=0, sharp=1.0):
    """Return the softmax of noise."""
    raised = np.exp(sharp * np.random.default_rng(seed).normal(size=shape))
    return (raised / raised.sum(-1, keepdims=True)).astype(np.float32)


def unpacked(text, shape):
    """Unpack weights as the script of the page does."""
    content = zlib.decompress(base64.b64decode(text))
    rows = shape[0] * shape[1]
    scale = np.frombuffer(content, "<f4", rows).reshape(*shape[:2], 1)
    return np.frombuffer(content, np.uint8, offset=4 * rows).reshape(shape) * scale


def translation(seed=0):
    return AttentionRecord(
        READ, WROTE, {"cross.0": weights(3, 2, 4, seed=seed), "cross.1": weights(1, 2, 4)}
    )


# numbers


@pytest.mark.parametrize("sharp", [0.0, 1.0, 5.0, 40.0])
@pytest.mark.parametrize("shape", [(2, 3, 5), (1, 7, 300), (1, 1, 1)])
def test_weights_have_an_error_of_at_most_half_a_step(shape, sharp):
    exact = weights(*shape, sharp=sharp)
    step = steps(exact)
    assert (np.abs(unpacked(packed(exact, "l"), shape) - exact) <= 0.501 * step[..., None]).all()
    coarsest = np.maximum(exact.max(2) / 255, 1 / (16 * max(256, shape[2])))
    assert step == pytest.approx(coarsest)


def test_packing_a_row_by_hand():
    """The largest weight is 0.51, so a step is 0.002: 255, 120, 122.25 and 0 steps."""
    exact = np.array([[[0.51, 0.24, 0.2445, 0.0], [0.0, 0.0, 0.0, 0.0]]], np.float32)
    assert steps(exact) == pytest.approx(np.array([[0.002, 1 / 4096]]))
    shown = unpacked(packed(exact, "l"), (1, 2, 4))
    assert shown[0, 0] == pytest.approx([0.51, 0.24, 0.244, 0], abs=1e-6)
    assert not shown[0, 1].any()


def test_a_large_record_fits_into_ten_megabytes():
    """12 layers of 12 heads of 256 × 256: 12 times the size of one layer. Uniform noise is the
    hardest to pack of all rows that sum to 1.
    """
    noise = np.random.default_rng(0)
    for layer in (
        weights(12, 256, 256),
        noise.dirichlet(np.ones(256), (12, 256)).astype(np.float32),
        noise.dirichlet(np.full(256, 3.0), (12, 256)).astype(np.float32),
    ):
        assert 12 * len(packed(layer, "l")) < 9.9e6


def test_raises_on_negative_weights():
    record = AttentionRecord(READ, WROTE, {"odd": np.full((1, 2, 4), -0.1)})
    with pytest.raises(FigureError, match="layer 'odd' has negative weights"):
        record.to_html()


# content


def test_a_record_in_the_format_of_the_view():
    record = translation()
    ((model,),) = view_inputs(record)
    assert (model["name"], model["read"]["tokens"], model["wrote"]["words"]) == (
        "",
        READ.tokens,
        ("a",),
    )
    assert [(layer["name"], layer["heads"]) for layer in model["layers"]] == [
        ("cross.0", 3),
        ("cross.1", 1),
    ]
    for layer in model["layers"]:
        exact = record.weights[layer["name"]]
        assert unpacked(layer["weights"], exact.shape) == pytest.approx(exact, abs=2e-3)


def test_self_attention_has_one_side():
    ((model,),) = view_inputs(AttentionRecord(READ, READ, {"l": weights(1, 4, 4)}))
    assert model["wrote"] is None


@pytest.mark.parametrize(
    ("size", "kind", "kept"),
    [
        ((20, 30), "PNG", (20, 30)),
        ((1000, 1500), "JPEG", (427, 640)),
        ((1, 5000), "PNG", (1, 640)),
    ],
)
def test_a_large_image_is_reduced(size, kind, kept):
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3)).astype(np.uint8)
    image = ImageSide(pixels, (2, 3), class_token=True)
    ((model,),) = view_inputs(AttentionRecord(image, image, {"l": weights(1, 7, 7)}))
    side = model["read"]
    assert (side["kind"], side["grid"], side["class_token"]) == ("image", (2, 3), True)
    shown = Image.open(io.BytesIO(base64.b64decode(side["image"])))
    assert (shown.format, shown.size) == (kind, kept[::-1])
    if max(size) < LONGEST_SIDE:
        assert np.array_equal(np.asarray(shown), pixels)


def test_one_record_several_and_models_side_by_side():
    one, other = translation(), translation(1)
    assert [len(row) for row in view_inputs([one, other])] == [1, 1]
    assert [len(row) for row in view_inputs({"rnn": one, "transformer": other})] == [2]
    rows = view_inputs({"rnn": [one, other], "transformer": [other, one]})
    assert [[model["name"] for model in row] for row in rows] == [["rnn", "transformer"]] * 2
    assert rows[0][0]["layers"] == rows[1][1]["layers"] != rows[0][1]["layers"]


def test_raises_on_different_numbers_of_records_and_on_none():
    one = translation()
    with pytest.raises(FigureError, match="'rnn' has 1, 'transformer' has 2"):
        page({"rnn": one, "transformer": [one, one]})
    for nothing in ([], {}, {"rnn": []}):
        with pytest.raises(FigureError, match="at least one record"):
            page(nothing)


def test_a_record_without_attention_has_a_page():
    text = AttentionRecord(READ, WROTE, {}).to_html()
    ((model,),) = json.loads(Seen(text).inside["script application/json"])
    assert model["layers"] == []


def test_saving_writes_one_file_with_the_same_bytes_each_time(tmp_path):
    path = translation().save(tmp_path / "deep" / "look.html")
    assert [file.name for file in path.parent.iterdir()] == ["look.html"]
    assert path.read_bytes() == translation().to_html().encode()


# safe


HOSTILE = ["</script><script>x()</script>", "<!--", "-->", "]]>", "\u2028\u2029", "\ud800", "\x00"]


def test_no_text_can_end_its_element_and_all_are_preserved():
    words = [*HOSTILE, '"', "'", "\\", "&lt;", "$title", "שלום", "漢字", "🙂"]
    side = Side.of_words(words)
    size = len(words)
    record = AttentionRecord(side, side, {"</script>": weights(1, size, size)})
    text = page({"<b>&": record}, title='</title><script>"$style')
    text.encode()  # raises if a lone surrogate is left
    seen = Seen(text)
    assert seen.names == Seen(translation().to_html()).names
    ((model,),) = json.loads(seen.inside["script application/json"])
    assert model["read"]["words"] == words
    assert (model["name"], model["layers"][0]["name"]) == ("<b>&", "</script>")
    assert seen.inside["title"] == '</title><script>"$style'


def test_the_policy_allows_only_its_own_script_and_style():
    seen = Seen(translation().to_html())
    allowed = dict(seen.policy)
    for name, kind in (("script-src", "script module"), ("style-src", "style")):
        digest = base64.b64encode(hashlib.sha256(seen.inside[kind].encode()).digest()).decode()
        assert allowed.pop(name) == f"'sha256-{digest}'"
    assert allowed.pop("img-src") == "data:"
    assert set(allowed) == {"default-src", "base-uri", "form-action"}
    assert set(allowed.values()) == {"'none'"}


@pytest.mark.parametrize("package", ["lens", "serve"])
def test_modules_of_the_pages_are_short(package):
    for path in (Path(saccade.__file__).parent / package / "page").glob("*.js"):
        assert len(path.read_text(encoding="utf-8").splitlines()) < 400, path.name


def test_nothing_is_loaded_and_no_text_is_inserted_as_markup():
    seen = Seen(translation().to_html())
    assert not seen.attributes & {"src", "href", "style", "onload"}
    script = re.sub(r"/\*.*?\*/", "", seen.inside["script module"], flags=re.DOTALL)
    forbidden = r"innerHTML|outerHTML|insertAdj|document\.write|eval\(|fetch\(|import\(|Function\("
    assert not re.search(forbidden, script)
    script = script.replace('"http://www.w3.org/2000/svg"', "")  # a namespace, never loaded
    assert not re.search(r"https?:|url\(|@import", script + seen.inside["style"])
