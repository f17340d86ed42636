"""Handwritten digits in 8×8 pixels, which come with scikit-learn.

They are the test part of "Optical Recognition of Handwritten Digits" (Alpaydin and Kaynak 1998,
UCI Machine Learning Repository, CC BY 4.0). Of the package only this file is read.
"""

import hashlib
import importlib.util
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from saccade.data.builtin import image_name, image_number
from saccade.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

DESCRIPTION = "handwritten digits in 8×8 pixels, scikit-learn's, 1 797 images"
COLUMNS = ("image", "label")
INSIDE = Path("datasets") / "data" / "digits.csv.gz"
SIDE = 8
DARKEST = 16


def rows(split: str) -> Iterator[tuple[str, ...]]:
    """About 75 in 100 to train on, 10 to validate with, 15 to test; in scikit-learn's order."""
    for number, values in enumerate(_digits()):
        *pixels, label = values.tolist()
        if _split_of(bytes(pixels)) == split:
            yield image_name("digits", number), str(label)


def image(name: str) -> "Image":
    """The digit of a name such as `builtin:digits/123`, light on dark."""
    from PIL import Image

    digits = _digits()
    pixels = digits[image_number(name, "digits", len(digits)), :-1].reshape(SIDE, SIDE)
    return Image.fromarray((pixels * 255.0 / DARKEST).round().astype(np.uint8)).convert("RGB")


def _split_of(pixels: bytes) -> str:
    """By a hash of the image, so the same one would never be in two splits."""
    digest = hashlib.sha256(b"builtin:digits " + pixels).digest()
    place = int.from_bytes(digest[:8], "big") % 100
    return "test" if place < 15 else "valid" if place < 25 else "train"


@lru_cache(maxsize=1)
def _digits() -> np.ndarray:
    """A row of 64 pixels from 0 to 16 and the label for each, found without the slow import."""
    package = importlib.util.find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise DataError(
            "builtin:digits reads the images that come with the package scikit-learn: "
            'pip install "saccade[demo]"'
        )
    path = Path(package.submodule_search_locations[0]) / INSIDE
    if not path.is_file():
        raise DataError(f"builtin:digits: this version of scikit-learn has no {path}")
    return np.loadtxt(path, delimiter=",", dtype=np.uint8)
