"""One training of a comparison and its measurements; what is done already is not done again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from saccade.compare.measure import Measured, measure
from saccade.compare.memory import peak_memory
from saccade.errors import RunError
from saccade.files import disk_errors, write_file
from saccade.lens.formatting import readable_json
from saccade.training import recipe as recipes
from saccade.training import session
from saccade.training.console import Console

TRAINED, MEASURED = "trained.json", "measured.json"
Spent = list[int | float | None]
"""Steps and minutes at most."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training: an entrant's recipe and a seed, with all that training takes.

    recipe, run and measured are a file and two folders of the comparison.
    """

    name: str
    seed: int
    recipe: str
    run: str
    measured: str
    data: str
    pair: str | None = None
    columns: dict[str, str] | None = None
    device: str = "auto"
    precision: str = "auto"
    cache: str | None = None
    threads: int | None = None

    @property
    def budget(self) -> Spent:
        """What the training may use up, as its recipe has it."""
        training = recipes.load(self.recipe).training
        return [training.max_steps, training.minutes]


def found(job: Job) -> Measured | None:
    """What was measured of a training that has used up its budget."""
    path = Path(job.measured) / MEASURED
    if not path.exists() or _noted(job).get("budget") != job.budget:
        return None
    try:
        return Measured.from_json(json.loads(path.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} is damaged ({error}); remove it to have it made anew") from None


def perform(job: Job, console: Console | None = None) -> None:
    """Train, going on where it stopped, and measure."""
    if job.threads is not None:
        torch.set_num_threads(job.threads)
    budget, folder = job.budget, Path(job.measured)
    folder.mkdir(parents=True, exist_ok=True)
    if _noted(job).get("budget") != budget:
        (folder / MEASURED).unlink(missing_ok=True)
        try:
            session.train(
                job.recipe,
                data=job.data,
                out=job.run,
                seed=job.seed,
                resume=True,
                device=job.device,
                precision=job.precision,
                pair=job.pair,
                columns=job.columns,
                cache=job.cache,
                console=console,
            )
        except BaseException:
            _note(job, None)
            raise
        _note(job, budget)
    if not (folder / MEASURED).exists():
        peak = _noted(job)["peak_memory"]
        told = measure(job.run, folder, job.data, job.pair, job.columns, job.device, peak)
        _write(folder / MEASURED, told.as_json())


def _noted(job: Job) -> dict[str, Any]:
    path = Path(job.measured) / TRAINED
    return dict(json.loads(path.read_bytes())) if path.exists() else {}


def _note(job: Job, budget: Spent | None) -> None:
    """Note the budget that is used up, and the most memory that any part of the training had."""
    before, now = _noted(job).get("peak_memory"), peak_memory()
    most = now if before is None or now is None else max(before, now)
    _write(Path(job.measured) / TRAINED, {"budget": budget, "peak_memory": most})


def _write(path: Path, table: object) -> None:
    with disk_errors(path, "the run itself is kept"):
        write_file(path, readable_json(table).encode())
