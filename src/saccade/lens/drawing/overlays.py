"""Attention over an image: the image, and one panel per word with the cells it attends to."""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from jaxtyping import Float, Float32, UInt8
from matplotlib.cm import ScalarMappable
from matplotlib.patches import Rectangle
from PIL import Image

from saccade.errors import FigureError, ShapeError
from saccade.lens.drawing.chart import Chart, in_rows
from saccade.lens.drawing.fonts import families, plain, short, width

MOST_PANELS = 60
"""Maximum number of words of a caption to draw; the chart's numbers include all of them."""
WIDEST_WORD = 24  # letters; longer words are shown without their middle

# inches
_PANEL = 1.6  # the longer side of a panel
_STRIP = 0.8, 6.0  # the height and the width of a strip over time
_COLUMN = 1.2  # the least width of a panel with its word
_MOST_SLENDER = 4.0  # the largest ratio of a panel's sides; an image beyond it is stretched
_GAP, _ABOVE, _BELOW = 0.12, 0.22, 0.2  # around a panel, with its word above and its weight below
_EDGE, _TITLE, _BAR = 0.12, 0.3, 0.75
_NARROWEST, _LOWEST = 4.0, 2.2  # the smallest sheet that has room for its title and colour bar
_RESOLUTION = 200  # pixels of an image per inch

_COLOURS = mpl.colormaps["viridis"]
_OPACITY = (0.45, 0.75)  # of the colours over the image, at weight 0 and at the largest weight
_DARKEST, _LIGHTEST = 0.05, 0.7  # the greys of an image; weights stand out on white, too


def overlays(
    pixels: UInt8[np.ndarray, "_ _ 3"],
    grid: tuple[int, int],
    weights: Float[np.ndarray, "_ _"],
    words: Sequence[str],
    *,
    title: str = "",
    name: str = "image",
    strip: bool = False,
) -> Chart:
    """Draw an image, then for each word the image in grey under the colours of its attention.

    The colours of a panel go from 0 to its largest weight, which is written below it. Cells are
    interpolated. At most the first 60 words are drawn.

    Args:
        pixels: the image as bytes (height, width, 3).
        grid: the number of cells (down, across).
        weights: the attention (words, cells), cells row by row.
        words: the words, or other names of what attends.
        title: the title of the chart.
        name: the name of the image.
        strip: whether the image is a strip of steps over time: panels are as wide as the sheet, one
            below the other, with the numbers of the first and the last step.

    Raises:
        ShapeError: if the weights do not fit the words and the grid.
        FigureError: if weights are negative, NaN or infinite.
    """
    cells = grid[0] * grid[1]
    if weights.shape != (len(words), cells):
        raise ShapeError(
            f"an overlay on a grid of {grid[0]} × {grid[1]} needs weights (words, cells) "
            f"({len(words)}, {cells}), got {weights.shape}; "
            "pass one row per word and one column per cell"
        )
    if not ((weights >= 0) & (weights < np.inf)).all():
        raise FigureError(
            "an overlay shows weights of at least 0; these hold negative ones, NaN or infinity"
        )
    shown = words[:MOST_PANELS]
    if len(shown) < len(words):
        title = f"{title}{', ' if title else ''}first {len(shown)} of {len(words)} words"
    numbers = {"grid": list(grid), "words": list(words), "weights": weights.tolist()}
    steps = cells if strip else None
    sheet = _Sheet(pixels.shape[0] / pixels.shape[1], len(shown) + 1, numbers, steps)
    picture = _resized(pixels, sheet.panel)
    sheet.add(picture, name if words else "no words were written")
    for word, row in zip(shown, weights, strict=False):
        peak = float(row.max())
        heat = upsample(row.reshape(grid) / (peak or 1.0), picture.shape[:2])
        sheet.add(_covered(picture, heat), word, f"max {peak:.2g}")
    if shown:
        sheet.add_bar()
    if title:
        size = min(10.0, 115 * sheet.width / width(title))
        sheet.chart.suptitle(
            plain(title), size=size, y=1 - 0.1 / sheet.height, family=families([title])
        )
    return sheet.chart


def upsample(
    grid: Float[np.ndarray, "rows columns"], size: tuple[int, int]
) -> Float32[np.ndarray, "height width"]:
    """Stretch cells over an image of this size (height, width), linearly between their centres."""
    cells = Image.fromarray(grid.astype(np.float32))
    return np.asarray(cells.resize(size[::-1], Image.Resampling.BILINEAR))


class _Sheet:
    """A chart of panels in rows, filled one after the other.

    All panels share one pair of axes, whose unit is the inch, because many pairs are slow to draw.
    """

    def __init__(
        self, aspect: float, panels: int, numbers: dict[str, object], steps: int | None = None
    ) -> None:
        self.steps = steps
        if steps is None:
            aspect = min(max(aspect, 1 / _MOST_SLENDER), _MOST_SLENDER)
            self.panel = _PANEL * min(aspect, 1), _PANEL / max(aspect, 1)
            self.column = max(_COLUMN, self.panel[1])
            self.rows, self.columns = in_rows(panels, self.panel[0] / self.column)
        else:
            self.panel, self.column = _STRIP, _STRIP[1]
            self.rows, self.columns = panels, 1
        self.width = max(_NARROWEST, 2 * _EDGE + _BAR + self.columns * (self.column + _GAP) - _GAP)
        self.height = max(_LOWEST, _EDGE + _TITLE + self.rows * (_ABOVE + self.panel[0] + _BELOW))
        self.chart = Chart(numbers, figsize=(self.width, self.height), layout="none")
        self.axes = self.chart.add_axes((0, 0, 1, 1), xlim=(0, self.width), ylim=(0, self.height))
        self.axes.set_axis_off()
        self.added = 0

    def add(self, picture: np.ndarray, label: str, below: str = "") -> None:
        """Draw the next panel."""
        row, column = divmod(self.added, self.columns)
        height, wide = self.panel
        middle = _EDGE + column * (self.column + _GAP) + self.column / 2
        left = middle - wide / 2
        top = self.height - _TITLE - _ABOVE - row * (_ABOVE + height + _BELOW)
        self.axes.imshow(
            picture,
            extent=(left, left + wide, top - height, top),
            interpolation="nearest",
            aspect="auto",
        )
        self.axes.add_patch(
            Rectangle(
                (left, top - height), wide, height, fill=False, edgecolor="0.5", linewidth=0.6
            )
        )
        word = short(label, WIDEST_WORD)
        size = min(9.0, 90 * self.column / max(width(word), 1))
        self._write(middle, top + 0.06, word, size)
        self._write(middle, top - height - 0.13, below, size=7.0)
        if self.steps is not None:
            self._write(left, top - height - 0.13, "step 0", size=7.0, align="left")
            last = f"step {self.steps - 1}"
            self._write(left + wide, top - height - 0.13, last, size=7.0, align="right")
        self.added += 1

    def add_bar(self) -> None:
        """Draw the colour bar."""
        top = self.height - _TITLE - _ABOVE
        high = min(2.0, top - _BELOW)
        place = (self.width - _BAR + 0.1, top - high, 0.12, high)
        inches = (self.width, self.height, self.width, self.height)
        left, bottom, wide, tall = (a / b for a, b in zip(place, inches, strict=True))
        axes = self.chart.add_axes((left, bottom, wide, tall))
        bar = self.chart.colorbar(ScalarMappable(cmap=_COLOURS), cax=axes)
        bar.set_ticks([0, 0.5, 1], labels=["0", "½", "1"], size=7)
        bar.set_label("fraction of the maximum", size=7)

    def _write(self, x: float, y: float, text: str, size: float, align: str = "center") -> None:
        self.chart.text(
            x / self.width,
            y / self.height,
            text,
            ha=align,
            va="baseline",
            size=size,
            family=families([text]),
        )


def _resized(
    pixels: UInt8[np.ndarray, "_ _ 3"], panel: tuple[float, float]
) -> UInt8[np.ndarray, "height width 3"]:
    """Return an image in the size in which it is drawn; pixels of small images stay visible."""
    height, wide = (round(side * _RESOLUTION) for side in panel)
    return np.asarray(Image.fromarray(pixels).resize((wide, height), Image.Resampling.BOX))


def _covered(
    picture: UInt8[np.ndarray, "height width 3"], heat: Float32[np.ndarray, "height width"]
) -> UInt8[np.ndarray, "height width 3"]:
    """Return the image in grey, so that its colours are not taken for weights, under theirs."""
    grey = np.asarray(Image.fromarray(picture).convert("L"), np.float32)[:, :, None] / 255
    grey = _DARKEST + (_LIGHTEST - _DARKEST) * grey
    opacity = _OPACITY[0] + (_OPACITY[1] - _OPACITY[0]) * heat[:, :, None]
    mixed = (1 - opacity) * grey + opacity * _COLOURS(heat)[:, :, :3]
    return (255 * mixed).round().astype(np.uint8)
