"""Handwritten digits in 8×8 pixels, which come with scikit-learn.

They are the test part of "Optical Recognition of Handwritten Digits" (Alpaydin and Kaynak 1998,
UCI Machine Learning Repository, CC BY 4.0). Only this one file of the package is read.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from saccade.data.builtin._shared import image_name, image_number, package_file, split_by_hash

if TYPE_CHECKING:
    from PIL.Image import Image

DESCRIPTION = "handwritten digits in 8×8 pixels, scikit-learn's, 1 797 images"
COLUMNS = ("image", "label")
INSIDE = Path("datasets") / "data" / "digits.csv.gz"
SIDE = 8
DARKEST = 16


def rows(split: str) -> Iterator[tuple[str, ...]]:
    """Yield the image's name and label: about 75 % train, 10 % valid, 15 % test.

    Equal images always fall into the same split.
    """
    for number, values in enumerate(_digits()):
        *pixels, label = values.tolist()
        if split_by_hash(b"builtin:digits " + bytes(pixels), test=15, valid=10) == split:
            yield image_name("digits", number), str(label)


def image(name: str) -> "Image":
    """Return the digit of a name such as `builtin:digits/123`, light on dark."""
    from PIL import Image

    digits = _digits()
    pixels = digits[image_number(name, "digits", len(digits)), :-1].reshape(SIDE, SIDE)
    return Image.fromarray((pixels * 255.0 / DARKEST).round().astype(np.uint8)).convert("RGB")


@lru_cache(maxsize=1)
def _digits() -> np.ndarray:
    """Return one row per image: 64 pixels from 0 to 16 and the label."""
    path = package_file("digits", "sklearn", "scikit-learn", INSIDE)
    return np.loadtxt(path, delimiter=",", dtype=np.uint8)
