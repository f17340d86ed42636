"""Families of Hugging Face models: one file per `model_type`.

A file holds one subclass of `Family`. Nothing else lists it: `families` imports all files here.
"""

from functools import cache
from importlib import import_module
from inspect import isclass
from pkgutil import iter_modules

from saccade.interop.huggingface.family import Family


@cache
def families() -> dict[str, type[Family]]:
    """Return all families by `model_type`."""
    kinds = [_family_in(module.name) for module in iter_modules(__path__)]
    return {kind.model_type: kind for kind in kinds}


def _family_in(name: str) -> type[Family]:
    module = import_module(f"{__name__}.{name}")
    classes = [value for value in vars(module).values() if isclass(value)]
    [family] = [
        kind for kind in classes if issubclass(kind, Family) and kind.__module__ == module.__name__
    ]
    return family
