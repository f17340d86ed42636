"""Figures, by matplotlib, without a display. Each keeps the numbers it shows.

`figure.save("map.png")` writes the picture and, beside it, its numbers as `map.json`.
"""

import io
import unicodedata
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager

from saccade.errors import FigureError, ShapeError
from saccade.lens.written import readable_json
from saccade.positions.base import Absolute, Position
from saccade.shapes import Tensor

PICTURES = (".png", ".svg", ".pdf")
LONGEST_LABEL = 60  # characters; what is longer is shown without its middle
LONGEST_SIDE = 40.0  # inches for the cells of a map; more of them are drawn smaller

# fonts with East Asian letters, which matplotlib's own lacks; those that are installed are used
_FURTHER_FONTS = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "Arial Unicode MS",
)

# the date is left out, so that the same numbers give the same file
_UNDATED: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
# letters stay letters in an SVG, so a viewer shows scripts that matplotlib's own font lacks
_SVG: Any = {"svg.fonttype": "none", "svg.hashsalt": "saccade"}


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
        path.write_bytes(self.picture(path.suffix, dpi=dpi))
        path.with_suffix(".json").write_text(readable_json(self.numbers), encoding="utf-8")
        return path

    def picture(self, suffix: str, *, dpi: int = 150) -> bytes:
        """The picture as a file of this kind would hold it."""
        file = io.BytesIO()
        with warnings.catch_warnings(), mpl.rc_context(_SVG):
            # a letter that no installed font has is drawn as a box; its label keeps it
            warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
            self.savefig(file, format=suffix[1:], dpi=dpi, metadata=_UNDATED.get(suffix))
        return file.getvalue()


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
    shown_rows, shown_columns = ([_short(label) for label in names] for names in (rows, columns))
    beside, above = (
        0.009 * size * max(map(_width, names)) for names in (shown_rows, shown_columns)
    )
    chart = Chart(
        {"rows": list(rows), "columns": list(columns), "weights": values.tolist()},
        figsize=(1.8 + cell * k + beside, 1.0 + cell * q + above + (0.4 if title else 0.0)),
    )
    axes = chart.add_subplot()
    image = axes.imshow(values.numpy(), cmap="viridis", vmin=0.0, aspect="equal")
    family = _families()
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


def _families() -> list[str]:
    installed = {font.name for font in fontManager.ttflist}
    return [*mpl.rcParams["font.family"], *(name for name in _FURTHER_FONTS if name in installed)]


def _short(label: str) -> str:
    """A label on one line, without its middle if it is very long."""
    if len(label) > LONGEST_LABEL:
        label = label[: LONGEST_LABEL // 2] + "…" + label[1 - LONGEST_LABEL // 2 :]
    return _plain(label.replace("\n", "↵"))


def _plain(text: str) -> str:
    """A text that matplotlib shows as it stands: `$` would start a formula."""
    return "".join(map(_visible, text)).replace("$", r"\$")


def _visible(letter: str) -> str:
    """Control characters, halves of surrogate pairs and empty code points fit in no picture."""
    strange = unicodedata.category(letter) in {"Cc", "Cs", "Cn"} and letter != "\n"
    return "\ufffd" if strange else letter


def _width(label: str) -> int:
    """In letters; those of East Asian scripts are twice as wide."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in label)
