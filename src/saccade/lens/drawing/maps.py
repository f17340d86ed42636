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
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, Normalize
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from saccade.lens.drawing.chart import Chart, Theme
from saccade.lens.drawing.fonts import families, inches, short, wrapped

LONGEST_SIDE = 40.0  # inches of a sheet's maps; more cells are drawn smaller
LARGEST, LEAST = 10.0, 5.0  # letters, in points; of more labels than have room some are left out
LINE = 1.35  # from label to label, by the size of their letters

# from the page's own end of light for nothing to the other for much, evenly, so that it can be read
# in grey and by colour-blind eyes (ColorBrewer)
COLOURS: dict[Theme, Colormap] = {
    "light": mpl.colormaps["YlGnBu"],
    "dark": mpl.colormaps["YlGnBu_r"],
}
_BRIGHTNESS = np.array([0.2126, 0.7152, 0.0722])  # of red, green and blue

# of the drawing, in inches
_EDGE, _PAD, _GAP = 0.1, 0.06, 0.14
_BAR, _BAR_ROOM, _LONGEST_BAR = 0.13, 1.0, 3.0
_NARROWEST, _LOWEST = 3.6, 1.0  # what a title and a bar need
_TITLE_LINE = 0.2
_SMALL = 1.0  # the longer side of a map that is one of many
_MOST_SLENDER = 4.0  # its sides, one by the other; what is more so is stretched to it
_NAME = 8.0  # points
_LONGEST_NAME = 60  # letters
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
        return Labels(texts=[short(name, _LONGEST_NAME) for name in names], at=middles, size=_NAME)


class Sheet:
    """A chart of maps, which `add` fills.

    Colours go from 0, or the lowest weight of `scale` if that is less, to its highest. `below` are
    the inches that names take below the last row of maps.
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
        self.left = _EDGE + beside.longest + _PAD
        self.width = max(_NARROWEST, self.left + across.inches + _BAR_ROOM)
        head = wrapped(title, self.width - 2 * _EDGE, LARGEST)
        lines = _TITLE_LINE * len(head.splitlines())
        self.top = _EDGE + lines + above.height + 2 * _PAD
        self.height = self.top + max(_LOWEST, down.inches + below) + _EDGE
        self.chart = Chart(numbers, figsize=(self.width, self.height), layout="none")
        self.axes = self._add_axes(0.0, across.inches, down.inches)
        self.axes.set_frame_on(False)
        self._label(beside, above)
        self.scale = _scale(scale)
        self.colours = ScalarMappable(self.scale, COLOURS["light"])
        self._add_bar()
        self.cells: list[tuple[Text, float]] = []
        self.chart.painters.append(self._paint)
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
            cmap=self.colours.cmap,
            norm=self.scale,
            aspect="auto",
        )
        self.axes.add_patch(
            Rectangle((left, top), wide, high, fill=False, edgecolor="0.5", lw=0.6, clip_on=False)
        )
        self.axes.set(xlim=(-0.5, self.across.end), ylim=(self.down.end, -0.5))
        if name:
            x = self.left + (left + 0.5 + wide / 2) * self.across.cell
            y = self.top + (top + 0.5 + high) * self.down.cell + _PAD
            where = x / self.width, 1 - y / self.height
            self.chart.text(*where, name, ha="center", va="top", size=_NAME)

    @property
    def number_size(self) -> float:
        """Points of the numbers that fit in cells."""
        return min(7.5, 18 * min(self.down.cell, self.across.cell))

    def annotate(self, weights: Float[np.ndarray, "q k"]) -> None:
        """Write the weights of the first map into its cells."""
        for (row, column), weight in np.ndenumerate(weights):
            text = f"{weight:.2f}"
            written = self.axes.text(
                column, row, text, ha="center", va="center", size=self.number_size
            )
            self.cells.append((written, weight))
        self._paint("light")

    def _paint(self, theme: Theme) -> None:
        """Maps like the page around them, and numbers in cells so that they can be read."""
        for mapped in (self.colours, *self.axes.images):
            mapped.set_cmap(COLOURS[theme])
        for text, weight in self.cells:
            light = COLOURS[theme](self.scale(weight))[:3] @ _BRIGHTNESS > 0.5
            text.set_color("black" if light else "white")

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

    def _add_bar(self) -> None:
        """What the colours mean."""
        high = min(_LONGEST_BAR, max(self.down.inches, _LOWEST))
        axes = self._add_axes(self.across.inches + _GAP, _BAR, high)
        bar = self.chart.colorbar(self.colours, cax=axes)
        bar.ax.tick_params(labelsize=_NAME)
        bar.set_label("weight", size=_NAME)

    def _add_axes(self, right: float, wide: float, high: float) -> Axes:
        """So many inches to the right of where maps begin, and as high as they begin."""
        return self.chart.add_axes(
            (
                (self.left + right) / self.width,
                1 - (self.top + high) / self.height,
                wide / self.width,
                high / self.height,
            )
        )


def _scale(weights: Sequence[np.ndarray]) -> Normalize:
    low = min(0.0, *(float(array.min()) for array in weights))
    high = max(float(array.max()) for array in weights)
    return Normalize(low, high if high > low else 1.0)


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
