"""The package `ctranslate2`, which is an extra and is imported only when it is needed."""

from importlib import import_module, metadata, util
from typing import Any

from saccade.errors import InteropError


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
