"""Parts that several built-in data sets use."""

import hashlib
import importlib.util
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from saccade.errors import DataError

PREFIX = "builtin:"
Choice = TypeVar("Choice")


class Sampler:
    """Seeded random choices, which use `random()` alone: Python keeps its results unchanged."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed).random

    def one_of(self, choices: Sequence[Choice]) -> Choice:
        """Return one of the choices, each with the same probability."""
        return choices[int(self.random() * len(choices))]

    def between(self, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`, both included."""
        return low + int(self.random() * (high - low + 1))

    def happens(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random() < probability


def split_slice(sizes: Mapping[str, int], split: str) -> slice:
    """Return the place of a split where the splits follow each other in the order of `sizes`."""
    before = list(sizes)[: list(sizes).index(split)]
    start = sum(sizes[name] for name in before)
    return slice(start, start + sizes[split])


def split_by_hash(key: bytes, *, test: int, valid: int, total: int = 100) -> str:
    """Return the split of a row by a hash of its key: `test` and `valid` rows of every `total`."""
    place = int.from_bytes(hashlib.sha256(key).digest()[:8], "big") % total
    return "test" if place < test else "valid" if place < test + valid else "train"


def image_name(dataset: str, number: int) -> str:
    """Return the name by which rows of a data set call one of its images or arrays."""
    return f"{PREFIX}{dataset}/{number}"


def image_number(name: str, dataset: str, count: int, noun: str = "image") -> int:
    """Return the number in the name of one of `count` images, or other nouns, of a data set."""
    match = re.fullmatch(rf"{PREFIX}{dataset}/(0|[1-9][0-9]{{0,8}})", name)
    if match is None or int(match[1]) >= count:
        raise DataError(
            f"the {noun} {name!r} does not exist; those of {PREFIX}{dataset} are "
            f"{image_name(dataset, 0)} to {image_name(dataset, count - 1)}"
        )
    return int(match[1])


def package_file(dataset: str, module: str, package: str, file: Path) -> Path:
    """Return a data file of an installed package without importing the package.

    Args:
        dataset: The built-in data set that reads the file, for error messages.
        module: The name by which the package is imported.
        package: The name by which it is installed.
        file: The path inside the package.
    """
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise DataError(
            f"{PREFIX}{dataset} reads a file of the package {package}, which is not installed: "
            'pip install "saccade-attention[demo]"; '
            "or use another built-in data set (`saccade recipes` lists them)"
        )
    path = Path(spec.submodule_search_locations[0]) / file
    if not path.is_file():
        raise DataError(
            f"{PREFIX}{dataset}: this version of {package} has no {path}; install another version"
        )
    return path
