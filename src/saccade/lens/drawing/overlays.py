"""Attention over an image: the image, and a panel for each word with the cells it looked at."""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Float, Float32, UInt8
from matplotlib.cm import ScalarMappable
from matplotlib.patches import Rectangle
from PIL import Image

from saccade.errors import FigureError, ShapeError
from saccade.lens.drawing.chart import Chart, in_rows
from saccade.lens.drawing.fonts import families, plain, short, width
from saccade.lens.record.sides import ImageSide

MOST_PANELS = 60
"""Words that are shown of a caption; the numbers beside the picture have all."""
WIDEST_WORD = 24  # letters; what is longer is shown without its middle

# of the drawing, in inches
_PANEL = 1.6  # the longer side
_COLUMN = 1.2  # the least for a panel with its word
_MOST_SLENDER = 4.0  # sides of a panel, one by the other; what is more so is stretched to it
_GAP, _ABOVE, _BELOW = 0.12, 0.22, 0.2  # around a panel; its word is above, its weight below
_EDGE, _TITLE, _BAR = 0.12, 0.3, 0.75
_NARROWEST, _LOWEST = 4.0, 2.2  # of the whole sheet, so that its title and bar have room
_FINENESS = 200  # pixels of an image in an inch

_COLOURS = mpl.colormaps["viridis"]
_COVER = (0.45, 0.75)  # of the colours over the image, where the weight is 0 and where it is most
_DARKEST, _LIGHTEST = 0.05, 0.7  # the greys of an image, so that weights stand out on white, too


def overlays(
    image: ImageSide,
    weights: Float[np.ndarray, "_ _"],
    words: Sequence[str],
    *,
    title: str = "",
) -> Chart:
    """The image as it is, then, for each word, in grey under the colours of its weights.

    `weights` are (words, cells). They are drawn with soft edges; the colours of a panel go from 0
    to its strongest cell, whose weight stands below it. Of more than 60 words the first are shown.
    """
    cells = image.grid[0] * image.grid[1]
    if weights.shape != (len(words), cells):
        raise ShapeError(
            f"{len(words)} words over a grid of {image.grid[0]} × {image.grid[1]} need weights "
            f"({len(words)}, {cells}), got {weights.shape}"
        )
    if not ((weights >= 0) & (weights < np.inf)).all():
        raise FigureError("weights are drawn from 0 on; these hold negative ones, NaN or infinity")
    shown = words[:MOST_PANELS]
    if len(shown) < len(words):
        title = f"{title}{', ' if title else ''}first {len(shown)} of {len(words)} words"
    numbers = {"grid": list(image.grid), "words": list(words), "weights": weights.tolist()}
    sheet = _Sheet(image, len(shown) + 1, numbers)
    picture = _drawn(image.pixels, sheet.panel)
    sheet.add(picture, "image" if words else "nothing was written")
    for word, row in zip(shown, weights, strict=False):
        peak = float(row.max())
        heat = upsample(row.reshape(image.grid) / (peak or 1.0), picture.shape[:2])
        sheet.add(_covered(picture, heat), word, f"strongest {peak:.2g}")
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
    """Cells stretched over an image of this size (height, width), linear between their middles."""
    cells = Image.fromarray(grid.astype(np.float32))
    return np.asarray(cells.resize(size[::-1], Image.Resampling.BILINEAR))


class _Sheet:
    """A chart of panels in rows, filled one after the other.

    All lie in one pair of axes whose unit is the inch: many pairs are slow to draw.
    """

    def __init__(self, image: ImageSide, panels: int, numbers: dict[str, Any]) -> None:
        down, across, _ = image.pixels.shape
        slender = min(max(down / across, 1 / _MOST_SLENDER), _MOST_SLENDER)
        self.panel = _PANEL * min(slender, 1), _PANEL / max(slender, 1)
        self.column = max(_COLUMN, self.panel[1])
        self.rows, self.columns = in_rows(panels, self.panel[0] / self.column)
        self.width = max(_NARROWEST, 2 * _EDGE + _BAR + self.columns * (self.column + _GAP) - _GAP)
        self.height = max(_LOWEST, _EDGE + _TITLE + self.rows * (_ABOVE + self.panel[0] + _BELOW))
        self.chart = Chart(numbers, figsize=(self.width, self.height), layout="none")
        self.axes = self.chart.add_axes((0, 0, 1, 1), xlim=(0, self.width), ylim=(0, self.height))
        self.axes.set_axis_off()
        self.added = 0

    def add(self, picture: np.ndarray, label: str, below: str = "") -> None:
        """The next panel."""
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
        self._write(middle, top + 0.06, word, size=size, family=families([word]))
        self._write(middle, top - height - 0.13, below, size=7)
        self.added += 1

    def add_bar(self) -> None:
        """What the colours mean."""
        top = self.height - _TITLE - _ABOVE
        high = min(2.0, top - _BELOW)
        place = (self.width - _BAR + 0.1, top - high, 0.12, high)
        inches = (self.width, self.height, self.width, self.height)
        left, bottom, wide, tall = (a / b for a, b in zip(place, inches, strict=True))
        axes = self.chart.add_axes((left, bottom, wide, tall))
        bar = self.chart.colorbar(ScalarMappable(cmap=_COLOURS), cax=axes)
        bar.set_ticks([0, 0.5, 1], labels=["0", "½", "1"], size=7)
        bar.set_label("weight by the strongest", size=7)

    def _write(self, x: float, y: float, text: str, **options: Any) -> None:
        where = x / self.width, y / self.height
        self.chart.text(*where, text, ha="center", va="baseline", **options)


def _drawn(
    pixels: UInt8[np.ndarray, "_ _ 3"], panel: tuple[float, float]
) -> UInt8[np.ndarray, "height width 3"]:
    """An image in the size in which it is drawn; of a small one the pixels stay visible."""
    height, wide = (round(side * _FINENESS) for side in panel)
    return np.asarray(Image.fromarray(pixels).resize((wide, height), Image.Resampling.BOX))


def _covered(
    picture: UInt8[np.ndarray, "height width 3"], heat: Float32[np.ndarray, "height width"]
) -> UInt8[np.ndarray, "height width 3"]:
    """The image in grey, so that its own colours are not taken for weights, under theirs."""
    grey = np.asarray(Image.fromarray(picture).convert("L"), np.float32)[:, :, None] / 255
    grey = _DARKEST + (_LIGHTEST - _DARKEST) * grey
    cover = _COVER[0] + (_COVER[1] - _COVER[0]) * heat[:, :, None]
    mixed = (1 - cover) * grey + cover * _COLOURS(heat)[:, :, :3]
    return (255 * mixed).round().astype(np.uint8)
