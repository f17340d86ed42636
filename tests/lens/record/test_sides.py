"""Images as a side of attention records: checks, numbers and files."""

import base64
import io
import json
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from saccade.errors import FigureError, ShapeError
from saccade.lens.faithfulness.pointing import pointing_game
from saccade.lens.record import AttentionRecord, ImageSide, Side, sides

RANDOM = np.random.default_rng(5)
PIXELS = RANDOM.integers(0, 256, (10, 14, 3)).astype(np.uint8)
CAPTION = Side(("a", "▁kit", "ten", "</s>"), ("a", "kitten"), (0, 1, 1, None))
CELLS = np.array(
    [
        [0.1, 0.4, 0.1, 0.1, 0.2, 0.1],
        [0.0, 0.0, 0.0, 0.0, 0.5, 0.5],
        [0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        [1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    ]
)


def chunk(kind, data):
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))


def png_of_size(width, height):
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = chunk(b"IDAT", zlib.compress(b"\0" * 100))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data + chunk(b"IEND", b"")


@pytest.fixture
def captioned():
    return AttentionRecord(ImageSide(PIXELS, (2, 3)), CAPTION, {"cross": CELLS[None]})


@pytest.fixture
def seen():
    image = ImageSide(PIXELS, (2, 3), class_token=True)
    weights = np.random.default_rng(1).dirichlet(np.ones(7), (2, 7))
    return AttentionRecord(image, image, {"layers.0": weights, "layers.1": weights[::-1]})


# tokens and cells


def test_the_tokens_of_an_image_are_its_cells_row_by_row():
    image = ImageSide(PIXELS, (2, 3))
    assert image.words == ("0,0", "0,1", "0,2", "1,0", "1,1", "1,2")
    assert image.tokens == image.words
    assert (image.membership() == np.eye(6)).all()


def test_the_class_token_comes_before_the_cells_and_is_not_a_cell():
    image = ImageSide(PIXELS, (1, 2), class_token=True)
    assert image.tokens == ("[CLS]", "0,0", "0,1")
    assert image.membership().tolist() == [[0, 0], [1, 0], [0, 1]]


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1)])
def test_grey_images_get_three_equal_colours(shape):
    grey = RANDOM.integers(0, 256, shape).astype(np.uint8)
    image = ImageSide(grey, (1, 1))
    assert image.pixels.shape == (5, 7, 3)
    assert all((image.pixels[:, :, i] == grey.reshape(5, 7)).all() for i in range(3))


def test_an_image_copies_its_pixels():
    pixels = PIXELS.copy()
    image = ImageSide(pixels, (1, 1))
    pixels[:] = 0
    assert (image.pixels == PIXELS).all()
    with pytest.raises(ValueError, match="read-only"):
        image.pixels[0] = 0


def test_images_are_compared_by_value():
    image = ImageSide(PIXELS, (2, 3), class_token=True)
    assert image == ImageSide(PIXELS.copy(), (2, 3), class_token=True)
    assert image != ImageSide(PIXELS, (3, 2), class_token=True)
    assert image != ImageSide(PIXELS, (2, 3))
    assert image != ImageSide(PIXELS[::-1], (2, 3), class_token=True)
    assert image != Side.of_words(["a"])
    assert repr(image) == "ImageSide(10 × 14 pixels, grid=(2, 3), class_token=True)"


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (np.zeros((4, 4, 3)), "got float64 of"),
        (np.zeros((4, 4, 3), np.int64), "got int64"),
        (np.zeros((3, 4, 4), np.uint8), r"\(3, 4, 4\)"),
        (np.zeros((4, 4, 4), np.uint8), r"\(4, 4, 4\)"),
        (np.zeros(4, np.uint8), r"\(4,\)"),
        (np.zeros((1, 4, 4, 3), np.uint8), r"\(1, 4, 4, 3\)"),
        (np.zeros((0, 4, 3), np.uint8), "got 0 × 4"),
    ],
)
def test_raises_on_invalid_pixels(pixels, message):
    with pytest.raises(ShapeError, match=message):
        ImageSide(pixels, (1, 1))


def test_raises_on_an_image_that_is_too_large(monkeypatch):
    monkeypatch.setattr(sides, "MOST_PIXELS", 100)
    with pytest.raises(ShapeError, match="1 to 100 pixels, got 10 × 14; make it smaller"):
        ImageSide(PIXELS, (1, 1))


@pytest.mark.parametrize("grid", [(0, 3), (2, -1), (0, 0)])
def test_raises_on_invalid_grids(grid):
    with pytest.raises(ShapeError, match=r"\(rows, columns\)"):
        ImageSide(PIXELS, grid)


def test_raises_on_weights_that_do_not_fit_the_cells():
    image = ImageSide(PIXELS, (2, 3), class_token=True)
    with pytest.raises(ShapeError, match=r"4 tokens written, 7 tokens read\), got \(1, 4, 6\)"):
        AttentionRecord(image, CAPTION, {"cross": CELLS[None]})


# numbers


def test_by_words_of_a_caption_over_cells(captioned):
    """A word of two tokens is their mean; the stop token is not a word."""
    expected = [CELLS[0], (CELLS[1] + CELLS[2]) / 2]
    assert captioned.by_words() == pytest.approx(np.array(expected))
    assert captioned.alignment() == {(1, 0), (4, 1)}


def test_attention_to_the_class_token_is_left_out():
    image = ImageSide(PIXELS, (1, 2), class_token=True)
    record = AttentionRecord(image, Side.of_words(["a"]), {"l": np.array([[[0.7, 0.1, 0.2]]])})
    assert record.by_words() == pytest.approx(np.array([[0.1, 0.2]]))


def test_the_pointing_game_takes_weights_of_a_record(captioned):
    """The word kitten attends to the middle cell of the second row, where its box is."""
    box = (5, 5, 9, 10)
    game = pointing_game([captioned.by_words()], [[(1, box)]], (2, 3), (10, 14))
    assert (game.hits, game.count) == (1, 1)


def test_a_glance_is_the_row_of_the_class_token(seen):
    """The attention of the class token to itself is left out."""
    assert seen.glance() == pytest.approx(seen.rollout()[0, 1:])
    assert seen.glance("layers.0") == pytest.approx(seen.mean("layers.0")[0, 1:])
    assert seen.glance("layers.1", 1) == pytest.approx(seen.weights["layers.1"][1, 0, 1:])
    assert seen.glance(head=1) == pytest.approx(seen.rollout(1)[0, 1:])


def test_without_a_class_token_a_glance_is_the_mean_of_all_cells():
    image = ImageSide(PIXELS, (1, 2))
    record = AttentionRecord(image, image, {"l": np.array([[[0.2, 0.8], [0.6, 0.4]]])})
    assert record.glance("l") == pytest.approx([0.4, 0.6])
    assert record.glance() == pytest.approx([0.45, 0.55])


# files


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_images_survive_in_files(tmp_path, captioned, seen, suffix):
    for record in (captioned, seen):
        again = AttentionRecord.load(record.save(tmp_path / f"a{suffix}"))
        assert again.read == record.read
        assert again.wrote == record.wrote
        assert again.layers == record.layers
        assert again.mean() == pytest.approx(record.mean(), abs=1e-5)
        assert again.to_json() == record.to_json()


def test_json_stores_the_image_once_as_png(seen):
    saved = json.loads(seen.to_json())
    assert saved["wrote"] == {"kind": "read"}
    assert (saved["read"]["grid"], saved["read"]["class_token"]) == ([2, 3], True)
    image = Image.open(io.BytesIO(base64.b64decode(saved["read"]["png"])))
    assert (image.format, image.mode) == ("PNG", "RGB")
    assert (np.array(image) == PIXELS).all()


def as_png(image):
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "1", "I;16"])
def test_pngs_of_other_modes_are_read(captioned, mode):
    """Another program may have written the record."""
    saved = json.loads(captioned.to_json())
    shown = Image.new(mode, (6, 4))
    saved["read"]["png"] = base64.b64encode(as_png(shown)).decode()
    assert AttentionRecord.from_json(json.dumps(saved)).read.pixels.shape == (4, 6, 3)


JPEG = io.BytesIO()
Image.fromarray(PIXELS).save(JPEG, "JPEG")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("png", None),
        ("png", 3),
        ("png", ""),
        ("png", "no base 64!"),
        ("png", "é"),
        ("png", base64.b64encode(b"no image").decode()),
        ("png", base64.b64encode(JPEG.getvalue()).decode()),
        ("png", base64.b64encode(as_png(Image.fromarray(PIXELS))[:-30]).decode()),
        ("png", base64.b64encode(png_of_size(8000, 8000)).decode()),
        ("png", base64.b64encode(png_of_size(12000, 12000)).decode()),
        ("png", base64.b64encode(png_of_size(60000, 60000)).decode()),
        ("png", base64.b64encode(png_of_size(50, 50)).decode()),
        ("grid", [2]),
        ("grid", [2, 4]),
        ("grid", [2.0, 3.0]),
        ("grid", [True, 6]),
        ("grid", [0, 6]),
        ("grid", None),
        ("class_token", 1),
        ("class_token", True),
        ("kind", "sound"),
        ("kind", "read"),
    ],
)
def test_raises_on_damaged_images(captioned, key, value):
    saved = json.loads(captioned.to_json())
    saved["read"][key] = value
    with pytest.raises(FigureError, match="not an attention record"):
        AttentionRecord.from_json(json.dumps(saved))


@pytest.mark.parametrize("pixels", [None, np.zeros((2, 2)), np.zeros(3, np.uint8)])
def test_raises_on_missing_or_damaged_pixels_in_a_file(tmp_path, captioned, pixels):
    path = captioned.save(tmp_path / "a.npz")
    with np.load(path) as arrays:
        kept = {name: arrays[name] for name in arrays if name != "pixels"}
    np.savez(path, **kept, **({} if pixels is None else {"pixels": pixels}))
    with pytest.raises(FigureError, match="not an attention record"):
        AttentionRecord.load(path)


def test_a_damaged_png_raises_or_is_harmless(captioned):
    saved = json.loads(captioned.to_json())
    content = base64.b64decode(saved["read"]["png"])
    errors = 0
    for _ in range(150):
        damaged = bytearray(content)
        damaged[RANDOM.integers(len(content))] ^= int(RANDOM.integers(1, 256))
        saved["read"]["png"] = base64.b64encode(bytes(damaged)).decode()
        try:
            AttentionRecord.from_json(json.dumps(saved))
        except FigureError:
            errors += 1
    assert errors > 50
