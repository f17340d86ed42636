"""The package `ctranslate2`, which is an extra."""

from importlib import import_module, metadata, util
from typing import Any

from saccade.errors import InteropError


def installed() -> bool:
    """Whether the package is there; it is not loaded."""
    return util.find_spec("ctranslate2") is not None


def version() -> str:
    """Of the package."""
    return metadata.version("ctranslate2")


def package(part: str = "") -> Any:
    """The package, or a module of it."""
    try:
        return import_module(f"ctranslate2{part}")
    except ImportError as error:
        raise InteropError(
            f'CTranslate2 cannot be loaded ({error}): pip install "saccade[fast]"'
        ) from None
