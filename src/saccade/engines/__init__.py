"""Engines: the programs that generate the answers of a trained run.

    eager                 the task's own model, step by step; every task has it
    ctranslate2           CTranslate2 with matrices of 8-bit integers, for Transformers
    ctranslate2-float32   CTranslate2 with the numbers of training
    auto                  the fastest of them that is installed and passed its check

`choice` gives a run its engine, `cache` keeps the files of an engine beside the run, `ctranslate2`
is the engine, which leaves to the task's own model what it cannot do, and `ready` answers without
torch where an engine is ready.
"""

from saccade.engines.choice import NAMES, installed, load
from saccade.engines.ready import open_ready

__all__ = ["NAMES", "installed", "load", "open_ready"]
