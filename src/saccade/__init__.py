"""Saccade: train, compare, serve and look into attention models.

    run = saccade.load("runs/en-de")
    answers = run.predict(["Two men are talking."], beam=5, attention=True)

`train`, `load`, `evaluate`, `look`, `measure` and `watch` are imported lazily: `import saccade`
alone does not load torch.
"""

import os
from typing import TYPE_CHECKING

from saccade._version import __version__
from saccade.errors import SaccadeError

if TYPE_CHECKING:
    from saccade.attention.watch import watch
    from saccade.engines import load
    from saccade.interop.look import look
    from saccade.tasks.measures.any_model import measure
    from saccade.training.session import evaluate, train

# Put large tensors in huge pages: saves up to 10 % of the time of small models on Linux. torch
# reads the variable once, on import, so this has no effect if torch was imported first.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

__all__ = ["SaccadeError", "__version__", "evaluate", "load", "look", "measure", "train", "watch"]

_LAZY = {
    "evaluate": "saccade.training.session",
    "load": "saccade.engines",
    "look": "saccade.interop.look",
    "measure": "saccade.tasks.measures.any_model",
    "train": "saccade.training.session",
    "watch": "saccade.attention.watch",
}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'saccade' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
