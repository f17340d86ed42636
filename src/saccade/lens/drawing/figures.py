"""Figures of attention and of positional encodings, as charts that keep their numbers."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float64

from saccade.errors import FigureError, ShapeError
from saccade.lens.drawing.chart import Chart, in_rows
from saccade.lens.drawing.fonts import families, plain
from saccade.lens.drawing.maps import LEAST, NAME_LINE, Sheet, Span, cell_for, gap_for, panel_for
from saccade.positions.base import Absolute, Position
from saccade.shapes import Tensor


def heatmap(
    weights: Tensor,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str = "",
    annotate: bool | None = None,
) -> Chart:
    """Draw an attention map: one row per query, one column per key.

    Args:
        weights: the weights (queries, keys).
        rows: the labels of the queries.
        columns: the labels of the keys.
        title: the title of the chart.
        annotate: write the weights into the cells; by default if there are at most 64 cells and
            they are large enough.

    Raises:
        ShapeError: if the labels do not fit the weights.
        FigureError: if the weights hold NaN or infinity.

    Example:
        >>> chart = heatmap(torch.eye(2), ["the", "house"], ["das", "Haus"], title="cross")
        >>> chart.numbers["weights"]
        [[1.0, 0.0], [0.0, 1.0]]
        >>> chart.picture(".png")[:4]
        b'\\x89PNG'
    """
    values = _checked(weights, rows, columns, "queries, keys")
    q, k = values.shape
    cell = cell_for((q, k), (1, 1), largest=0.42, side=8.0)
    down, across = Span(maps=1, cells=q, cell=cell), Span(maps=1, cells=k, cell=cell)
    sheet = Sheet(
        {"rows": list(rows), "columns": list(columns), "weights": values.tolist()},
        down,
        across,
        scale=[values],
        beside=down.tokens(rows),
        above=across.tokens(columns, upright=True),
        title=title,
    )
    sheet.add(values)
    if annotate is None:
        annotate = q * k <= 64 and sheet.number_size >= LEAST
    if annotate:
        sheet.annotate(values)
    return sheet.chart


def heads(
    weights: Tensor, rows: Sequence[str], columns: Sequence[str], *, title: str = ""
) -> Chart:
    """Draw the maps of all heads of a layer side by side, on one colour scale.

    Args:
        weights: the weights (heads, queries, keys).
        rows: the labels of the queries.
        columns: the labels of the keys.
        title: the title of the chart.
    """
    values = _checked(weights, rows, columns, "heads, queries, keys")
    number, q, k = values.shape
    names = [f"head {head}" for head in range(number)]
    layout = in_rows(number, q / k)
    cell = cell_for((q, k), layout, largest=0.3, side=3.0)
    down = Span(maps=layout[0], cells=q, cell=cell, gap=NAME_LINE + gap_for([], q * cell))
    across = Span(maps=layout[1], cells=k, cell=cell, gap=gap_for(names, k * cell))
    sheet = Sheet(
        {"rows": list(rows), "columns": list(columns), "weights": values.tolist()},
        down,
        across,
        scale=[values],
        beside=down.tokens(rows),
        above=across.tokens(columns, upright=True),
        below=NAME_LINE,
        title=_on_one_scale(title),
    )
    for head, name in enumerate(names):
        sheet.add(values[head], *divmod(head, across.maps), name)
    return sheet.chart


def overview(
    weights: Mapping[str, Tensor], rows: Sequence[str], columns: Sequence[str], *, title: str = ""
) -> Chart:
    """Draw small maps of all heads of all layers, one row per layer, on one colour scale.

    Args:
        weights: the weights (heads, queries, keys) of each layer, by its name.
        rows: the labels of the queries; kept in the numbers, but not drawn.
        columns: the labels of the keys; likewise.
        title: the title of the chart.
    """
    if not weights:
        raise ShapeError(
            "an overview needs at least one layer, got none; "
            "pass the weights of a model with attention"
        )
    layers = {
        name: _checked(array, rows, columns, "heads, queries, keys")
        for name, array in weights.items()
    }
    q, k = len(rows), len(columns)
    names = [f"head {head}" for head in range(max(map(len, layers.values())))]
    high, wide = panel_for((q, k), (len(layers), len(names)))
    down = Span(maps=len(layers), cells=q, cell=high / q, gap=gap_for([], high))
    across = Span(maps=len(names), cells=k, cell=wide / k, gap=gap_for(names, wide))
    sheet = Sheet(
        {
            "rows": list(rows),
            "columns": list(columns),
            "weights": {name: array.tolist() for name, array in layers.items()},
        },
        down,
        across,
        scale=list(layers.values()),
        beside=down.names(list(layers)),
        above=across.names(names),
        title=_on_one_scale(title or "heads of each layer"),
    )
    for row, array in enumerate(layers.values()):
        for column, head in enumerate(array):
            sheet.add(head, row, column)
    return sheet.chart


def _on_one_scale(title: str) -> str:
    return f"{title}{', ' if title else ''}all on one scale"


def _checked(
    weights: Tensor, rows: Sequence[str], columns: Sequence[str], axes: str
) -> Float64[np.ndarray, "*axes"]:
    """Return the weights as an array; raise if they cannot be drawn."""
    if weights.ndim != len(axes.split()) or weights.numel() == 0:
        raise ShapeError(
            f"a map needs weights ({axes}), got {tuple(weights.shape)}; select one head or layer"
        )
    *_, q, k = weights.shape
    if (len(rows), len(columns)) != (q, k):
        raise ShapeError(
            f"a map of {q} x {k} weights needs {q} row and {k} column labels, "
            f"got {len(rows)} and {len(columns)}; "
            "pass one label per row and column"
        )
    values = weights.detach().double().cpu().numpy()
    if not np.isfinite(values).all():
        raise FigureError(
            "a map cannot show NaN or infinity, which these weights hold; check the model's numbers"
        )
    return values


def positions(encoding: Position, length: int = 50, *, title: str = "") -> Chart:
    """Draw the matrix of a positional encoding: one row per position, one column per dimension.

    Args:
        encoding: an absolute encoding, such as `Sinusoidal` or `Learned`.
        length: the number of positions.
        title: the title of the chart; by default the name of the encoding.

    Raises:
        FigureError: if the encoding does not have one vector per position.
    """
    if not isinstance(encoding, Absolute) or length < 1:
        raise FigureError(
            "this figure needs at least 1 position and an encoding with one vector per position "
            f"(Sinusoidal, Learned); got {length} positions of {type(encoding).__name__}"
        )
    device = next((p.device for p in encoding.parameters()), None)
    with torch.no_grad():
        values = encoding.table(torch.arange(length, device=device), torch.float32).cpu()
    chart = Chart({"positions": values.tolist()}, figsize=(8.0, 4.5))
    axes = chart.add_subplot()
    reach = float(values.abs().max()) or 1.0
    image = axes.imshow(values.numpy(), cmap="RdBu", vmin=-reach, vmax=reach, aspect="auto")
    axes.set_xlabel("dimension")
    axes.set_ylabel("position")
    chart.colorbar(image, ax=axes)
    title = title or f"{type(encoding).__name__} positions"
    chart.suptitle(plain(title), family=families([title]))
    return chart
