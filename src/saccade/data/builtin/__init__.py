"""Data sets that need no download. Each is one file of this folder, found by its name:

    DESCRIPTION            one line for people
    COLUMNS                what the values of a row are
    rows(split) -> rows    of "train", "valid" or "test", the same at every call

Files whose name begins with _ are helpers of others.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol, cast, runtime_checkable

from saccade.data.columns import Asked, by_name, quoted
from saccade.data.layout import SPLITS
from saccade.data.made import Made
from saccade.errors import DataError


@runtime_checkable
class Builtin(Protocol):
    """What a file of this folder defines."""

    DESCRIPTION: str
    COLUMNS: tuple[str, ...]
    rows: Callable[[str], Iterator[tuple[str, ...]]]


def names() -> list[str]:
    """Every built-in data set."""
    found = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name for name in found if not name.startswith("_"))


def descriptions() -> dict[str, str]:
    """One line on each built-in data set, by its name."""
    return {name: _module(name).DESCRIPTION for name in names()}


def tables(name: str, asked: Asked) -> dict[str, Made]:
    """The three splits of a built-in data set, with the wanted columns."""
    if name not in names():
        raise DataError(f"there is no builtin:{name}; there are {', '.join(names())}")
    module = _module(name)
    advice = f"Its columns are {', '.join(map(quoted, module.COLUMNS))}."
    taken = by_name(module.COLUMNS, asked, f"builtin:{name}", advice)

    def read(split: str) -> Iterator[tuple[str, ...]]:
        for values in module.rows(split):
            yield tuple([values[place] for place in taken.places])

    return {split: Made(f"builtin:{name}", taken, partial(read, split)) for split in SPLITS}


def _module(name: str) -> Builtin:
    return cast(Builtin, importlib.import_module(f"{__name__}.{name}"))
