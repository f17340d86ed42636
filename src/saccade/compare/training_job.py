"""One training run of a comparison and its measurements; completed work is not repeated."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import TypeAdapter

from saccade.allocator import peak_memory
from saccade.compare.measurements import Measurements, measure
from saccade.data.validation_split import STRATIFIED
from saccade.errors import RunError, brief
from saccade.files import write_file
from saccade.lens.formatting import readable_json
from saccade.training import recipe as recipes
from saccade.training import session
from saccade.training.console import Console

TRAINED, MEASURED = "trained.json", "measured.json"
Limit = int | float | None


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """A training run: an entrant's recipe and a seed, with everything that training takes.

    `recipe` is a file of the comparison's folder, in which every key is written out; the keys and
    tables in `by_hand` do not adapt to the data. `run` and `measured` are folders. `successor` is a
    file that appears if another process takes the training over.
    """

    name: str
    seed: int
    recipe: str
    run: str
    measured: str
    data: str
    pair: str | None = None
    columns: dict[str, str] | None = None
    valid_fraction: float | None = None
    split_rule: str = STRATIFIED
    skip_broken: bool = False
    device: str = "auto"
    precision: str = "auto"
    samples: bool = True
    cache: str | None = None
    threads: int | None = None
    by_hand: list[str] | None = None
    successor: str | None = None

    @property
    def budget(self) -> list[Limit]:
        """Limits of the recipe: steps and minutes."""
        training = recipes.load(self.recipe).training
        return [training.max_steps, training.minutes]

    @property
    def progress(self) -> BudgetUsed:
        """The content of trained.json."""
        path = Path(self.measured) / TRAINED
        content = json.loads(path.read_bytes()) if path.exists() else {}
        return TypeAdapter(BudgetUsed).validate_python(content)


@dataclass(frozen=True, kw_only=True)
class BudgetUsed:
    """The budget that a training run has used up, if any, and its peak memory in bytes so far."""

    budget: list[Limit] | None = None
    peak_memory: int | None = None


def completed(job: TrainingJob) -> Measurements | None:
    """Return the measurements of a training that has used up its budget, else None."""
    path = Path(job.measured) / MEASURED
    if not path.exists() or job.progress.budget != job.budget:
        return None
    try:
        return TypeAdapter(Measurements).validate_python(json.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        reason = brief(error).splitlines()[0]
        raise RunError(f"{path} is damaged ({reason}); remove it to measure again") from None


def perform(job: TrainingJob, console: Console | None = None) -> None:
    """Train, resuming from the newest checkpoint, and measure."""
    console = console or Console()
    if job.threads is not None:
        torch.set_num_threads(job.threads)
    budget, folder = job.budget, Path(job.measured)
    folder.mkdir(parents=True, exist_ok=True)
    if job.progress.budget != budget:
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
                by_hand=job.by_hand,
                valid_fraction=job.valid_fraction,
                split_rule=job.split_rule,
                skip_broken=job.skip_broken,
                samples=job.samples,
                cache=job.cache,
                elapsed=None,
                console=console,
            )
        except BaseException:
            _record_progress(job, None)
            raise
        _record_progress(job, budget)
    if not (folder / MEASURED).exists():
        console.notify("measuring quality, speed and attention")
        measurements = measure(
            job.run,
            folder,
            data=job.data,
            pair=job.pair,
            columns=job.columns,
            skip_broken=job.skip_broken,
            device=job.device,
            samples=job.samples,
            peak_memory=job.progress.peak_memory,
        )
        _write_json(folder / MEASURED, measurements.as_json())


def _record_progress(job: TrainingJob, budget: list[Limit] | None) -> None:
    """Write the budget that is used up, and the peak memory over all parts of the training."""
    before, now = job.progress.peak_memory, peak_memory()
    most = now if before is None or now is None else max(before, now)
    _write_json(Path(job.measured) / TRAINED, {"budget": budget, "peak_memory": most})


def _write_json(path: Path, table: object) -> None:
    write_file(path, readable_json(table).encode(), "the run itself is kept")
