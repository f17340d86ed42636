"""Saccade: train, compare, run and look into the whole line of attention models.

This is the front door. Nothing heavy is imported until it is used.
"""

import os
from typing import TYPE_CHECKING

from saccade._version import __version__
from saccade.errors import SaccadeError

if TYPE_CHECKING:
    from saccade.attention.watch import watch
    from saccade.engines import load
    from saccade.training.session import evaluate, train

# Large blocks in large pages: up to a tenth of the time of small models on Linux. torch looks at it
# once, when it is loaded, so this has no effect on a program that loads torch first.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

__all__ = ["SaccadeError", "__version__", "evaluate", "load", "train", "watch"]

_DOORS = {
    "evaluate": "saccade.training.session",
    "load": "saccade.engines",
    "train": "saccade.training.session",
    "watch": "saccade.attention.watch",
}


def __getattr__(name: str) -> object:
    if name in _DOORS:
        from importlib import import_module

        return getattr(import_module(_DOORS[name]), name)
    raise AttributeError(f"module 'saccade' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
