"""Figures show their weights, label them, and keep the numbers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.text import Text

from saccade.errors import PositionError, SaccadeError, ShapeError
from saccade.lens.drawing.chart import in_rows
from saccade.lens.drawing.figures import heads, heatmap, overview, positions
from saccade.lens.drawing.maps import COLOURS, LEAST
from saccade.lens.record import AttentionRecord, ImageSide, Side
from saccade.positions import Learned, Rotary, Sinusoidal

ROWS = ["we", "see", "it"]
COLUMNS = ["vediamo", "il", "cielo", "blu", "."]
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def weights():
    generator = torch.Generator().manual_seed(3)
    return torch.rand(3, 5, generator=generator).softmax(-1)


def labels(ticks):
    return [tick.get_text() for tick in ticks]


def cell_texts(chart):
    return [text.get_text() for text in chart.axes[0].texts]


def shown_matrix(chart):
    return torch.as_tensor(chart.axes[0].images[0].get_array().data)


def some_weights(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(5)).mul(9).softmax(-1)


def boxes_of_texts(chart):
    """Return where each text is drawn in pixels, in and around the axes."""
    chart.draw_without_rendering()
    texts = chart.findobj(Text)
    shown = [text for text in texts if text.get_visible() and text.get_text().strip()]
    return {text: text.get_window_extent() for text in shown}


def assert_all_inside_and_apart(chart):
    sheet, boxes = chart.bbox, boxes_of_texts(chart)
    assert boxes
    for text, box in boxes.items():
        assert sheet.x0 <= box.x0 < box.x1 <= sheet.x1, text
        assert sheet.y0 <= box.y0 < box.y1 <= sheet.y1, text
        assert text.get_size() >= LEAST
    edges = np.array([box.extents for box in boxes.values()])
    low, high = edges[:, None, :2], edges[:, None, 2:]
    overlap = (low < high.swapaxes(0, 1) - 0.5).all(-1)
    overlap &= overlap.T
    np.fill_diagonal(overlap, val=False)
    names = [text.get_text() for text in boxes]
    assert not overlap.any(), [(names[i], names[j]) for i, j in np.argwhere(overlap)]


# heatmap


def test_heatmap_labels_rows_and_columns(weights):
    """A map of words against words (J1, J2)."""
    axes = heatmap(weights, ROWS, COLUMNS).axes[0]
    assert labels(axes.get_yticklabels()) == ROWS
    assert labels(axes.get_xticklabels()) == COLUMNS
    assert list(axes.get_yticks()) == [0, 1, 2]
    assert list(axes.get_xticks()) == [0, 1, 2, 3, 4]


def test_heatmap_keeps_and_shows_the_numbers(weights):
    """The numbers of a map are kept (J1, J2)."""
    chart = heatmap(weights, ROWS, COLUMNS)
    assert chart.numbers == {"rows": ROWS, "columns": COLUMNS, "weights": weights.tolist()}
    assert torch.equal(shown_matrix(chart), weights)


def test_heatmap_starts_its_colours_at_zero():
    image = heatmap(torch.tensor([[0.4, 0.6]]), ["a"], ["b", "c"]).axes[0].images[0]
    assert image.norm.vmin == 0.0
    assert image.norm.vmax == pytest.approx(0.6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_heatmap_takes_any_precision(dtype):
    weights = torch.tensor([[0.25, 0.75]], dtype=dtype)
    assert heatmap(weights, ["a"], ["b", "c"]).numbers["weights"] == [[0.25, 0.75]]


def test_heatmap_takes_weights_with_a_gradient(weights):
    chart = heatmap(weights.clone().requires_grad_(), ROWS, COLUMNS)
    assert chart.numbers["weights"] == weights.tolist()


def test_heatmap_does_not_change_the_weights(weights):
    before = weights.clone()
    heatmap(weights, ROWS, COLUMNS)
    assert torch.equal(weights, before)


def test_heatmap_writes_the_weights_into_few_cells(weights):
    texts = cell_texts(heatmap(weights, ROWS, COLUMNS))
    assert texts == [f"{value:.2f}" for value in weights.flatten().tolist()]


@pytest.mark.parametrize(
    ("size", "annotate", "written"),
    [(8, None, 64), (9, None, 0), (9, True, 81), (8, False, 0)],
)
def test_heatmap_annotates_by_default_up_to_64_cells(size, annotate, written):
    names = [str(i) for i in range(size)]
    chart = heatmap(torch.eye(size), names, names, annotate=annotate)
    assert len(cell_texts(chart)) == written


def test_heatmap_title(weights):
    assert heatmap(weights, ROWS, COLUMNS, title="layer 0, head 3").get_suptitle() == (
        "layer 0, head 3"
    )
    assert heatmap(weights, ROWS, COLUMNS).get_suptitle() == ""


@pytest.mark.parametrize(
    ("rows", "columns"),
    [(ROWS[:2], COLUMNS), (ROWS, COLUMNS[:4]), (COLUMNS, ROWS), ([], [])],
)
def test_heatmap_raises_on_a_wrong_number_of_labels(weights, rows, columns):
    with pytest.raises(ShapeError) as caught:
        heatmap(weights, rows, columns)
    message = str(caught.value)
    assert "3 x 5" in message
    assert f"got {len(rows)} and {len(columns)}" in message
    assert isinstance(caught.value, SaccadeError)


@pytest.mark.parametrize("size", [(1, 1), (60, 60), (1, 60), (60, 1)])
def test_heatmap_of_any_size_shows_every_cell_completely(tmp_path, size):
    q, k = size
    weights = torch.full(size, 1 / k)
    chart = heatmap(weights, [f"q{i}" for i in range(q)], [f"k{i}" for i in range(k)])
    axes = chart.axes[0]
    assert chart.save(tmp_path / "map.png").exists()
    assert axes.get_xlim() == (-0.5, k - 0.5)
    assert axes.get_ylim() == (q - 0.5, -0.5)  # the first query on top
    box = axes.get_window_extent()
    assert box.width > 0
    assert box.height > 0


def test_heatmap_of_weights_that_are_all_zero(tmp_path):
    """A query that sees nothing has a row of zeros, and a map may have no other rows."""
    chart = heatmap(torch.zeros(2, 2), ["a", "b"], ["c", "d"])
    assert chart.save(tmp_path / "map.png").exists()


@pytest.mark.parametrize(
    "label",
    ["$", "$5", "US$ and CA$", r"$\frac{", "$x^2$", r"\$", r"\alpha", "a_b^c", "{", "%", "&", "#"],
)
def test_labels_are_shown_unchanged(tmp_path, label):
    """`$` would start a formula, which may not even parse."""
    chart = heatmap(torch.ones(1, 1), [label], [label], title=label)
    assert chart.save(tmp_path / "map.png").exists()
    with mpl.rc_context({"svg.fonttype": "none"}):
        picture = chart.save(tmp_path / "map.svg").read_text(encoding="utf-8")
    assert picture.count(f">{label.replace('&', '&amp;')}</text>") == 3
    assert chart.numbers["rows"] == [label]
    assert json.loads((tmp_path / "map.json").read_text(encoding="utf-8"))["rows"] == [label]


@pytest.mark.parametrize("label", ["", "▁the", "Ġthe", "<s>", "[CLS]", "é", "ß", "ʃ", "привет"])
def test_labels_of_tokenizers_and_other_letters(tmp_path, label):
    chart = heatmap(torch.ones(1, 1), [label], [label])
    assert chart.save(tmp_path / "map.png").exists()
    assert labels(chart.axes[0].get_xticklabels()) == [label]


TOKENS = ["a", "lengthy", "word", "for", "the_longest_of_the_tokens_is_shortened", "pq|jy", ","]


def tokens(number):
    return (TOKENS * number)[:number]


@pytest.mark.parametrize(("q", "k"), [(1, 1), (5, 5), (60, 60), (120, 120), (1, 60), (60, 1)])
def test_labels_of_a_map_are_not_clipped_and_do_not_touch(q, k):
    title = "encoder.layers.11.self_attention, mean of heads"
    assert_all_inside_and_apart(heatmap(some_weights(q, k), tokens(q), tokens(k), title=title))


def test_a_title_longer_than_the_map_is_wrapped():
    assert_all_inside_and_apart(heatmap(torch.ones(1, 1), ["x"], ["y"], title="many words " * 20))
    assert_all_inside_and_apart(heatmap(torch.ones(1, 1), ["x"], ["y"], title="w" * 200))


def test_a_map_of_very_many_tokens_omits_labels_and_keeps_the_numbers():
    names = [f"t{i}" for i in range(900)]
    chart = heatmap(torch.zeros(1, 900), ["a"], names)
    shown = labels(chart.axes[0].get_xticklabels())
    assert shown == names[::3]  # 900 cells in 40 inches, and each label needs 5 * 1.35 points
    assert list(chart.axes[0].get_xticks()) == list(range(0, 900, 3))
    assert chart.numbers["columns"] == names


def test_a_long_token_is_shown_without_its_middle_and_kept_complete():
    chart = heatmap(torch.ones(1, 1), ["x" * 500], ["中" * 500])
    assert labels(chart.axes[0].get_yticklabels()) == ["x" * 14 + "…" + "x" * 13]
    assert labels(chart.axes[0].get_xticklabels()) == ["中" * 7 + "…" + "中" * 6]
    assert chart.numbers["rows"] == ["x" * 500]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_differ_from_the_page_by_weight_also_in_grey(theme):
    """From light to dark on white and from dark to light on black, monotonically."""
    grey = COLOURS[theme](np.linspace(0, 1, 64))[:, :3] @ [0.2126, 0.7152, 0.0722]
    steps = np.diff(grey) * (-1 if theme == "light" else 1)
    assert (steps > 0).all()
    assert abs(grey[-1] - grey[0]) > 0.7


def test_a_theme_colours_the_map_and_its_bar():
    chart = heatmap(torch.eye(2), ["a", "b"], ["c", "d"])
    for theme in ("dark", "light"):
        chart.picture(".png", dpi=20, theme=theme)
        assert chart.axes[0].images[0].cmap == COLOURS[theme]
        bar = chart.axes[1].collections[-1]
        assert bar.cmap == COLOURS[theme]


# many maps


def test_heads_side_by_side_have_their_weights_on_one_scale(tmp_path):
    """All heads of a layer (J7)."""
    weights = some_weights(3, 2, 5)
    chart = heads(weights, ROWS[:2], COLUMNS, title="cross.0")
    maps = chart.axes[0].images
    assert len(maps) == 3
    for head, drawn in enumerate(maps):
        assert np.array_equal(drawn.get_array(), weights[head].double())
        assert (drawn.norm.vmin, drawn.norm.vmax) == (0.0, pytest.approx(float(weights.max())))
    assert chart.get_suptitle() == "cross.0, all on one scale"
    assert [text.get_text() for text in chart.texts[1:]] == ["head 0", "head 1", "head 2"]
    assert chart.numbers == {
        "rows": ROWS[:2],
        "columns": COLUMNS,
        "weights": weights.double().tolist(),
    }
    for suffix in (".png", ".svg", ".pdf"):
        chart.save(tmp_path / f"heads{suffix}")
    assert json.loads((tmp_path / "heads.json").read_text()) == chart.numbers


@pytest.mark.parametrize(
    ("number", "aspect", "layout"),
    [(1, 1.0, (1, 1)), (3, 1.0, (1, 3)), (8, 1.0, (2, 4)), (12, 1.0, (3, 4)), (4, 9.0, (1, 4))],
)
def test_panels_in_rows(number, aspect, layout):
    assert in_rows(number, aspect) == layout


def test_heads_are_placed_row_by_row_with_their_labels():
    chart = heads(some_weights(8, 3, 3), ROWS, COLUMNS[:3])
    places = [drawn.get_extent() for drawn in chart.axes[0].images]
    assert [place[2] > places[0][2] for place in places] == [False] * 4 + [True] * 4
    xs, ys = chart.axes[0].get_xticks(), chart.axes[0].get_yticks()
    assert labels(chart.axes[0].get_xticklabels()) == COLUMNS[:3] * 4
    assert labels(chart.axes[0].get_yticklabels()) == ROWS * 2
    left, right, bottom, top = places[5]  # the second of the second row
    assert xs[3:6] == pytest.approx(left + 0.5 + np.arange(3))
    assert ys[3:] == pytest.approx(top + 0.5 + np.arange(3))
    assert (right - left, bottom - top) == pytest.approx((3, 3))


@pytest.mark.parametrize(("number", "q", "k"), [(8, 5, 5), (11, 1, 1), (2, 60, 60), (5, 24, 2)])
def test_labels_of_heads_are_not_clipped_and_do_not_touch(number, q, k):
    chart = heads(some_weights(number, q, k), tokens(q), tokens(k), title="decoder.layers.0.cross")
    assert_all_inside_and_apart(chart)


def test_an_overview_has_one_row_per_layer(tmp_path):
    layers = {"encoder.0": some_weights(3, 2, 5), "encoder.1": some_weights(1, 2, 5) / 2}
    chart = overview(layers, ROWS[:2], COLUMNS, title="news")
    maps = chart.axes[0].images
    assert [drawn.get_array().tolist() for drawn in maps] == [
        head.double().tolist() for layer in layers.values() for head in layer
    ]
    assert len({(drawn.norm.vmin, drawn.norm.vmax) for drawn in maps}) == 1
    assert labels(chart.axes[0].get_yticklabels()) == ["encoder.0", "encoder.1"]
    assert labels(chart.axes[0].get_xticklabels()) == ["head 0", "head 1", "head 2"]
    assert chart.get_suptitle() == "news, all on one scale"
    chart.save(tmp_path / "all.png")
    kept = json.loads((tmp_path / "all.json").read_text())
    assert kept["rows"] == ROWS[:2]
    assert kept["weights"] == {name: array.double().tolist() for name, array in layers.items()}


@pytest.mark.parametrize(("layers", "number", "q", "k"), [(12, 12, 9, 9), (2, 12, 60, 2)])
def test_names_of_an_overview_are_not_clipped_and_do_not_touch(layers, number, q, k):
    weights = {
        f"encoder.layers.{i}.self_attention": some_weights(number, q, k) for i in range(layers)
    }
    assert_all_inside_and_apart(overview(weights, tokens(q), tokens(k)))


def test_a_record_shows_its_heads_and_its_overview():
    read, wrote = Side(("ne", "w", "s"), ("news", "s"), (0, 0, 1)), Side.of_words(["x", "y"])
    arrays = some_weights(2, 4, 2, 3).numpy()
    record = AttentionRecord(read, wrote, {"a": arrays[0], "b": arrays[1]})
    chart = record.heads("b")
    assert chart.numbers["columns"] == ["ne", "w", "s"]
    assert np.array(chart.numbers["weights"]) == pytest.approx(arrays[1])
    words = record.heads("b", words=True).numbers
    assert words["columns"] == ["news", "s"]
    assert np.array(words["weights"][3]) == pytest.approx(record.by_words("b", 3))
    assert np.array(record.overview().numbers["weights"]["a"]) == pytest.approx(arrays[0])
    with pytest.raises(SaccadeError, match="no layer 'c'"):
        record.heads("c")
    with pytest.raises(SaccadeError, match="at least one layer"):
        record.slice(layers=[]).overview()


def test_a_record_of_an_image_alone_shows_the_glance_of_each_head():
    image = ImageSide(np.zeros((8, 8, 3), np.uint8), (1, 2), class_token=True)
    record = AttentionRecord(image, image, {"a": some_weights(4, 3, 3).numpy()})
    numbers = record.heads("a").numbers
    assert numbers["words"] == ["head 0", "head 1", "head 2", "head 3"]
    assert np.array(numbers["weights"]) == pytest.approx(record.weights["a"][:, 0, 1:])


# positions


def test_positions_keeps_and_shows_the_matrix():
    """A map of 50 × 128 positions (J5, G3)."""
    encoding = Sinusoidal(128)
    table = encoding.table(torch.arange(50), torch.float32)
    chart = positions(encoding, 50)
    assert chart.numbers == {"positions": table.tolist()}
    assert torch.equal(shown_matrix(chart), table)


def test_positions_labels_its_axes():
    chart = positions(Sinusoidal(8), 5)
    axes = chart.axes[0]
    assert axes.get_xlabel() == "dimension"
    assert axes.get_ylabel() == "position"
    assert chart.get_suptitle() == "Sinusoidal positions"
    assert positions(Sinusoidal(8), 5, title="waves").get_suptitle() == "waves"


@pytest.mark.parametrize(("dim", "length"), [(128, 50), (2, 1), (512, 500)])
def test_labels_of_positions_are_not_clipped(dim, length):
    chart = positions(Sinusoidal(dim), length)
    chart.draw_without_rendering()
    drawn, (wide, high) = chart.get_tightbbox(), chart.get_size_inches()
    assert 0 <= drawn.x0 < drawn.x1 <= wide
    assert 0 <= drawn.y0 < drawn.y1 <= high


def test_positions_gives_zero_the_middle_colour():
    norm = positions(Sinusoidal(8), 5).axes[0].images[0].norm
    assert norm.vmin == -norm.vmax


@pytest.mark.parametrize(("dim", "length"), [(2, 1), (2, 60), (60, 1), (60, 60)])
def test_positions_of_any_size_shows_every_cell_completely(tmp_path, dim, length):
    chart = positions(Sinusoidal(dim), length)
    assert chart.save(tmp_path / "positions.png").exists()
    axes = chart.axes[0]
    assert axes.get_xlim() == (-0.5, dim - 0.5)
    assert axes.get_ylim() == (length - 0.5, -0.5)  # position 0 on top


def test_positions_of_a_learned_table():
    encoding = Learned(6, 10)
    assert positions(encoding, 10).numbers["positions"] == encoding.weight.tolist()
    assert encoding.weight.requires_grad


def test_positions_of_a_table_of_zeros(tmp_path):
    encoding = Learned(6, 10)
    torch.nn.init.zeros_(encoding.weight)
    assert positions(encoding, 10).save(tmp_path / "positions.png").exists()


def test_positions_raises_beyond_a_learned_table():
    with pytest.raises(PositionError, match=r"place 49 .* beyond the 10 places"):
        positions(Learned(6, 10), 50)


def test_positions_title_with_a_dollar(tmp_path):
    chart = positions(Sinusoidal(4), 3, title=r"$\frac{ for $5")
    assert chart.save(tmp_path / "positions.png").exists()


# saving


@pytest.mark.parametrize("as_type", [str, Path])
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_save_writes_the_picture_and_its_numbers(tmp_path, weights, suffix, as_type):
    chart = heatmap(weights, ROWS, COLUMNS)
    path = tmp_path / "a" / "new folder" / f"layer.0{suffix}"
    assert chart.save(as_type(path)) == path
    assert {file.name for file in path.parent.iterdir()} == {path.name, "layer.0.json"}
    begins = {".png": PNG_SIGNATURE, ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix]
    assert path.read_bytes().startswith(begins)
    kept = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert kept == chart.numbers
    assert torch.equal(torch.tensor(kept["weights"]), weights)


def test_save_keeps_the_numbers_of_positions(tmp_path):
    chart = positions(Sinusoidal(6), 4)
    chart.save(tmp_path / "positions.png")
    kept = json.loads((tmp_path / "positions.json").read_text(encoding="utf-8"))
    table = Sinusoidal(6).table(torch.arange(4), torch.float32)
    assert torch.equal(torch.tensor(kept["positions"]), table)


def test_save_writes_letters_readably(tmp_path):
    heatmap(torch.ones(1, 1), ["été"], ["▁"]).save(tmp_path / "map.png")
    assert "été" in (tmp_path / "map.json").read_text(encoding="utf-8")


def test_save_writes_more_pixels_with_more_dpi(tmp_path):
    chart = heatmap(torch.ones(1, 1), ["a"], ["b"])
    widths = [
        int.from_bytes(chart.save(tmp_path / "map.png", dpi=dpi).read_bytes()[16:20], "big")
        for dpi in (50, 100)
    ]
    assert widths[1] == pytest.approx(2 * widths[0], abs=1)


def test_the_same_numbers_give_the_same_picture(tmp_path, weights):
    pictures = [
        heatmap(weights, ROWS, COLUMNS).save(tmp_path / f"{name}.png").read_bytes()
        for name in ("first", "second")
    ]
    assert pictures[0] == pictures[1]


def test_no_display_is_needed(tmp_path):
    """In a separate process: pyplot, which looks for a display, is never imported."""
    program = """
import sys
import torch
from saccade.lens.drawing.figures import heatmap, positions
from saccade.positions import Sinusoidal
heatmap(torch.eye(2), ["a", "b"], ["c", "d"]).save("map.png")
positions(Sinusoidal(4), 3).save("positions.svg")
assert "matplotlib.pyplot" not in sys.modules
"""
    without = ("MPLBACKEND", "DISPLAY", "WAYLAND_DISPLAY")
    environment = {name: value for name, value in os.environ.items() if name not in without}
    subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=tmp_path, env=environment, check=True
    )
    assert (tmp_path / "map.png").read_bytes().startswith(PNG_SIGNATURE)
    assert (tmp_path / "positions.svg").exists()


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: heatmap(torch.rand(1, 1), "a", "b").save("map"), "use one of .png"),
        (lambda: heatmap(torch.rand(1, 1), "a", "b").save("map.json"), "map.json"),
        (lambda: heatmap(torch.rand(1, 2, 2), "ab", "cd"), r"\(1, 2, 2\)"),
        (lambda: heatmap(torch.rand(0, 2), "", "cd"), r"\(0, 2\)"),
        (lambda: heatmap(torch.full((1, 1), torch.nan), "a", "b"), "NaN"),
        (lambda: heads(torch.rand(2, 2), "ab", "cd"), r"\(heads, queries, keys\), got \(2, 2\)"),
        (lambda: heads(torch.rand(0, 2, 2), "ab", "cd"), r"\(0, 2, 2\)"),
        (lambda: heads(torch.rand(3, 2, 2), "ab", "cde"), "2 x 2 .* got 2 and 3"),
        (lambda: heads(torch.full((1, 1, 1), torch.inf), "a", "b"), "infinity"),
        (lambda: overview({}, "ab", "cd"), "at least one layer"),
        (lambda: overview({"l": torch.rand(2, 2)}, "ab", "cd"), r"got \(2, 2\)"),
        (lambda: overview({"l": torch.full((1, 1, 1), torch.nan)}, "a", "b"), "NaN"),
        (lambda: positions(Sinusoidal(8), 0), "0 positions"),
        (lambda: positions(Rotary(8)), "of Rotary"),
    ],
)
def test_raises_on_what_cannot_be_drawn(draw, message):
    with pytest.raises(SaccadeError, match=message):
        draw()
