"""Data sets that need no download. Each is one module of this package, found by its name:

    DESCRIPTION            one line for people
    COLUMNS                the names of a row's values
    rows(split) -> rows    the rows of "train", "valid" or "test", the same at every call
    image(name) -> image   for rows that name images: the RGB image called `builtin:NAME/123`
    vectors(name) -> array for rows that name vectors: the array (steps, width) of
                           `builtin:NAME/123`
    boxes(name) -> boxes   where known: the objects that a caption mentions, each as
                           (index of its word, (left, top, right, bottom))

Modules whose names begin with _ are shared helpers. Nothing here imports another part of `data`.
"""

import hashlib
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from saccade.data.builtin._shared import PREFIX
from saccade.errors import DataError
from saccade.files import fingerprint

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image

__all__ = [
    "PREFIX",
    "Builtin",
    "boxes",
    "code_digest",
    "descriptions",
    "image",
    "load",
    "names",
    "vectors",
]


@runtime_checkable
class Builtin(Protocol):
    """The names that every module of a data set defines."""

    DESCRIPTION: str
    COLUMNS: tuple[str, ...]
    rows: Callable[[str], Iterator[tuple[str, ...]]]


def names() -> list[str]:
    """Return the names of all built-in data sets, sorted."""
    modules = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name for name in modules if not name.startswith("_"))


def descriptions() -> dict[str, str]:
    """Return one line about each built-in data set, by name."""
    return {name: load(name).DESCRIPTION for name in names()}


def load(name: str) -> Builtin:
    """Return the module of a built-in data set.

    Raises:
        DataError: The data set does not exist.
    """
    if name not in names():
        raise DataError(
            f"{PREFIX}{name} does not exist; the built-in data sets are {', '.join(names())}"
        )
    return cast(Builtin, importlib.import_module(f"{__name__}.{name}"))


def image(name: str) -> "Image":
    """Return the RGB image that rows call by a name such as `builtin:digits/123`."""
    dataset = _dataset_of(name)
    draw: Callable[[str], Image] | None = getattr(load(dataset), "image", None)
    if draw is None:
        raise DataError(
            f"{name} does not exist: {PREFIX}{dataset} has no images; "
            "use builtin:digits, builtin:shapes or builtin:red_circle"
        )
    return draw(name)


def vectors(name: str) -> "np.ndarray":
    """Return the vectors (steps, width) that rows call by a name such as `builtin:tones/123`."""
    dataset = _dataset_of(name)
    generate: Callable[[str], np.ndarray] | None = getattr(load(dataset), "vectors", None)
    if generate is None:
        raise DataError(
            f"{name} does not exist: {PREFIX}{dataset} has no vectors; use builtin:tones"
        )
    return generate(name)


def boxes(name: str) -> list[tuple[int, tuple[int, int, int, int]]]:
    """Return the boxes of the objects in a caption, or nothing where they are not known.

    Args:
        name: An image by the name its row gives it; images that are not built in have no boxes.

    Returns:
        Per object the index of its word in the caption, and (left, top, right, bottom) in pixels.
    """
    dataset = _dataset_of(name)
    if not name.startswith(PREFIX) or dataset not in names():
        return []
    known = getattr(load(dataset), "boxes", None)
    return [] if known is None else list(known(name))


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Return the SHA-256 of the code that generates files, by which caches of them are keyed."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256("".join(fingerprint(path).sha256 for path in files).encode()).hexdigest()


def _dataset_of(name: str) -> str:
    return name.removeprefix(PREFIX).partition("/")[0]
