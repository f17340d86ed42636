"""Figures show what they are given, label it, and keep the numbers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import pytest
import torch

from saccade.errors import PositionError, SaccadeError, ShapeError
from saccade.lens.figures import heatmap, positions
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


# heatmap


def test_heatmap_labels_rows_and_columns(weights):
    axes = heatmap(weights, ROWS, COLUMNS).axes[0]
    assert labels(axes.get_yticklabels()) == ROWS
    assert labels(axes.get_xticklabels()) == COLUMNS
    assert list(axes.get_yticks()) == [0, 1, 2]
    assert list(axes.get_xticks()) == [0, 1, 2, 3, 4]


def test_heatmap_keeps_and_shows_the_numbers(weights):
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


def test_heatmap_leaves_the_weights_alone(weights):
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
def test_heatmap_refuses_a_wrong_number_of_labels(weights, rows, columns):
    with pytest.raises(ShapeError) as caught:
        heatmap(weights, rows, columns)
    message = str(caught.value)
    assert "3 x 5" in message
    assert f"got {len(rows)} and {len(columns)}" in message
    assert isinstance(caught.value, SaccadeError)


@pytest.mark.parametrize("size", [(1, 1), (60, 60), (1, 60), (60, 1)])
def test_heatmap_of_any_size_shows_every_cell_whole(tmp_path, size):
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
    """A query that may see nothing has a row of zeros; a map may be nothing else."""
    chart = heatmap(torch.zeros(2, 2), ["a", "b"], ["c", "d"])
    assert chart.save(tmp_path / "map.png").exists()


@pytest.mark.parametrize(
    "label",
    ["$", "$5", "US$ and CA$", r"$\frac{", "$x^2$", r"\$", r"\alpha", "a_b^c", "{", "%", "&", "#"],
)
def test_labels_are_shown_as_they_stand(tmp_path, label):
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


# positions


def test_positions_keeps_and_shows_the_matrix():
    encoding = Sinusoidal(128)
    table = encoding.table(torch.arange(50), torch.float32)
    chart = positions(encoding, 50)
    assert chart.numbers == {"positions": table.tolist()}
    assert torch.equal(shown_matrix(chart), table)


def test_positions_labels_its_axes():
    chart = positions(Sinusoidal(8), 5)
    axes = chart.axes[0]
    assert axes.get_xlabel() == "dimension"
    assert axes.get_ylabel() == "place"
    assert chart.get_suptitle() == "Sinusoidal positions"
    assert positions(Sinusoidal(8), 5, title="waves").get_suptitle() == "waves"


def test_positions_gives_zero_the_middle_colour():
    norm = positions(Sinusoidal(8), 5).axes[0].images[0].norm
    assert norm.vmin == -norm.vmax


@pytest.mark.parametrize(("dim", "length"), [(2, 1), (2, 60), (60, 1), (60, 60)])
def test_positions_of_any_size_shows_every_cell_whole(tmp_path, dim, length):
    chart = positions(Sinusoidal(dim), length)
    assert chart.save(tmp_path / "positions.png").exists()
    axes = chart.axes[0]
    assert axes.get_xlim() == (-0.5, dim - 0.5)
    assert axes.get_ylim() == (length - 0.5, -0.5)  # place 0 on top


def test_positions_of_a_learned_table():
    encoding = Learned(6, 10)
    assert positions(encoding, 10).numbers["positions"] == encoding.weight.tolist()
    assert encoding.weight.requires_grad


def test_positions_of_a_table_of_zeros(tmp_path):
    encoding = Learned(6, 10)
    torch.nn.init.zeros_(encoding.weight)
    assert positions(encoding, 10).save(tmp_path / "positions.png").exists()


def test_positions_beyond_a_learned_table_is_an_error():
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
    """In a process of its own: pyplot, which would look for a display, is never imported."""
    program = """
import sys
import torch
from saccade.lens.figures import heatmap, positions
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


@pytest.mark.parametrize("cells", [1, 2, 8])
def test_long_labels_get_their_room(cells):
    chart = heatmap(torch.rand(cells, cells), ["long " * 12] * cells, ["label" * 12] * cells)
    chart.draw_without_rendering()
    width, height = chart.get_size_inches()
    assert width > 5
    assert height > 5


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda: heatmap(torch.rand(1, 1), "a", "b").save("map"), "ends in one of .png"),
        (lambda: heatmap(torch.rand(1, 1), "a", "b").save("map.json"), "map.json"),
        (lambda: heatmap(torch.rand(1, 2, 2), "ab", "cd"), r"\(1, 2, 2\)"),
        (lambda: heatmap(torch.rand(0, 2), "", "cd"), r"\(0, 2\)"),
        (lambda: heatmap(torch.full((1, 1), torch.nan), "a", "b"), "NaN"),
        (lambda: positions(Sinusoidal(8), 0), "0 places"),
        (lambda: positions(Rotary(8)), "of Rotary"),
    ],
)
def test_what_cannot_be_drawn_is_named(draw, words):
    with pytest.raises(SaccadeError, match=words):
        draw()
