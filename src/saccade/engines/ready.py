"""Runs whose engine is ready answer without torch, which takes longer to import than to answer.

An engine is ready if its files are complete, were built from these weights, and passed their check.
`engine.json` beside them then holds a record of the task, so that neither the recipe is read nor a
model built. The task is loaded only for what the engine cannot do, such as attention.
"""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from saccade.cpu_threads import set_thread_count, thread_count
from saccade.engines.cache import EngineCache, Weights
from saccade.engines.choice import QUANTIZATIONS, Notify, is_usable, load
from saccade.engines.ctranslate2 import CTranslate2
from saccade.engines.record import devices
from saccade.errors import SaccadeError
from saccade.files import user_cache
from saccade.interop import ctranslate2
from saccade.tasks import LateTask, Predictor, ready_predictor, sides_of
from saccade.training.run_folder import RunFolder

if TYPE_CHECKING:
    from saccade.tasks import ReadyPredictor, Task

log = logging.getLogger(__name__)


def load_predictor(
    run: str | Path, *, device: str = "cpu", engine: str = "eager", notify: Notify | None = None
) -> Predictor:
    """Return the task of a run or, if its engine is ready, a predictor that needs no torch.

    Both give the same answers. The errors are those of `load`.

    Args:
        run: The run folder.
        device: See `load`.
        engine: See `load`.
        notify: See `load`.
    """
    ready = open_ready(run, device=device, engine=engine, notify=notify)
    return load(run, device=device, engine=engine, notify=notify) if ready is None else ready


def open_ready(
    run: str | Path, *, device: str = "cpu", engine: str = "eager", notify: Notify | None = None
) -> ReadyPredictor | None:
    """Return a predictor of a run that needs no torch; None if its engine is not ready.

    Args:
        run: The run folder.
        device: See `load`.
        engine: See `load`.
        notify: See `load`.
    """
    names = QUANTIZATIONS if engine == "auto" else (engine,)
    if engine not in ("auto", *QUANTIZATIONS) or device not in ("cpu", "auto"):
        return None
    try:
        if not ctranslate2.installed():
            return None
        for name in names:
            predictor = _open(RunFolder(Path(run)), name, device, notify, required=engine != "auto")
            if predictor is None or isinstance(predictor, Predictor):
                return predictor
    except (SaccadeError, OSError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        log.debug("%s is loaded with torch: %s", run, error)  # and any error is raised then
    return None


def _open(
    run: RunFolder, name: str, device: str, notify: Notify | None, *, required: bool
) -> ReadyPredictor | bool | None:
    """Return the predictor; None if only the task can answer; False to try the next engine."""
    run.about()
    weights = Weights(run)
    numbers = QUANTIZATIONS[name]
    built = EngineCache(run, user_cache() / "engines").built(f"ctranslate2-{numbers}")
    if built is None or not built.record or (required and built.died):
        return None
    if not is_usable(built, numbers, required=required):
        return False
    record = built.record
    if device == "auto" and (record["auto"] != "cpu" or record["devices"] != devices()):
        return None
    table = record["predictor"]
    options = table["options"]
    if not required and options["sample"] and options["temperature"] > 0:
        return None
    reads, writes = sides_of(table, run.folder)
    sides = ctranslate2.Sides(reads=reads, writes=writes)
    program = ctranslate2.open_folder(sides, built.folder, numbers)
    weights.require_same()
    late = LateTask(partial(_load_task, weights))
    notify = notify or (log.warning if required else log.info)
    engine = CTranslate2(program, late.eager, notify)
    return ready_predictor(table, reads, writes, engine, late)


def _load_task(weights: Weights) -> Task:
    """Return the task with the weights that the engine was built from."""
    threads = thread_count()
    from saccade.training import session

    weights.require_same()
    task = session.load(weights.run.folder, device="cpu")
    weights.require_same()
    set_thread_count(threads)  # CTranslate2 may have set torch's to one
    return task
