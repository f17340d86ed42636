"""Names that a package exports without importing the modules that define them.

A package whose `__init__` imports torch makes everything below it wait for torch. With

    if TYPE_CHECKING:
        from saccade.decoding.beam import beam_search

    __getattr__ = lazily(__name__, {"saccade.decoding.beam": ["beam_search"]})

`from saccade.decoding import beam_search` works as before, and imports `beam` only then.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazily(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package that imports names when they are first used.

    Args:
        package: The name of the package.
        names: The names by the modules that define them. A name must differ from those of the
            package's own modules, which are its attributes as soon as they are imported.
    """
    places = {name: module for module, exported in names.items() for name in exported}

    def find(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(places[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
