"""The package `ctranslate2`, which is an extra and is imported only when it is needed."""

import sys
from importlib import import_module, metadata, util
from importlib.machinery import PathFinder
from typing import Any

from saccade.errors import InteropError

COMPILED = "ctranslate2._ext"
"""The name of the compiled module of the package."""


def installed() -> bool:
    """Return whether the package is installed; it is not imported."""
    return util.find_spec("ctranslate2") is not None


def version() -> str:
    """Return the version of the package."""
    return metadata.version("ctranslate2")


def package(part: str = "") -> Any:
    """Return the package, or the module `part` of it, such as ".specs".

    Raises:
        InteropError: It cannot be imported.
    """
    try:
        return import_module(f"ctranslate2{part}")
    except ImportError as error:
        raise InteropError(
            f"CTranslate2 cannot be imported ({error}). Install it: pip install "
            '"saccade-attention[fast]"'
        ) from None


def compiled() -> Any:
    """Return the compiled module of the package, which has Translator and Generator.

    The package itself also imports converters and asyncio, which takes longer than loading a small
    model, and in some versions torch. So the compiled module is imported alone, where it can be.

    Raises:
        InteropError: It cannot be imported.
    """
    if COMPILED in sys.modules:
        return sys.modules[COMPILED]
    place = None if "ctranslate2" in sys.modules else util.find_spec("ctranslate2")
    if place is None or sys.platform == "win32":  # where the package first finds its libraries
        return package()
    own = PathFinder.find_spec(COMPILED, place.submodule_search_locations)
    if own is None or own.loader is None:
        return package()
    try:
        module = sys.modules[COMPILED] = util.module_from_spec(own)
        own.loader.exec_module(module)
    except ImportError:
        sys.modules.pop(COMPILED, None)
        return package()
    return module
