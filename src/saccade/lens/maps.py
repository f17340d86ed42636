"""Maps: one or more of one size in rows and columns, labelled, on one scale of colours.

All lie in one pair of axes, whose unit is a cell of a map: many pairs are slow to draw.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle

from saccade.lens.chart import Chart
from saccade.lens.letters import families, inches, short, wrapped

LONGEST_SIDE = 40.0  # inches of a sheet's maps; more cells are drawn smaller
LARGEST, LEAST = 10.0, 5.0  # letters, in points; of more labels than have room some are left out
LINE = 1.35  # from label to label, by the size of their letters

# pale for nothing and dark for much, also in grey and to colour-blind eyes (ColorBrewer)
COLOURS = mpl.colormaps["YlGnBu"]

# of the drawing, in inches
_EDGE, _PAD, _GAP = 0.1, 0.06, 0.14
_BAR, _BAR_ROOM, _LONGEST_BAR = 0.13, 1.0, 3.0
_NARROWEST, _LOWEST = 3.6, 1.0  # what a title and a bar need
_TITLE_LINE = 0.2
_SMALL = 1.0  # the longer side of a map that is one of many
_MOST_SLENDER = 4.0  # its sides, one by the other; what is more so is stretched to it
_NAME = 8.0  # points
NAME_LINE = 0.19  # inches below a map, for its name


@dataclass(frozen=True, kw_only=True)
class Labels:
    """What stands along a side of a sheet: the texts, their places in cells, and their size."""

    texts: Sequence[str]
    at: Sequence[float]
    size: float
    upright: bool = False  # turned by a quarter

    @property
    def longest(self) -> float:
        """In inches."""
        return max(inches(text, self.size) for text in self.texts)

    @property
    def height(self) -> float:
        """In inches."""
        return self.longest if self.upright else self.size * LINE / 72


@dataclass(frozen=True, kw_only=True)
class Span:
    """One direction of a sheet: so many maps of so many cells, and the inches of each cell."""

    maps: int
    cells: int
    cell: float
    gap: float = 0.0  # inches between maps

    @property
    def inches(self) -> float:
        """From the first map's begin to the last one's end."""
        return self.maps * self.cells * self.cell + (self.maps - 1) * self.gap

    def start(self, index: int) -> float:
        """Where a map begins, in cells; the middle of the first cell is 0."""
        return index * (self.cells + self.gap / self.cell) - 0.5

    @property
    def end(self) -> float:
        """Where the last map ends, in cells."""
        return self.start(self.maps - 1) + self.cells

    def tokens(self, tokens: Sequence[str], *, upright: bool = False) -> Labels:
        """A label for each cell of each map; where they would be too small, for some."""
        size = min(LARGEST, max(LEAST, 72 * self.cell / LINE))
        every = math.ceil(LEAST * LINE / 72 / self.cell - 1e-9)
        cells = range(0, self.cells, every)
        return Labels(
            texts=[short(tokens[cell]) for cell in cells] * self.maps,
            at=[self.start(i) + 0.5 + cell for i in range(self.maps) for cell in cells],
            size=size,
            upright=upright,
        )

    def names(self, names: Sequence[str]) -> Labels:
        """A label for each map, at its middle."""
        middles = [self.start(i) + self.cells / 2 for i in range(len(names))]
        return Labels(texts=[short(name) for name in names], at=middles, size=_NAME)


class Sheet:
    """A chart of maps, which `add` fills.

    Colours go from 0, or the lowest weight of `scale` if that is less, to its highest.
    """

    def __init__(
        self,
        numbers: dict[str, Any],
        down: Span,
        across: Span,
        *,
        scale: Sequence[np.ndarray],
        beside: Labels,
        above: Labels,
        below: float = 0.0,
        title: str = "",
    ) -> None:
        self.down, self.across = down, across
        low = min(0.0, *(float(weights.min()) for weights in scale))
        high = max(float(weights.max()) for weights in scale)
        self.norm = Normalize(low, high if high > low else 1.0)
        left = _EDGE + beside.longest + _PAD
        self.width = max(_NARROWEST, left + across.inches + _BAR_ROOM)
        head = wrapped(title, self.width - 2 * _EDGE, LARGEST)
        lines = _TITLE_LINE * len(head.splitlines())
        top = _EDGE + lines + above.height + 2 * _PAD
        self.height = top + max(_LOWEST, down.inches + below) + _EDGE
        self.chart = Chart(numbers, figsize=(self.width, self.height), layout="none")
        self.axes = self.chart.add_axes(
            self._place(left, top, across.inches, down.inches),
            xlim=(-0.5, across.end),
            ylim=(down.end, -0.5),
        )
        self.axes.spines[:].set_visible(False)
        self._label(beside, above)
        self._add_bar(left + across.inches + _GAP, top)
        if head:
            self.chart.suptitle(
                head, y=1 - _EDGE / self.height, va="top", size=LARGEST, family=families([head])
            )

    def add(
        self, weights: Float[np.ndarray, "q k"], row: int = 0, column: int = 0, name: str = ""
    ) -> None:
        """A map in its place, with its name below."""
        top, left = self.down.start(row), self.across.start(column)
        high, wide = weights.shape
        self.axes.imshow(
            weights,
            extent=(left, left + wide, top + high, top),
            cmap=COLOURS,
            norm=self.norm,
            aspect="auto",
        )
        self.axes.add_patch(
            Rectangle((left, top), wide, high, fill=False, edgecolor="0.5", lw=0.6, clip_on=False)
        )
        if name:
            self.axes.annotate(
                name,
                (left + wide / 2, top + high),
                xytext=(0, -72 * _PAD),
                textcoords="offset points",
                annotation_clip=False,
                ha="center",
                va="top",
                size=_NAME,
            )
        self.axes.set(xlim=(-0.5, self.across.end), ylim=(self.down.end, -0.5))

    def annotate(self, weights: Float[np.ndarray, "q k"]) -> None:
        """Write the weights of the first map into its cells."""
        light = COLOURS(self.norm(weights))[..., :3] @ [0.2126, 0.7152, 0.0722] > 0.5
        size = min(7.5, 18 * min(self.down.cell, self.across.cell))
        for (row, column), weight in np.ndenumerate(weights):
            self.axes.text(
                column,
                row,
                f"{weight:.2f}",
                ha="center",
                va="center",
                color="black" if light[row, column] else "white",
                size=size,
            )

    def _label(self, beside: Labels, above: Labels) -> None:
        axes = self.axes
        axes.set_xticks(
            above.at,
            above.texts,
            rotation=90 if above.upright else 0,
            size=above.size,
            family=families(above.texts),
        )
        axes.set_yticks(beside.at, beside.texts, size=beside.size, family=families(beside.texts))
        axes.xaxis.tick_top()
        axes.tick_params(length=0, pad=72 * _PAD / 2)

    def _add_bar(self, left: float, top: float) -> None:
        """What the colours mean."""
        high = min(_LONGEST_BAR, max(self.down.inches, _LOWEST))
        axes = self.chart.add_axes(self._place(left, top, _BAR, high))
        bar = self.chart.colorbar(ScalarMappable(self.norm, COLOURS), cax=axes)
        bar.ax.tick_params(labelsize=_NAME)
        bar.set_label("weight", size=_NAME)

    def _place(
        self, left: float, top: float, wide: float, high: float
    ) -> tuple[float, float, float, float]:
        """As matplotlib has it: parts of the chart, from its lower left corner."""
        return (
            left / self.width,
            1 - (top + high) / self.height,
            wide / self.width,
            high / self.height,
        )


def cell_for(
    cells: tuple[int, int], maps: tuple[int, int], *, largest: float, side: float
) -> float:
    """The inches of a square cell.

    More cells are smaller, so that a map has about this side; they keep room for their labels as
    long as the whole sheet does not grow too large.
    """
    whole = max(count * number for count, number in zip(cells, maps, strict=True))
    return min(largest, max(side / max(cells), LEAST * LINE / 72), LONGEST_SIDE / whole)


def panel_for(cells: tuple[int, int], maps: tuple[int, int]) -> tuple[float, float]:
    """The inches (down, across) of a map that is one of many and has no labels of its own."""
    slender = min(max(cells[0] / cells[1], 1 / _MOST_SLENDER), _MOST_SLENDER)
    side = min(_SMALL, LONGEST_SIDE / max(maps))
    return side * min(slender, 1), side / max(slender, 1)


def gap_for(names: Sequence[str], panel: float) -> float:
    """The inches between maps whose names are as wide as these."""
    return max(_GAP, max((inches(name, _NAME) for name in names), default=0.0) + _GAP - panel)
