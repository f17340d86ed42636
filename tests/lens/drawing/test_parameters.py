"""The table of parameters: counted by hand, shared parameters once, for any module."""

import json

import pytest
import torch
from torch import nn

from saccade.attention import MultiHeadAttention
from saccade.errors import SaccadeError
from saccade.lens.drawing.parameters import parameters


@pytest.fixture
def network():
    """3 · 4 of an embedding, 4 · 5 + 5 and 5 · 3 + 3 of two layers: 12 + 25 + 18 = 55."""
    return nn.ModuleDict(
        {"words": nn.Embedding(3, 4), "body": nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3))}
    )


def test_each_parameter_has_a_row(network):
    """The table of parameters (J6)."""
    table = parameters(network)
    rows = [(row.name, row.kind, row.shown_shape, row.parameters) for row in table.rows]
    assert rows == [
        ("words.weight", "Embedding", "3 × 4", 12),
        ("body.0.weight", "Linear", "5 × 4", 20),
        ("body.0.bias", "Linear", "5", 5),
        ("body.1.weight", "Linear", "3 × 5", 15),
        ("body.1.bias", "Linear", "3", 3),
    ]
    assert table.total == table.trained == 55
    assert table.fraction(table.rows[1]) == pytest.approx(20 / 55)
    assert sum(map(table.fraction, table.rows)) == pytest.approx(1)


def test_prints_a_table(network):
    network["words"].requires_grad_(requires_grad=False)
    assert str(parameters(network, depth=1)).splitlines() == [
        "name          kind        shape      parameters  fraction",
        "words.weight  Embedding   3 × 4              12     21.8%",
        "body          Sequential  4 tensors          43     78.2%",
        "all           43 trained                     55      100%",
    ]


@pytest.mark.parametrize(
    ("depth", "names"),
    [
        (1, ["words.weight", "body"]),
        (2, ["words.weight", "body.0", "body.1"]),
        (9, ["words.weight", "body.0.weight", "body.0.bias", "body.1.weight", "body.1.bias"]),
    ],
)
def test_rows_are_joined_at_a_depth(network, depth, names):
    table = parameters(network, depth=depth)
    assert [row.name for row in table.rows][1:] == names[1:]
    assert table.total == 55
    assert sum(row.tensors for row in table.rows) == 5


def test_a_shared_parameter_counts_once(network):
    network["out"] = nn.Linear(4, 3, bias=False)
    network["out"].weight = network["words"].weight
    table = parameters(network)
    assert table.total == 55 == sum(p.numel() for p in network.parameters())
    assert table.rows[-1].same_as == "words.weight"
    assert table.rows[-1].parameters == 0
    assert "= words.weight" in str(table)


@pytest.mark.parametrize(
    "module",
    [nn.LSTM(3, 5, 2), nn.TransformerDecoderLayer(8, 2, 16), MultiHeadAttention(8, 2), nn.ReLU()],
    ids=lambda module: type(module).__name__,
)
def test_the_total_equals_the_number_of_parameters(module):
    expected = sum(p.numel() for p in module.parameters())
    for depth in (None, 1, 2):
        table = parameters(module, depth=depth)
        assert table.total == expected
        assert f"{expected:,}" in str(table).splitlines()[-1]


def test_a_scalar_parameter_has_a_shape():
    module = nn.Module()
    module.scale = nn.Parameter(torch.tensor(2.0))
    assert parameters(module).rows[0].shown_shape == "1"


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_numbers_are_saved_beside_the_picture(tmp_path, network, suffix):
    table = parameters(network)
    table.figure(title="a network").save(tmp_path / f"table{suffix}", theme="dark")
    kept = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    assert kept == json.loads(table.to_json())
    assert kept["parameters"] == 55
    assert kept["rows"][1] == {
        "name": "body.0.weight",
        "kind": "Linear",
        "shape": [5, 4],
        "tensors": 1,
        "parameters": 20,
        "trained": 20,
        "same_as": None,
        "share": pytest.approx(20 / 55),
    }


@pytest.mark.parametrize("title", ["", "a title that is much longer than a small table " * 4])
def test_cells_are_not_clipped_and_do_not_touch(network, title):
    network["a_name_" * 20] = nn.Linear(2, 2)
    chart = parameters(network).figure(title=title)
    chart.draw_without_rendering()
    boxes = [text.get_window_extent() for text in chart.texts if text.get_text()]
    assert len(boxes) == 9 * 5 - 1 + bool(title)  # the total has no shape
    for i, box in enumerate(boxes):
        assert chart.bbox.x0 <= box.x0 < box.x1 <= chart.bbox.x1
        assert chart.bbox.y0 <= box.y0 < box.y1 <= chart.bbox.y1
        assert not any(box.overlaps(other) for other in boxes[:i])


def test_bars_are_as_long_as_fractions(network):
    bars = parameters(network).figure().axes[0].patches
    widths = [bar.get_width() for bar in bars]
    assert widths == pytest.approx([widths[1] * count / 20 for count in (12, 20, 5, 15, 3)])


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: parameters(nn.ReLU(), depth=0), "depth=0"),
        (lambda: parameters(nn.LazyLinear(3)), "'weight' has no shape yet"),
        (
            lambda: parameters(nn.ModuleList(nn.Linear(1, 1) for _ in range(300))).figure(),
            "up to 400 rows, and this one has 602",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_raises_on_what_cannot_be_shown(draw, message):
    with pytest.raises(SaccadeError, match=message):
        draw()
