"""Attention over images: what is drawn, where, and which numbers are kept."""

import io
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from saccade.errors import FigureError, SaccadeError, ShapeError, WatchError
from saccade.lens.drawing.figures import heatmap
from saccade.lens.drawing.overlays import MOST_PANELS, overlays, upsample
from saccade.lens.record import AttentionRecord, ImageSide, Side

PIXELS = np.random.default_rng(2).integers(0, 256, (20, 30, 3)).astype(np.uint8)
GRID = (2, 3)
IMAGE = ImageSide(PIXELS, GRID)
GREY = np.full((32, 32, 3), 128, np.uint8)


def captioned(words, image=IMAGE, seed=0):
    side = Side.of_words(words, stop="</s>")
    cells = len(image.tokens)
    weights = np.random.default_rng(seed).dirichlet(np.ones(cells), (2, len(side.tokens)))
    return AttentionRecord(image, side, {"cross.0": weights, "cross.1": weights[::-1]})


def looking(image, layers=3, seed=0):
    n = len(image.tokens)
    weights = np.random.default_rng(seed).dirichlet(np.ones(n), (layers, 2, n))
    return AttentionRecord(image, image, {f"layers.{i}": weights[i] for i in range(layers)})


def written(chart):
    return [text.get_text() for text in chart.texts]


def panels(chart):
    return [np.asarray(image.get_array()) for image in chart.axes[0].images]


def brightness(panel):
    return panel.astype(float) @ [0.2126, 0.7152, 0.0722]


# cells over an image


def test_upsampling_by_hand():
    """Two cells over four pixels: cell centres at 1 and 3, pixel centres at 0.5 1.5 2.5 3.5."""
    assert upsample(np.array([[0.0, 1.0]]), (1, 4)).tolist() == [[0.0, 0.25, 0.75, 1.0]]
    assert upsample(np.array([[2.0]]), (2, 3)).tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize("grid", [(2, 3), (7, 7), (1, 5)])
def test_upsampling_keeps_the_centre_of_each_cell(grid):
    cells = np.random.default_rng(0).random(grid)
    stretched = upsample(cells, (grid[0] * 9, grid[1] * 15))
    assert stretched[4::9, 7::15] == pytest.approx(cells)
    assert stretched.min() >= cells.min() - 1e-6
    assert stretched.max() <= cells.max() + 1e-6


@pytest.mark.parametrize("size", [(32, 32), (20, 60), (60, 20)])
def test_heat_lies_over_its_cell_for_any_aspect(size):
    pixels = np.full((*size, 3), 128, np.uint8)
    for row, column in [(0, 0), (1, 2), (3, 1)]:
        weights = np.zeros((1, 16))
        weights[0, 4 * row + column] = 0.5
        light = brightness(panels(overlays(pixels, (4, 4), weights, ["word"]))[1])
        height, width = light.shape
        assert height / width == pytest.approx(size[0] / size[1], rel=0.02)
        spot = light[(2 * row + 1) * height // 8, (2 * column + 1) * width // 8]
        assert spot == pytest.approx(light.max(), abs=4)
        assert spot > 1.5 * light[(2 * row + 5) % 8 * height // 8, 0]


@pytest.mark.parametrize("ground", [0, 128, 255])
def test_more_weight_is_brighter_on_any_image(ground):
    """So that the colours can be distinguished in grey."""
    pixels = np.full((8, 8, 3), ground, np.uint8)
    light = brightness(panels(overlays(pixels, (1, 6), np.arange(6.0)[None] / 5, ["word"]))[1])
    row = light[0, :: light.shape[1] // 12][1::2]
    assert (np.diff(row) > 8).all()


# captions


def test_a_caption_has_the_image_and_one_panel_per_word():
    """A map over the image per word of the caption (C4, J3)."""
    chart = captioned(["a", "red", "cat"]).figure()
    shown = panels(chart)
    assert len(shown) == 4
    small = np.asarray(Image.fromarray(shown[0]).resize((30, 20), Image.Resampling.BOX))
    assert abs(small.astype(int) - PIXELS).mean() < 12  # in its own colours
    words = [text for text in written(chart) if text in {"image", "a", "red", "cat", "</s>"}]
    assert words == ["image", "a", "red", "cat"]
    assert chart.get_suptitle() == "mean of 2 layers, mean of heads"


def test_a_caption_keeps_its_numbers(tmp_path):
    record = captioned(["a", "cat"])
    chart = record.figure("cross.1", 0)
    assert chart.numbers["words"] == ["a", "cat"]
    assert chart.numbers["grid"] == [2, 3]
    assert np.array(chart.numbers["weights"]) == pytest.approx(record.by_words("cross.1", 0))
    chart.save(tmp_path / "a.png")
    assert json.loads((tmp_path / "a.json").read_text()) == chart.numbers
    peak = record.by_words("cross.1", 0)[1].max()
    assert f"max {peak:.2g}" in written(chart)
    assert chart.get_suptitle() == "cross.1, head 0"


def test_tokens_instead_of_words():
    record = captioned(["a", "cat"], ImageSide(PIXELS, (2, 3), class_token=True))
    chart = record.figure(words=False)
    assert chart.numbers["words"] == ["a", "cat", "</s>"]
    assert np.array(chart.numbers["weights"]) == pytest.approx(record.mean()[:, 1:])


@pytest.mark.filterwarnings("ignore:Glyph .* missing from")  # where no such font is installed
@pytest.mark.parametrize("aspect", [(30, 30), (20, 40), (40, 20), (10, 90), (90, 10)])
@pytest.mark.parametrize("words", [1, 4, 30])
def test_up_to_thirty_words_are_readable_and_none_is_clipped(aspect, words):
    names = ["internationalisation-of-it", "中文" * 5, *(f"word-{i}" for i in range(28))][:words]
    image = ImageSide(np.zeros((*aspect, 3), np.uint8), (2, 3))
    chart = captioned(names, image).figure()
    chart.draw_without_rendering()
    canvas = chart.get_window_extent()
    assert max(chart.get_size_inches()) < 16
    labels = [text for text in chart.texts if text.get_text()]
    assert len(labels) == 2 * words + 2
    boxes = [text.get_window_extent() for text in labels]
    for text, box in zip(labels, boxes, strict=True):
        assert text.get_size() >= 4
        assert canvas.x0 <= box.x0 < box.x1 <= canvas.x1
        assert canvas.y0 <= box.y0 < box.y1 <= canvas.y1
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i])
    places = [image.get_window_extent() for image in chart.axes[0].images]
    assert len(places) == words + 1
    assert not any(place.overlaps(box) for place in places for box in boxes)
    bar = chart.axes[1].get_tightbbox()
    assert canvas.x0 <= bar.x0 < bar.x1 <= canvas.x1
    assert canvas.y0 <= bar.y0 < bar.y1 <= canvas.y1
    assert not any(bar.overlaps(place) for place in places)


def test_a_very_long_caption_is_cut_and_the_title_reports_it():
    record = captioned([f"w{i}" for i in range(700)])
    chart = record.figure()
    assert len(panels(chart)) == MOST_PANELS + 1
    assert chart.get_suptitle().endswith("mean of heads, first 60 of 700 words")
    assert len(chart.numbers["weights"]) == 700


@pytest.mark.parametrize("stop", [None, "</s>"])
def test_an_empty_caption_shows_the_image_alone(tmp_path, stop):
    side = Side.of_words([], stop=stop)
    weights = np.full((1, len(side.tokens), 6), 1 / 6)
    record = AttentionRecord(IMAGE, side, {"cross": weights})
    chart = record.figure()
    assert "no words were written" in written(chart)
    assert len(panels(chart)) == 1
    assert record.save(tmp_path / "a.png").exists()
    assert AttentionRecord.load(tmp_path / "a.json").wrote == side
    assert "tokens written" in record._repr_html_()


def test_a_word_without_attention_is_drawn():
    chart = overlays(PIXELS, GRID, np.zeros((1, 6)), ["lost"])
    assert "max 0" in written(chart)
    assert np.isfinite(panels(chart)[1]).all()


@pytest.mark.parametrize("word", ["$", r"$\frac{", "<i>&", "", "\ud800", "a\nb", "שלום", "x" * 500])
def test_odd_words_are_drawn(tmp_path, word):
    record = captioned([word])
    for suffix in (".png", ".svg"):
        assert record.save(tmp_path / f"a{suffix}").stat().st_size > 1000
    assert AttentionRecord.load(tmp_path / "a.json").wrote.words == (word,)


# an image alone


def test_an_image_alone_shows_the_rollout_from_its_class_token():
    """Attention from the class token to the patches (J4)."""
    record = looking(ImageSide(PIXELS, (2, 3), class_token=True))
    chart = record.figure()
    assert len(panels(chart)) == 2
    assert chart.numbers["words"] == ["seen by class token"]
    assert np.array(chart.numbers["weights"][0]) == pytest.approx(record.rollout()[0, 1:])
    assert chart.get_suptitle() == "rollout through 3 layers, mean of heads"


def test_an_image_alone_shows_a_chosen_layer_or_head():
    record = looking(ImageSide(PIXELS, (2, 3), class_token=True))
    chart = record.figure("layers.1", 1)
    weights = record.weights["layers.1"][1, 0, 1:]
    assert np.array(chart.numbers["weights"][0]) == pytest.approx(weights)
    assert chart.get_suptitle() == "layers.1, head 1"
    assert record.figure(head=0).get_suptitle() == "rollout through 3 layers, head 0"
    one = record.slice(layers=["layers.1"]).figure()
    assert one.get_suptitle() == "rollout through layers.1, mean of heads"


def test_without_a_class_token_the_mean_of_all_cells_is_drawn():
    record = looking(IMAGE)
    chart = record.figure()
    assert chart.numbers["words"] == ["seen by all cells"]
    assert np.array(chart.numbers["weights"][0]) == pytest.approx(record.rollout().mean(0))


@pytest.mark.parametrize("class_token", [False, True])
def test_a_grid_of_one_cell(tmp_path, class_token):
    image = ImageSide(GREY[:, :, 0], (1, 1), class_token=class_token)
    assert looking(image, layers=1).save(tmp_path / "a.png").exists()
    assert captioned(["all"], image).save(tmp_path / "b.png").exists()


@pytest.mark.parametrize("size", [(1, 1), (1, 500), (500, 1), (8, 8), (1500, 2000)])
def test_images_of_any_size(tmp_path, size):
    image = ImageSide(np.full(size, 200, np.uint8), (3, 3))
    path = captioned(["a", "b"], image).save(tmp_path / "a.png")
    with Image.open(path) as picture:
        assert max(picture.size) < 2000


def test_small_images_keep_their_pixels():
    """Each of 8 × 8 pixels is a square in the drawing."""
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    shown = panels(overlays(pixels, (2, 2), np.ones((1, 4)), ["a"]))[0]
    block = len(shown) // 8
    assert (shown[block // 2 :: block, block // 2 :: block] == pixels).all()


# saved


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_a_record_is_saved_beside_its_figure(tmp_path, suffix):
    """Maps of captions (C4, J3) and of images (J4) as files, with their numbers."""
    for record in (captioned(["a", "cat"]), looking(IMAGE)):
        path = record.save(tmp_path / f"map{suffix}")
        assert path.read_bytes().startswith(
            {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix]
        )
        assert AttentionRecord.load(tmp_path / "map.json").read == IMAGE
        assert path.read_bytes() == record.save(tmp_path / "again" / path.name).read_bytes()


def test_an_svg_keeps_panels_as_images_and_words_as_text(tmp_path):
    tree = ET.parse(captioned(["un", "été"]).save(tmp_path / "a.svg"))
    tags = [node.tag.split("}")[1] for node in tree.iter()]
    assert tags.count("image") >= 3
    assert "été" in [node.text for node in tree.iter() if node.tag.endswith("text")]


def test_a_dark_picture_has_light_letters_on_dark(tmp_path):
    record, text = captioned(["a"]), Side.of_words(["x", "y"])
    pair = AttentionRecord(text, text, {"l": np.full((1, 2, 2), 0.5)})
    for shown in (record, pair):
        light, dark = (
            np.asarray(Image.open(io.BytesIO(shown.figure().picture(".png", theme=theme)))).astype(
                int
            )[:, :, :3]
            for theme in ("light", "dark")
        )
        assert light[0, 0].tolist() == [255, 255, 255]
        assert dark[0, 0].max() < 40
        title = slice(4, 40)  # its rows of pixels: ink on the background, in both
        assert light[title].min() < 60
        assert dark[title].max() > 200
    saved = record.save(tmp_path / "a.png", theme="dark")
    assert np.asarray(Image.open(saved))[0, 0, :3].max() < 40


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_numbers_in_cells_can_be_read_in_any_theme(theme):
    import torch

    chart = heatmap(torch.eye(2), ["a", "b"], ["c", "d"])
    chart.picture(".png", theme=theme)
    colours = [text.get_color() for text in chart.axes[0].texts]
    most, none = ("white", "black") if theme == "light" else ("black", "white")
    assert colours == [most, none, none, most]
    assert chart.axes[0].get_xticklabels()[0].get_color() == (
        "black" if theme == "light" else "#e4e6e9"
    )


def test_a_notebook_shows_the_explorer_of_an_image():
    record = looking(IMAGE)
    assert record._repr_html_().startswith("<iframe sandbox=")
    assert record._repr_png_().startswith(b"\x89PNG")


def test_no_display_is_needed(tmp_path):
    program = """
import sys
import numpy as np
from saccade.lens.record import AttentionRecord, ImageSide, Side
image = ImageSide(np.zeros((4, 4), np.uint8), (1, 2))
assert "matplotlib" not in sys.modules
AttentionRecord(image, Side.of_words(["a"]), {"l": np.full((1, 1, 2), 0.5)}).save("map.png")
assert "matplotlib.pyplot" not in sys.modules
"""
    without = ("MPLBACKEND", "DISPLAY", "WAYLAND_DISPLAY")
    environment = {name: value for name, value in os.environ.items() if name not in without}
    subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=tmp_path, env=environment, check=True
    )
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda: overlays(PIXELS, GRID, np.zeros((1, 5)), ["a"]),
            r"2 × 3 needs .* \(1, 6\), got",
        ),
        (lambda: overlays(PIXELS, GRID, np.zeros((2, 6)), ["a"]), r"got \(2, 6\)"),
        (lambda: overlays(PIXELS, GRID, np.full((1, 6), np.nan), ["a"]), "NaN"),
        (lambda: overlays(PIXELS, GRID, np.full((1, 6), np.inf), ["a"]), "infinity"),
        (lambda: overlays(PIXELS, GRID, np.full((1, 6), -0.1), ["a"]), "negative"),
        (lambda: captioned(["a"]).figure("cross.7"), "no layer 'cross.7'"),
        (lambda: captioned(["a"]).glance(), "a glance needs self-attention"),
        (lambda: looking(IMAGE).figure(head=9), "no head 9"),
        (lambda: captioned(["a"]).save("a.gif"), "use one of .json"),
    ],
)
def test_raises_on_what_cannot_be_drawn(draw, message):
    with pytest.raises(SaccadeError, match=message) as caught:
        draw()
    assert isinstance(caught.value, (ShapeError, FigureError, WatchError))


def test_raises_for_a_model_without_attention(tmp_path):
    for wrote in (Side.of_words(["a"]), IMAGE):
        record = AttentionRecord(IMAGE, wrote, {})
        with pytest.raises(WatchError):
            record.save(tmp_path / "a.png")
        assert "layers: none" in record._repr_html_()
    assert not list(tmp_path.iterdir())
