"""Figures, by matplotlib, without a display. Each keeps the numbers it shows.

`figure.save("map.png")` writes the picture and, beside it, its numbers as `map.json`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from saccade.errors import FigureError, ShapeError
from saccade.positions.base import Absolute, Position
from saccade.shapes import Tensor

PICTURES = (".png", ".svg", ".pdf")


class Chart(Figure):
    """A matplotlib Figure that knows the numbers it shows."""

    numbers: dict[str, Any]

    def __init__(self, numbers: dict[str, Any], **options: Any) -> None:
        super().__init__(layout="constrained", **options)
        FigureCanvasAgg(self)
        self.numbers = numbers

    def save(self, path: str | Path, *, dpi: int = 150) -> Path:
        """Write the picture (.png, .svg, .pdf by its suffix) and its numbers beside it (.json)."""
        path = Path(path)
        if path.suffix not in PICTURES:
            raise FigureError(
                f"a picture's name ends in one of {', '.join(PICTURES)}; got {str(path)!r}"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        self.savefig(path, dpi=dpi)
        numbers = json.dumps(self.numbers, ensure_ascii=False)
        path.with_suffix(".json").write_text(numbers, encoding="utf-8")
        return path


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
    letter, cell = 0.09, 0.32  # inches
    beside, above = (letter * max(map(len, names)) for names in (rows, columns))
    chart = Chart(
        {"rows": list(rows), "columns": list(columns), "weights": values.tolist()},
        figsize=(1.8 + cell * k + beside, 1.0 + cell * q + above + (0.4 if title else 0.0)),
    )
    axes = chart.add_subplot()
    image = axes.imshow(values.numpy(), cmap="viridis", vmin=0.0, aspect="equal")
    axes.set_xticks(range(k), [_plain(label) for label in columns], rotation=90)
    axes.set_yticks(range(q), [_plain(label) for label in rows])
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
        chart.suptitle(_plain(title))
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
    chart.suptitle(_plain(title) or f"{type(encoding).__name__} positions")
    return chart


def _plain(label: str) -> str:
    """A label that matplotlib shows as it stands: `$` would start a formula."""
    return label.replace("$", r"\$")
