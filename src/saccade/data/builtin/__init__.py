"""Data sets that need no download. Each is one file of this folder, found by its name:

    DESCRIPTION            one line for people
    COLUMNS                what the values of a row are
    rows(split) -> rows    of "train", "valid" or "test", the same at every call
    image(name) -> image   where rows name images: the one of `builtin:NAME/123`, in RGB
    boxes(name) -> boxes   where it is known: the words of its caption that are objects, and where
                           these are, as (place of the word, (left, top, right, bottom))

Files whose name begins with _ are helpers of others.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from saccade.data.sources.archives import BUILTIN
from saccade.data.sources.columns import Asked, by_name, quoted
from saccade.data.sources.generated import Made
from saccade.data.sources.layout import SPLITS
from saccade.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image


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
    module = _module(name)
    advice = f"Its columns are {', '.join(map(quoted, module.COLUMNS))}."
    taken = by_name(module.COLUMNS, asked, f"builtin:{name}", advice)

    def read(split: str) -> Iterator[tuple[str, ...]]:
        for values in module.rows(split):
            yield tuple([values[place] for place in taken.places])

    return {split: Made(f"builtin:{name}", taken, partial(read, split)) for split in SPLITS}


def image(name: str) -> "Image":
    """The image that a row calls by a name such as `builtin:digits/123`, in RGB."""
    of = name.removeprefix(BUILTIN).partition("/")[0]
    draw: Callable[[str], Image] | None = getattr(_module(of), "image", None)
    if draw is None:
        raise DataError(f"builtin:{of} has no images, so there is no {name}")
    return draw(name)


def boxes(name: str) -> list[tuple[int, tuple[int, int, int, int]]]:
    """Where the objects are that a caption names; none of an image whose objects are not known."""
    of = name.removeprefix(BUILTIN).partition("/")[0]
    if not name.startswith(BUILTIN) or of not in names():
        return []
    known = getattr(_module(of), "boxes", None)
    return [] if known is None else list(known(name))


def image_name(of: str, number: int) -> str:
    """What rows of the set `of` call its image of this number."""
    return f"builtin:{of}/{number}"


def image_number(name: str, of: str, count: int) -> int:
    """The number in the name of an image of the set `of`, which has `count` of them."""
    found = re.fullmatch(rf"builtin:{of}/(0|[1-9][0-9]{{0,8}})", name)
    if found is None or int(found[1]) >= count:
        raise DataError(
            f"there is no image {name!r}; those of builtin:{of} are {image_name(of, 0)} to "
            f"{image_name(of, count - 1)}"
        )
    return int(found[1])


def _module(name: str) -> Builtin:
    if name not in names():
        raise DataError(f"there is no builtin:{name}; there are {', '.join(names())}")
    return cast(Builtin, importlib.import_module(f"{__name__}.{name}"))
