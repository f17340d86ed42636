"""Drawing of scenes in integer arithmetic, so that every machine gives the same pixels.

Lengths are in eighths of a pixel. Each pixel is sampled at 4 × 4 points; the fraction of points
inside an object is the fraction of its colour that the pixel takes.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

SIDE = 64  # pixels
EIGHTHS = 8  # of a pixel
POINTS = 4  # sample points of a pixel in each direction
NOISE = 6  # levels up and down
Colour = tuple[int, int, int]
Box = tuple[int, int, int, int]
Inside = Callable[[np.ndarray, np.ndarray, int], np.ndarray]


class Drawn(NamedTuple):
    """An object: shape, colour, centre, and the distance from the centre to its edge."""

    shape: str
    colour: Colour
    x: int
    y: int
    reach: int


class Ground(NamedTuple):
    """The background: its colour in the middle, and the gain in lightness to the right and down."""

    colour: Colour
    right: int
    down: int


def draw(ground: Ground, objects: Sequence[Drawn], seed: int) -> np.ndarray:
    """Draw a scene as uint8 (rows, columns, 3), with noise of this seed."""
    middle = np.arange(SIDE) * 2 + 1 - SIDE  # from -63 to 63
    shade = (ground.right * middle[None, :] + ground.down * middle[:, None]) // (2 * SIDE)
    pixels = np.array(ground.colour) + shade[:, :, None]
    total = POINTS**2
    for drawn in objects:
        covered = coverage(drawn)[:, :, None]
        colour = np.array(drawn.colour) * covered
        pixels = (pixels * (total - covered) + colour + total // 2) // total
    # the stream of RandomState never changes, unlike that of newer generators
    random = np.random.RandomState(seed).random_sample(pixels.shape)
    noise = np.floor(random * (2 * NOISE + 1)).astype(np.int64) - NOISE
    return (pixels + noise).clip(0, 255).astype(np.uint8)


def coverage(drawn: Drawn) -> np.ndarray:
    """Return how many of the 16 points of each pixel lie in the object (rows, columns)."""
    columns, x = _points(drawn.x, drawn.reach)
    rows, y = _points(drawn.y, drawn.reach)
    inside = INSIDE[drawn.shape](x[None, :], y[:, None], drawn.reach)
    covered = np.zeros((SIDE, SIDE), dtype=np.int64)
    covered[rows, columns] = inside.reshape(len(y) // POINTS, POINTS, -1, POINTS).sum((1, 3))
    return covered


def _points(middle: int, reach: int) -> tuple[slice, np.ndarray]:
    """Return the pixels an object may touch, and the distances of their points from its centre."""
    pixels = slice(max(0, (middle - reach) // EIGHTHS), min(SIDE, (middle + reach) // EIGHTHS + 1))
    step = EIGHTHS // POINTS
    places = np.arange(pixels.start * POINTS, pixels.stop * POINTS) * step + step // 2
    return pixels, places - middle


def box(drawn: Drawn) -> Box:
    """Return the smallest (left, top, right, bottom) around all pixels the object touches.

    As in Pillow, the right column and the bottom row lie outside the box.
    """
    covered = coverage(drawn) > 0
    columns, rows = np.flatnonzero(covered.any(axis=0)), np.flatnonzero(covered.any(axis=1))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def _circle(x: np.ndarray, y: np.ndarray, reach: int) -> np.ndarray:
    return x**2 + y**2 <= reach**2


def _ring(x: np.ndarray, y: np.ndarray, reach: int) -> np.ndarray:
    return _circle(x, y, reach) & (100 * (x**2 + y**2) >= 36 * reach**2)


def _moon(x: np.ndarray, y: np.ndarray, reach: int) -> np.ndarray:
    """A circle minus a smaller one to its right, shifted right to centre the rest."""
    whole = (20 * x - 5 * reach) ** 2 + (20 * y) ** 2 <= (20 * reach) ** 2
    return whole & ((20 * x - 16 * reach) ** 2 + (20 * y) ** 2 >= (17 * reach) ** 2)


def _square(x: np.ndarray, y: np.ndarray, reach: int) -> np.ndarray:
    return 20 * np.maximum(abs(x), abs(y)) <= 17 * reach


def _diamond(x: np.ndarray, y: np.ndarray, reach: int) -> np.ndarray:
    return abs(x) + abs(y) <= reach


def _triangle(x: np.ndarray, y: np.ndarray, reach: int) -> np.ndarray:
    """An isosceles triangle on its base."""
    return (20 * y <= 16 * reach) & (100 * abs(x) <= 54 * (y + reach))


def _cross(x: np.ndarray, y: np.ndarray, reach: int) -> np.ndarray:
    near, far = np.minimum(abs(x), abs(y)), np.maximum(abs(x), abs(y))
    return (100 * near <= 28 * reach) & (far <= reach)


# directions of the five points of a star, of length 1000
_STAR = ((0, -1000), (951, -309), (588, 809), (-588, 809), (-951, -309))


def _star(x: np.ndarray, y: np.ndarray, reach: int) -> np.ndarray:
    """A pentagram: the points inside at least four of the five lines between its tips."""
    return sum(a * x + b * y <= 309 * reach for a, b in _STAR) >= 4


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
