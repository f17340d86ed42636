"""The choice of the engine that a run answers with."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from saccade.engines.cache import BuiltEngine, EngineCache, RunWeights
from saccade.engines.ctranslate2 import CTranslate2
from saccade.engines.record import record_of
from saccade.errors import EngineError, InteropError
from saccade.files import user_cache
from saccade.interop import ctranslate2
from saccade.interop.ctranslate2 import Check
from saccade.training.run_folder import RunFolder

if TYPE_CHECKING:
    from saccade.interop.ctranslate2 import Runnable
    from saccade.tasks import Task

log = logging.getLogger(__name__)

QUANTIZATIONS = {"ctranslate2": "int8", "ctranslate2-float32": "float32"}
"""The engines other than eager and the numbers they compute with, the fastest first."""
NAMES = ("auto", "eager", *QUANTIZATIONS)
AGREEING = 0.9
"""The fraction of tokens that must stay the same with 8-bit integers for "auto" to use them."""

Notify = Callable[[str], None]


def load(
    run: str | Path, *, device: str = "cpu", engine: str = "eager", notify: Notify | None = None
) -> Task:
    """Return the trained task of a run folder, ready to answer.

    Args:
        run: The run folder.
        device: "cpu", "cuda", "mps" or "auto".
        engine: One of `NAMES`.
        notify: Called with one line per decision: the engine that is built, why "auto" falls back
            to eager, and what the engine leaves to eager; a log if it is left out.

    Raises:
        EngineError: There is no such engine, or it cannot run this model here.
        RunError: The folder is not a run, or is damaged.

    Example:
        >>> task = load("runs/en-de", engine="auto")  # doctest: +SKIP
        >>> task.predict(["Two men are talking."])[0].text  # doctest: +SKIP
        'Zwei Männer unterhalten sich.'
    """
    if engine not in NAMES:
        raise EngineError(f"{engine!r} is not a valid engine; use one of: {', '.join(NAMES)}")
    from saccade.training import session

    weights = RunWeights(RunFolder(Path(run)))
    task = session.load(run, device=device)
    if engine == "auto":
        _use_fastest(task, weights, notify or log.info)
    elif engine != "eager":
        _use(engine, _require_runnable(task), weights, notify or log.warning, required=True)
    return task


def installed() -> list[str]:
    """Return the engines of this machine, with their versions, for people."""
    return ["eager", *([f"ctranslate2 {ctranslate2.version()}"] if ctranslate2.installed() else [])]


def _use_fastest(task: Task, weights: RunWeights, notify: Notify) -> None:
    """Use the first engine that can run the task and agrees with it, or else eager."""
    reasons = []
    try:
        runnable = _require_runnable(task)
        options = runnable.writes.options
        if options.sample and options.temperature > 0:
            raise EngineError("answers are sampled, and CTranslate2 has no seed for each input")
        for name in QUANTIZATIONS:
            try:
                _use(name, runnable, weights, notify, required=False)
                return
            except (EngineError, InteropError) as error:  # the next one may work
                reasons.append(str(error))
    except Exception as error:  # whatever it is, eager can answer
        reasons.append(str(error))
    notify(f"answering with the engine eager: {'; '.join(reasons)}")


def _require_runnable(task: Task) -> Runnable:
    """Return the task as CTranslate2 runs it, if it is installed and can."""
    if not ctranslate2.installed():
        raise EngineError('CTranslate2 is not installed: pip install "saccade-attention[fast]"')
    if task.device.type != "cpu":
        raise EngineError("CTranslate2 runs on the CPU only; use --device cpu with it")
    try:
        return ctranslate2.require_runnable(task)
    except InteropError as error:
        raise EngineError(str(error)) from None


def _use(
    name: str, runnable: Runnable, weights: RunWeights, notify: Notify, *, required: bool
) -> None:
    """Give the task this engine; in float32 only if all answers agree.

    An engine that is `required` by name is used in int8 however few answers agree, and is tried
    again if it crashed before.
    """
    from saccade.training.run import Run

    task, run, numbers = runnable.task, Run(weights.run.folder), QUANTIZATIONS[name]
    full_name = f"ctranslate2-{numbers}"

    def build(folder: Path) -> Check:
        notify(f"building {full_name} for {run.folder}, once")
        ctranslate2.write_folder(task, folder, numbers)
        ctranslate2.require_survival(task, folder, numbers)
        engine = ctranslate2.open_engine(task, folder, numbers)
        comparison = ctranslate2.check(task, engine, run.samples())
        notify(f"{full_name}: {comparison}")
        weights.require_same()
        return comparison

    cache = EngineCache(run, user_cache() / "engines")
    built = cache.get(full_name, build, retry=required, record=lambda: record_of(task))
    if built.died:
        raise EngineError(built.died)
    weights.require_same()
    if not is_usable(built, numbers, required=required):
        raise EngineError(f"{full_name} does not answer as the model itself: {built.check}")
    program, eager = ctranslate2.open_engine(task, built.folder, numbers), runnable.engine
    runnable.host.engine = CTranslate2(program, lambda: eager, notify)


def is_usable(built: BuiltEngine, numbers: str, *, required: bool) -> bool:
    """Return whether an engine answers as the model itself.

    Args:
        built: The files of the engine and their check.
        numbers: The numbers it computes with.
        required: Whether it was requested by name; then it is used in int8 however few agree.
    """
    if built.died:
        return False
    if numbers == "float32":
        return built.check.exact
    return required or built.check.tokens >= AGREEING
