"""The pointing game: does the attention of an object's word point at the object?

Each object word of a caption has a map of attention over the cells of a grid that is laid over the
image. It is a hit where the middle of the strongest cell lies in the object's box (Zhang et al.
2016, "Top-down neural attention by excitation backprop", there of any map and without its margin
around the box). What a map without any aim would hit is said beside it.
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
    """How often the words pointed at their objects.

    `hits` of `count` object words did; a word with several strongest cells counts with the share
    of them that lie in the box, so attention that is the same everywhere hits as chance does.
    `chance` is the mean share of cells whose middle lies in the box. `counts` are the hits and the
    object words of each caption; `saccade.metrics.pointing(counts)` gives their ratio with its
    confidence interval over captions, and `paired_bootstrap` compares two models by them.
    """

    hits: float
    chance: float
    count: int
    counts: Float[np.ndarray, "captions 2"]

    @property
    def rate(self) -> float:
        """Of hits among all object words, to be compared with `chance`."""
        return self.hits / self.count


def pointing_game(
    weights: Sequence[Float[np.ndarray, "_ _"]],
    boxes: Sequence[Sequence[tuple[int, Box]]],
    grid: tuple[int, int],
    size: tuple[int, int],
) -> Pointing:
    """Play it over captions: of each the weights (words, cells) and the boxes of its object words.

    `grid` is the number of cells (down, across), which lie row by row; `size` is that of the image
    in pixels (height, width). A box comes with the place of its word, counted from 0, as (left,
    top, right, bottom) in pixels; its left and upper edges are in it, the others are not. A box
    between the middles of cells cannot be hit, which `chance` tells, too.
    """
    if len(weights) != len(boxes):
        raise MetricError(
            f"each caption needs weights and a list of boxes; got weights of {len(weights)} and "
            f"boxes of {len(boxes)} captions"
        )
    if min(*grid, *size) < 1:
        raise ShapeError(f"a grid and an image have a height and a width; got {grid} and {size}")
    counts, chances = np.zeros((len(weights), 2)), []
    for caption, (maps, named) in enumerate(zip(weights, boxes, strict=True)):
        _require_maps(maps, grid, caption)
        for word, box in named:
            if not 0 <= word < len(maps):
                raise MetricError(
                    f"caption {caption} has a box for its word {word}, but weights for the words "
                    f"0 to {len(maps) - 1} only"
                )
            inside = cells_in(box, grid, size)
            counts[caption] += inside[maps[word] == maps[word].max()].mean(), 1
            chances.append(inside.mean())
    if not chances:
        raise MetricError("no object word has a box, so there is nothing to point at")
    hits, count = counts.sum(0).tolist()
    return Pointing(hits=hits, chance=float(np.mean(chances)), count=int(count), counts=counts)


def cells_in(box: Box, grid: tuple[int, int], size: tuple[int, int]) -> np.ndarray:
    """For each cell of the grid, row by row, whether its middle lies in the box."""
    left, top, right, bottom = box
    if not (0 <= left < right <= size[1] and 0 <= top < bottom <= size[0]):
        raise MetricError(
            f"the box {box} (left, top, right, bottom) does not lie in an image that is {size[1]} "
            f"pixels wide and {size[0]} high"
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
        raise MetricError(f"the weights of caption {caption} hold NaN or infinity")
