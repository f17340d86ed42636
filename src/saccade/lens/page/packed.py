"""Weights and images in few letters, for pages.

A weight is kept as a whole number of steps, at most 255, so it is off by at most half a step. Each
row has its own step: its greatest weight / 255, but not less than a 16th of what a row of 256 or
more equal weights holds each, since finer ones cost room and tell nothing.
"""

import base64
import io
import zlib

import numpy as np
from jaxtyping import Float32
from PIL import Image

from saccade.errors import FigureError
from saccade.lens.record.sides import ImageSide

LEVELS = 255
LONGEST_SIDE = 640  # pixels of an image
FEW_PIXELS = 256 * 256  # what is larger is kept as JPEG
_FINEST_OF = 256


def steps(weights: Float32[np.ndarray, "h q k"]) -> Float32[np.ndarray, "h q"]:
    """The step of each row."""
    finest = 1 / (16 * max(weights.shape[2], _FINEST_OF))
    return np.maximum(weights.max(2, initial=0.0) / LEVELS, finest).astype("<f4")


def packed(weights: Float32[np.ndarray, "h q k"], name: str) -> str:
    """The weights of the layer of this name: base64 of zlib of all steps (little-endian floats),
    then of all levels (bytes), head by head and row by row.
    """
    if (weights < 0).any():
        raise FigureError(
            f"weights are shown from 0 on; those of layer {name!r} hold negative ones"
        )
    step = steps(weights)
    levels = np.rint(weights / step[:, :, None]).astype(np.uint8)
    # longer repeats than those of one byte are rare among weights, and looking for them is slow
    deflate = zlib.compressobj(strategy=zlib.Z_RLE)
    content = deflate.compress(step.tobytes()) + deflate.compress(levels.tobytes())
    return base64.b64encode(content + deflate.flush()).decode()


def picture(image: ImageSide) -> str:
    """Base64 of a PNG, or of a JPEG if the image is large; at most 640 pixels long."""
    shown = Image.fromarray(image.pixels)
    shown.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    file = io.BytesIO()
    if shown.width * shown.height > FEW_PIXELS:
        shown.save(file, "JPEG", quality=88)
    else:
        shown.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()
