"""Figures: maps of attention and of positions, as charts that keep their numbers."""

from collections.abc import Sequence

import torch

from saccade.errors import FigureError, ShapeError
from saccade.lens.chart import LONGEST_SIDE, Chart, families, plain, short, width
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
    """An attention map: a row for each query, a column for each key, labelled.

    `annotate` writes the weights into the cells; by default where there are at most 64 cells.
    """
    if weights.ndim != 2 or weights.numel() == 0:
        raise ShapeError(f"a map shows weights (queries, keys), got {tuple(weights.shape)}")
    q, k = weights.shape
    if (len(rows), len(columns)) != (q, k):
        raise ShapeError(
            f"a map of {q} x {k} weights needs {q} row and {k} column labels, "
            f"got {len(rows)} and {len(columns)}"
        )
    values = weights.detach().double().cpu()
    if not bool(values.isfinite().all()):
        raise FigureError("the weights hold NaN or infinity, which no map can show")
    cell = min(0.32, LONGEST_SIDE / max(q, k))  # inches
    size = min(10.0, 31 * cell)  # of letters, in points
    shown_rows, shown_columns = ([short(label) for label in names] for names in (rows, columns))
    beside, above = (0.009 * size * max(map(width, names)) for names in (shown_rows, shown_columns))
    chart = Chart(
        {"rows": list(rows), "columns": list(columns), "weights": values.tolist()},
        figsize=(1.8 + cell * k + beside, 1.0 + cell * q + above + (0.4 if title else 0.0)),
    )
    axes = chart.add_subplot()
    image = axes.imshow(values.numpy(), cmap="viridis", vmin=0.0, aspect="equal")
    family = families()
    axes.set_xticks(range(k), shown_columns, rotation=90, size=size, family=family)
    axes.set_yticks(range(q), shown_rows, size=size, family=family)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    if annotate if annotate is not None else q * k <= 64:
        bright = float(values.max()) * 0.6
        for i in range(q):
            for j in range(k):
                value = float(values[i, j])
                colour = "black" if value > bright else "white"
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", color=colour, size=6)
    chart.colorbar(image, ax=axes, shrink=0.8, label="weight")
    if title:
        chart.suptitle(plain(title))
    return chart


def positions(encoding: Position, length: int = 50, *, title: str = "") -> Chart:
    """The matrix of a positional encoding: a row for each place, a column for each dimension."""
    if not isinstance(encoding, Absolute) or length < 1:
        raise FigureError(
            "the matrix of positions needs at least 1 place and an encoding that is one vector a "
            f"place (Sinusoidal, Learned); got {length} places of {type(encoding).__name__}"
        )
    device = next((p.device for p in encoding.parameters()), None)
    with torch.no_grad():
        values = encoding.table(torch.arange(length, device=device), torch.float32).cpu()
    chart = Chart({"positions": values.tolist()}, figsize=(8.0, 4.5))
    axes = chart.add_subplot()
    reach = float(values.abs().max()) or 1.0
    image = axes.imshow(values.numpy(), cmap="RdBu", vmin=-reach, vmax=reach, aspect="auto")
    axes.set_xlabel("dimension")
    axes.set_ylabel("place")
    chart.colorbar(image, ax=axes)
    chart.suptitle(plain(title) or f"{type(encoding).__name__} positions")
    return chart
