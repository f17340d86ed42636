"""How scenes are drawn: whole numbers only, so every machine makes the same pixels.

Lengths are in eighths of a pixel. A pixel is looked at in 4 × 4 places; the share of them that lie
in an object is how much of its colour the pixel takes.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

SIDE = 64  # pixels
EIGHTHS = 8  # of a pixel
LOOKS = 4  # places in a pixel, in each direction
NOISE = 6  # levels up and down
Colour = tuple[int, int, int]
Box = tuple[int, int, int, int]
Inside = Callable[[np.ndarray, np.ndarray, int], np.ndarray]


class Drawn(NamedTuple):
    """An object: what, in which colour, where its middle is, and its reach from there."""

    shape: str
    colour: Colour
    x: int
    y: int
    reach: int


class Ground(NamedTuple):
    """What lies behind: a colour in the middle, and how much lighter the right and lower ends."""

    colour: Colour
    right: int
    down: int


def draw(ground: Ground, objects: Sequence[Drawn], seed: int) -> np.ndarray:
    """The scene in uint8 (rows, columns, 3), with noise of this seed."""
    middle = np.arange(SIDE) * 2 + 1 - SIDE  # from -63 to 63
    shade = (ground.right * middle[None, :] + ground.down * middle[:, None]) // (2 * SIDE)
    pixels = np.array(ground.colour) + shade[:, :, None]
    for each in objects:
        covered = coverage(each)[:, :, None]
        whole = LOOKS**2
        pixels = (
            pixels * (whole - covered) + np.array(each.colour) * covered + whole // 2
        ) // whole
    # the stream of RandomState never changes, unlike that of newer generators
    drawn = np.random.RandomState(seed).random_sample(pixels.shape)
    noise = np.floor(drawn * (2 * NOISE + 1)).astype(np.int64) - NOISE
    return (pixels + noise).clip(0, 255).astype(np.uint8)


def coverage(drawn: Drawn) -> np.ndarray:
    """How many of the 16 places of each pixel lie in the object (rows, columns)."""
    columns, x = _looks(drawn.x, drawn.reach)
    rows, y = _looks(drawn.y, drawn.reach)
    inside = INSIDE[drawn.shape](x[None, :], y[:, None], drawn.reach)
    covered = np.zeros((SIDE, SIDE), dtype=np.int64)
    covered[rows, columns] = inside.reshape(len(y) // LOOKS, LOOKS, -1, LOOKS).sum((1, 3))
    return covered


def _looks(middle: int, reach: int) -> tuple[slice, np.ndarray]:
    """The pixels that an object may touch, and how far from its middle the places in them are."""
    pixels = slice(max(0, (middle - reach) // EIGHTHS), min(SIDE, (middle + reach) // EIGHTHS + 1))
    step = EIGHTHS // LOOKS
    places = np.arange(pixels.start * LOOKS, pixels.stop * LOOKS) * step + step // 2
    return pixels, places - middle


def box(drawn: Drawn) -> Box:
    """The smallest (left, top, right, bottom) around all pixels that have some of the object.

    In pixels, the right column and the lower row no longer in it, as Pillow has it.
    """
    covered = coverage(drawn) > 0
    columns, rows = covered.any(0).nonzero()[0], covered.any(1).nonzero()[0]
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def _circle(x: np.ndarray, y: np.ndarray, reach: int) -> np.ndarray:
    return x**2 + y**2 <= reach**2


def _ring(x: np.ndarray, y: np.ndarray, reach: int) -> np.ndarray:
    return _circle(x, y, reach) & (100 * (x**2 + y**2) >= 36 * reach**2)


def _moon(x: np.ndarray, y: np.ndarray, reach: int) -> np.ndarray:
    """A circle without another one to the right of its middle, and moved to the right."""
    whole = (20 * x - 5 * reach) ** 2 + (20 * y) ** 2 <= (20 * reach) ** 2
    return whole & ((20 * x - 16 * reach) ** 2 + (20 * y) ** 2 >= (17 * reach) ** 2)


def _square(x: np.ndarray, y: np.ndarray, reach: int) -> np.ndarray:
    return 20 * np.maximum(abs(x), abs(y)) <= 17 * reach


def _diamond(x: np.ndarray, y: np.ndarray, reach: int) -> np.ndarray:
    return abs(x) + abs(y) <= reach


def _triangle(x: np.ndarray, y: np.ndarray, reach: int) -> np.ndarray:
    """On its base."""
    return (20 * y <= 16 * reach) & (100 * abs(x) <= 54 * (y + reach))


def _cross(x: np.ndarray, y: np.ndarray, reach: int) -> np.ndarray:
    near, far = np.minimum(abs(x), abs(y)), np.maximum(abs(x), abs(y))
    return (100 * near <= 28 * reach) & (far <= reach)


# towards the five points of a star, of length 1000
_POINTS = ((0, -1000), (951, -309), (588, 809), (-588, 809), (-951, -309))


def _star(x: np.ndarray, y: np.ndarray, reach: int) -> np.ndarray:
    """A pentagram: on the inner side of at least four of the five lines between its points."""
    return sum(a * x + b * y <= 309 * reach for a, b in _POINTS) >= 4


INSIDE: dict[str, Inside] = {
    "circle": _circle,
    "ring": _ring,
    "moon": _moon,
    "square": _square,
    "diamond": _diamond,
    "triangle": _triangle,
    "cross": _cross,
    "star": _star,
}
