"""Which engine a run answers by."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from saccade.engines.cache import EngineCache
from saccade.engines.ctranslate2 import CTranslate2
from saccade.errors import EngineError, InteropError
from saccade.interop import ctranslate2
from saccade.interop.ctranslate2 import Check
from saccade.tasks import Task
from saccade.tasks.language_modeling import LanguageModeling
from saccade.tasks.text_to_text import TextToText
from saccade.training import session
from saccade.training.run import Run

log = logging.getLogger(__name__)

QUANTIZATIONS = {"ctranslate2": "int8", "ctranslate2-float32": "float32"}
"""The engines besides eager and the numbers they compute with, the fastest first."""
NAMES = ("auto", "eager", *QUANTIZATIONS)
AGREEING = 0.9
"""The share of tokens that 8-bit integers must leave as they are for "auto" to take them."""

Notify = Callable[[str], None]


def load(
    run: str | Path, *, device: str = "cpu", engine: str = "eager", notify: Notify | None = None
) -> Task:
    """The trained task of a run folder, ready to answer by this engine; see `NAMES`.

    `say` is told what was made for it, why "auto" stays with eager, and what the engine leaves to
    eager; without it, a log is.
    """
    if engine not in NAMES:
        raise EngineError(f"there is no engine {engine!r}; there are: {', '.join(NAMES)}")
    folder = _Weights(Run(Path(run)))
    task = session.load(run, device=device)
    if engine == "auto":
        _take_fastest(task, folder, notify or log.info)
    elif engine != "eager":
        _take(engine, _able(task), folder, notify or log.warning, asked=True)
    return task


class _Weights:
    """The weights of a run, which a training may replace at any time: seen before they are read."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._seen = self._look()

    def require_same(self) -> None:
        """Refuse an engine that may be of other weights than those that were read."""
        if self._look() != self._seen:
            raise EngineError(f"the weights of {self.run.folder} changed meanwhile; ask again")

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = self.run.weights.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size


def installed() -> list[str]:
    """The engines of this machine, with their versions, for people."""
    there = [f"ctranslate2 {ctranslate2.version()}"] if ctranslate2.installed() else []
    return ["eager", *there]


def _take_fastest(task: Task, weights: _Weights, notify: Notify) -> None:
    """The first that can and agrees; whatever goes wrong, eager is left."""
    reasons = []
    try:
        able = _able(task)
        drawn = able.config.generation
        if drawn.sample and drawn.temperature > 0:
            raise EngineError("its answers are drawn, and CTranslate2 has no seed for each input")
        for name in QUANTIZATIONS:
            try:
                _take(name, able, weights, notify, asked=False)
                return
            except (EngineError, InteropError) as error:  # the next may do
                reasons.append(str(error))
    except Exception as error:  # of whatever kind: eager can answer
        reasons.append(str(error))
    notify(f"answering by the engine eager: {'; '.join(reasons)}")


def _able(task: Task) -> TextToText | LanguageModeling:
    """The task, if CTranslate2 is here and can run it."""
    if not ctranslate2.installed():
        raise EngineError('CTranslate2 is not installed: pip install "saccade[fast]"')
    if next(task.parameters()).device.type != "cpu":
        raise EngineError("CTranslate2 is run on the CPU only; take --device cpu for it")
    try:
        return ctranslate2.require_writable(task)
    except InteropError as error:
        raise EngineError(str(error)) from None


def _take(
    name: str,
    task: TextToText | LanguageModeling,
    weights: _Weights,
    notify: Notify,
    *,
    asked: bool,
) -> None:
    """Give the task this engine, in float32 if all answers agree.

    Who `asked` for it by name gets int8 however few agree, and what died before is tried again.
    """
    numbers, eager, run = QUANTIZATIONS[name], task.engine, weights.run
    whole_name = f"ctranslate2-{numbers}"

    def make(folder: Path) -> Check:
        notify(f"making {whole_name} of {run.folder}, once")
        ctranslate2.write_folder(task, folder, numbers)
        ctranslate2.require_survival(task, folder, numbers)
        found = ctranslate2.check(task, ctranslate2.opened(task, folder, numbers), run.samples())
        notify(f"{whole_name}: {found}")
        weights.require_same()
        return found

    kept = EngineCache(run, session.default_cache() / "engines").get(whole_name, make, again=asked)
    if kept.died:
        raise EngineError(kept.died)
    weights.require_same()
    enough = kept.check.exact if numbers == "float32" else asked or kept.check.tokens >= AGREEING
    if not enough:
        raise EngineError(f"{whole_name} does not answer as the model itself: {kept.check}")
    task.engine = CTranslate2(ctranslate2.opened(task, kept.folder, numbers), eager, notify)
