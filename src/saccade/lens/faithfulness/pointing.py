"""The pointing game: whether the attention of an object's word points at the object.

Each object word of a caption has a map of attention over the cells of a grid laid over the image.
It scores a hit if the centre of the strongest cell lies inside the object's box (Zhang et al. 2016,
"Top-down neural attention by excitation backprop"; there for maps of any kind, and with a margin
around the box). The hit rate of chance is reported with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saccade.errors import MetricError, ShapeError

Pixels = int | float
Box = tuple[Pixels, Pixels, Pixels, Pixels]


@dataclass(frozen=True, kw_only=True)
class Pointing:
    """The result of a pointing game.

    `saccade.metrics.pointing(counts)` adds a confidence interval over captions to the rate, and
    `paired_bootstrap` compares two models by their counts.

    Args:
        hits: the number of object words whose attention points at their object. A word with
            several equally strong cells counts as the fraction of them that lie in the box, so
            that uniform attention scores the same as chance.
        chance: the expected hit rate of attention to a random cell: the mean fraction of cells
            whose centre lies in the box.
        count: the number of object words.
        counts: hits and object words of each caption.
    """

    hits: float
    chance: float
    count: int
    counts: Float[np.ndarray, "captions 2"]

    @property
    def rate(self) -> float:
        """The fraction of object words that score a hit, to be compared with `chance`."""
        return self.hits / self.count


def pointing_game(
    weights: Sequence[Float[np.ndarray, "_ _"]],
    boxes: Sequence[Sequence[tuple[int, Box]]],
    grid: tuple[int, int],
    size: tuple[int, int],
) -> Pointing:
    """Play the pointing game over captions.

    Args:
        weights: for each caption the attention (words, cells), cells row by row.
        boxes: for each caption the objects it names: the 0-based index of the word, and the box
            (left, top, right, bottom) in pixels. The left and top edges belong to the box, the
            others do not. A box that holds no centre of a cell cannot be hit.
        grid: the number of cells (down, across).
        size: the size of the images in pixels (height, width).

    Raises:
        MetricError: if no word has a box, or weights and boxes do not fit each other.
        ShapeError: if weights do not fit the grid.
    """
    if len(weights) != len(boxes):
        raise MetricError(
            f"each caption needs weights and a list of boxes; got weights of {len(weights)} and "
            f"boxes of {len(boxes)} captions"
        )
    if min(*grid, *size) < 1:
        raise ShapeError(
            f"a grid and an image need a height and a width of at least 1; got {grid} and {size}"
        )
    counts, chances = np.zeros((len(weights), 2)), []
    for caption, (maps, objects) in enumerate(zip(weights, boxes, strict=True)):
        _require_maps(maps, grid, caption)
        for word, box in objects:
            if not 0 <= word < len(maps):
                raise MetricError(
                    f"caption {caption} has a box for word {word}, but weights for words 0 to "
                    f"{len(maps) - 1} only; "
                    "count words from 0"
                )
            inside = cells_in(box, grid, size)
            counts[caption] += inside[maps[word] == maps[word].max()].mean(), 1
            chances.append(inside.mean())
    if not chances:
        raise MetricError(
            "the pointing game needs at least one object word with a box; no caption has one"
        )
    hits, count = counts.sum(0).tolist()
    return Pointing(hits=hits, chance=float(np.mean(chances)), count=int(count), counts=counts)


def cells_in(box: Box, grid: tuple[int, int], size: tuple[int, int]) -> np.ndarray:
    """Return for each cell of the grid, row by row, whether its centre lies in the box.

    The arguments are those of `pointing_game`.
    """
    left, top, right, bottom = box
    if not (0 <= left < right <= size[1] and 0 <= top < bottom <= size[0]):
        raise MetricError(
            f"the box {box} (left, top, right, bottom) does not lie in an image that is {size[1]} "
            f"pixels wide and {size[0]} pixels high; "
            "correct the box"
        )
    y, x = ((np.arange(n) + 0.5) * pixels / n for n, pixels in zip(grid, size, strict=True))
    down, across = (top <= y) & (y < bottom), (left <= x) & (x < right)
    return (down[:, None] & across[None, :]).ravel()


def _require_maps(maps: np.ndarray, grid: tuple[int, int], caption: int) -> None:
    if maps.ndim != 2 or maps.shape[1] != grid[0] * grid[1]:
        raise ShapeError(
            f"caption {caption} has weights {maps.shape}; a grid of {grid[0]} × {grid[1]} needs "
            f"(words, {grid[0] * grid[1]})"
        )
    if not np.isfinite(maps).all():
        raise MetricError(
            f"the weights of caption {caption} hold NaN or infinity; check the model's numbers"
        )
