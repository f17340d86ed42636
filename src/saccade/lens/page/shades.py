"""Shades of weights, as the scripts of the pages shade them, for what a page shows without them."""

import base64
import io

import numpy as np
from jaxtyping import Float
from PIL import Image

from saccade.lens.record import ImageSide

UNIFORM = 0.12
"""The strength of a weight in uniform attention."""
TENTHS = 10
PIXELS = 160
"""The longer side of a covered image."""
# viridis, as in the figures and in image_view.js
_COLOURS = np.array(
    [
        (68, 1, 84),
        (71, 45, 123),
        (59, 82, 139),
        (44, 114, 142),
        (33, 145, 140),
        (40, 174, 128),
        (94, 201, 98),
        (173, 220, 48),
        (253, 231, 37),
    ],
    np.float64,
)


def strength(weights: Float[np.ndarray, "*q k"]) -> Float[np.ndarray, "*q k"]:
    """Return how strongly to shade weights, from 0 to 1, relative to uniform attention.

    The shade grows with the logarithm of how many times a weight exceeds 1 / keys, so that flat
    attention looks flat, and reaches 1 where one key has all attention.

    >>> strength(np.array([0.25, 0.25, 0.25, 0.25])).tolist()
    [0.12, 0.12, 0.12, 0.12]
    >>> strength(np.array([1.0, 0.0, 0.0, 0.0])).tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    keys = weights.shape[-1]
    if keys < 2:
        return np.clip(weights, 0.0, 1.0)
    times = np.maximum(weights * keys, 0.0)
    above = UNIFORM + (1 - UNIFORM) * np.log(np.maximum(times, 1.0)) / np.log(keys)
    return np.minimum(1.0, np.where(times <= 1, UNIFORM * times, above))


def tenths(weights: Float[np.ndarray, " k"]) -> list[int]:
    """Return the strengths of weights in tenths, for the classes `shade-0` to `shade-10`."""
    return [int(tenth) for tenth in np.rint(TENTHS * strength(weights))]


def covered(side: ImageSide, weights: Float[np.ndarray, " cells"]) -> str:
    """Return an image under the colours of the weights of its cells, as a data URL."""
    image = Image.fromarray(side.pixels)
    scale = PIXELS / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    grey = np.asarray(image.convert("L").resize(size, Image.Resampling.NEAREST), np.float64)
    cells = Image.fromarray(strength(weights).reshape(side.grid).astype(np.float32))
    heat = np.asarray(cells.resize(size, Image.Resampling.BILINEAR), np.float64)
    place = heat * (len(_COLOURS) - 1)
    colours = np.stack(
        [np.interp(place, np.arange(len(_COLOURS)), part) for part in _COLOURS.T], -1
    )
    cover = (0.45 + 0.3 * heat)[..., None]
    mixed = (1 - cover) * (13 + 0.65 * grey)[..., None] + cover * colours
    file = io.BytesIO()
    Image.fromarray(np.rint(mixed).astype(np.uint8)).save(file, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
