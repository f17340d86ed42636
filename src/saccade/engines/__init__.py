"""Engines: what writes the answers of a trained run.

    eager                 the task's own model, step by step: what every task has
    ctranslate2           CTranslate2 with matrices of 8-bit integers, for Transformers that write
    ctranslate2-float32   the same with the numbers of training
    auto                  the fastest of them that is installed and passed its check

`choice` gives a run its engine, `cache` keeps what was made for it beside the run, `ctranslate2` is
the engine, which leaves to the task's own model what it cannot do.
"""

from saccade.engines.choice import NAMES, installed, load

__all__ = ["NAMES", "installed", "load"]
