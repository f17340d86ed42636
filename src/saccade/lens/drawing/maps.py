"""Sheets of maps: maps of one size in rows and columns, labelled, on one colour scale.

All maps share one pair of axes, whose unit is a cell, because many pairs of axes are slow to draw.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

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

LONGEST_SIDE = 40.0  # inches of a sheet's maps; with more cells, the cells get smaller
LARGEST, LEAST = 10.0, 5.0  # points of letters; labels that would need smaller ones are left out
LINE = 1.35  # the distance of labels divided by the size of their letters

# from the colour of the page (no weight) to its opposite (most), evenly in brightness, so that it
# can be read in grey and by colour-blind readers (ColorBrewer)
COLOURS: dict[Theme, Colormap] = {
    "light": mpl.colormaps["YlGnBu"],
    "dark": mpl.colormaps["YlGnBu_r"],
}
_BRIGHTNESS = np.array([0.2126, 0.7152, 0.0722])  # of red, green and blue

# inches
_EDGE, _PAD, _GAP = 0.1, 0.06, 0.14
_BAR, _BAR_ROOM, _LONGEST_BAR = 0.13, 1.0, 3.0
_NARROWEST, _LOWEST = 3.6, 1.0  # the least room for a title and a colour bar
_TITLE_LINE = 0.2
_SMALL = 1.0  # the longer side of a map that is one of many
_MOST_SLENDER = 4.0  # the largest ratio of its sides; a map beyond it is stretched
_NAME = 8.0  # points
_LONGEST_NAME = 60  # letters
NAME_LINE = 0.19  # inches below a map, for its name


@dataclass(frozen=True, kw_only=True)
class AxisLabels:
    """The labels along one side of a sheet.

    Args:
        texts: the labels.
        at: their positions, in cells.
        size: the size of their letters, in points.
        upright: whether they are turned by 90 degrees.
    """

    texts: Sequence[str]
    at: Sequence[float]
    size: float
    upright: bool = False

    @property
    def longest(self) -> float:
        """The width of the longest label, in inches."""
        return max(inches(text, self.size) for text in self.texts)

    @property
    def height(self) -> float:
        """The height of the labels, in inches."""
        return self.longest if self.upright else self.size * LINE / 72


@dataclass(frozen=True, kw_only=True)
class Span:
    """One direction of a sheet.

    Args:
        maps: the number of maps.
        cells: the number of cells of each map.
        cell: the size of a cell, in inches.
        gap: the distance between maps, in inches.
    """

    maps: int
    cells: int
    cell: float
    gap: float = 0.0

    @property
    def inches(self) -> float:
        """The distance from the start of the first map to the end of the last."""
        return self.maps * self.cells * self.cell + (self.maps - 1) * self.gap

    def start(self, index: int) -> float:
        """Return where a map starts, in cells; the centre of the first cell is 0."""
        return index * (self.cells + self.gap / self.cell) - 0.5

    @property
    def end(self) -> float:
        """The end of the last map, in cells."""
        return self.start(self.maps - 1) + self.cells

    def tokens(self, tokens: Sequence[str], *, upright: bool = False) -> AxisLabels:
        """Return a label for each cell of each map, or for some if they would be too small."""
        size = min(LARGEST, max(LEAST, 72 * self.cell / LINE))
        every = math.ceil(LEAST * LINE / 72 / self.cell - 1e-9)
        cells = range(0, self.cells, every)
        return AxisLabels(
            texts=[short(tokens[cell]) for cell in cells] * self.maps,
            at=[self.start(i) + 0.5 + cell for i in range(self.maps) for cell in cells],
            size=size,
            upright=upright,
        )

    def names(self, names: Sequence[str]) -> AxisLabels:
        """Return a label for each map, at its centre."""
        middles = [self.start(i) + self.cells / 2 for i in range(len(names))]
        texts = [short(name, _LONGEST_NAME) for name in names]
        return AxisLabels(texts=texts, at=middles, size=_NAME)


class Sheet:
    """A chart of maps, which `add` fills.

    Args:
        numbers: what the chart keeps.
        down: the rows of maps.
        across: the columns of maps.
        scale: the weights whose range the colours cover, from 0 (or a lower weight) to the largest.
        beside: the labels on the left.
        above: the labels on top.
        below: inches for names below the last row of maps.
        title: the title of the chart.
    """

    def __init__(
        self,
        numbers: dict[str, object],
        down: Span,
        across: Span,
        *,
        scale: Sequence[np.ndarray],
        beside: AxisLabels,
        above: AxisLabels,
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
        """Draw a map at its row and column, with its name below."""
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
        """The size in points of numbers that fit into the cells."""
        return min(7.5, 18 * min(self.down.cell, self.across.cell))

    def annotate(self, weights: Float[np.ndarray, "q k"]) -> None:
        """Write the weights of the first map into its cells."""
        for (row, column), weight in np.ndenumerate(weights):
            number = self.axes.text(
                column, row, f"{weight:.2f}", ha="center", va="center", size=self.number_size
            )
            self.cells.append((number, weight))
        self._paint("light")

    def _paint(self, theme: Theme) -> None:
        """Colour the maps by the theme, and the numbers so that they stand out."""
        for mapped in (self.colours, *self.axes.images):
            mapped.set_cmap(COLOURS[theme])
        for text, weight in self.cells:
            light = COLOURS[theme](self.scale(weight))[:3] @ _BRIGHTNESS > 0.5
            text.set_color("black" if light else "white")

    def _label(self, beside: AxisLabels, above: AxisLabels) -> None:
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
        """Draw the colour bar."""
        high = min(_LONGEST_BAR, max(self.down.inches, _LOWEST))
        axes = self._add_axes(self.across.inches + _GAP, _BAR, high)
        bar = self.chart.colorbar(self.colours, cax=axes)
        bar.ax.tick_params(labelsize=_NAME)
        bar.set_label("weight", size=_NAME)

    def _add_axes(self, right: float, wide: float, high: float) -> Axes:
        """Add axes this many inches right of the first map, with their tops aligned."""
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
    """Return the size of a square cell in inches.

    With more cells each gets smaller, so that a map keeps about this side, but not too small for
    its label, unless the sheet would get too large.

    Args:
        cells: the cells of a map (down, across).
        maps: the maps of the sheet (down, across).
        largest: the largest size of a cell.
        side: the side of a map to aim at.
    """
    most = max(count * number for count, number in zip(cells, maps, strict=True))
    return min(largest, max(side / max(cells), LEAST * LINE / 72), LONGEST_SIDE / most)


def panel_for(cells: tuple[int, int], maps: tuple[int, int]) -> tuple[float, float]:
    """Return the inches (down, across) of a small map without labels; arguments as `cell_for`."""
    aspect = min(max(cells[0] / cells[1], 1 / _MOST_SLENDER), _MOST_SLENDER)
    side = min(_SMALL, LONGEST_SIDE / max(maps))
    return side * min(aspect, 1), side / max(aspect, 1)


def gap_for(names: Sequence[str], panel: float) -> float:
    """Return the inches between maps of this width, so that their names do not overlap."""
    return max(_GAP, max((inches(name, _NAME) for name in names), default=0.0) + _GAP - panel)
