"""Runs whose engine is ready answer without torch, which takes longer to import than to answer.

An engine is ready if its files are complete, were built from these weights, and passed their check.
`engine.json` beside them then holds a record of the task, so that neither the recipe is read nor a
model built. The task is loaded only for what the engine cannot do, such as attention.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.cpu_threads import set_thread_count, thread_count
from saccade.engines.cache import BuiltEngine, EngineCache, RunWeights
from saccade.engines.choice import QUANTIZATIONS, Notify, is_usable
from saccade.engines.ctranslate2 import CTranslate2
from saccade.engines.record import devices
from saccade.files import user_cache
from saccade.interop import ctranslate2
from saccade.tasks import LateTask, ready_predictor, sides_of
from saccade.training.run_folder import RunFolder

if TYPE_CHECKING:
    from saccade.tasks import ReadyPredictor, Task

log = logging.getLogger(__name__)


def open_ready(
    run: str | Path, *, device: str = "cpu", engine: str = "eager", notify: Notify | None = None
) -> ReadyPredictor | None:
    """Return a predictor of a run that needs no torch; None if its engine is not ready.

    It answers as the task that `engines.load` returns.

    Args:
        run: The run folder.
        device: See `engines.load`.
        engine: See `engines.load`.
        notify: See `engines.load`.
    """
    if engine not in ("auto", *QUANTIZATIONS) or device not in ("cpu", "auto"):
        return None
    notify = notify or (log.info if engine == "auto" else log.warning)
    try:
        return _open(RunFolder(Path(run)), device, engine, notify)
    except Exception as error:  # whatever it is, the task raises it too, or can answer
        log.debug("%s is loaded with torch: %s", run, error)
        return None


def _open(run: RunFolder, device: str, engine: str, notify: Notify) -> ReadyPredictor | None:
    run.about()  # raises if this is not a run that can be read
    weights = RunWeights(run)
    ready = _usable(run, engine) if ctranslate2.installed() else None
    if ready is None or (device == "auto" and not _on_cpu(ready[1].record)):
        return None
    numbers, built = ready
    table = built.record["predictor"]
    reads, writes = sides_of(table, run.folder)
    if engine == "auto" and writes.options.sample and writes.options.temperature > 0:
        return None
    sides = ctranslate2.Sides(reads=reads, writes=writes)
    program = ctranslate2.open_folder(sides, built.folder, numbers)
    weights.require_same()
    late = LateTask(partial(_load_task, weights))
    return ready_predictor(table, reads, writes, CTranslate2(program, late.eager, notify), late)


def _usable(run: RunFolder, engine: str) -> tuple[str, BuiltEngine] | None:
    """Return the numbers and the files of the engine that `load` would use, if they are ready."""
    required = engine != "auto"
    for name in (engine,) if required else QUANTIZATIONS:
        numbers = QUANTIZATIONS[name]
        built = EngineCache(run, user_cache() / "engines").built(f"ctranslate2-{numbers}")
        if built is None:
            return None
        if is_usable(built, numbers, required=required):
            return (numbers, built) if built.record else None
    return None


def _on_cpu(record: Mapping[str, Any]) -> bool:
    """Return whether torch chooses the CPU if no device is named."""
    return record["auto"] == "cpu" and record["devices"] == devices()


def _load_task(weights: RunWeights) -> Task:
    """Return the task with the weights that the engine was built from."""
    threads = thread_count()
    from saccade.training import session

    weights.require_same()
    task = session.load(weights.run.folder, device="cpu")
    weights.require_same()
    set_thread_count(threads)  # CTranslate2 may have set torch's to one
    return task
