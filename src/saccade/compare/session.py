"""The whole job: from the names of recipes to a page that says which is better."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from saccade.compare.child import in_child
from saccade.compare.comparison import Comparison, Contender, Shown
from saccade.compare.folder import Folder
from saccade.compare.measure import Measured
from saccade.compare.page import pages
from saccade.compare.plan import NO_END, Budget, Entrant, entrants
from saccade.compare.work import Job, found
from saccade.data import sources
from saccade.errors import RecipeError, SaccadeError, StoppedError
from saccade.files import disk_errors, write_file
from saccade.lens.formatting import readable_json
from saccade.lens.record import AttentionRecord
from saccade.training.console import Console
from saccade.training.interruption import Interruption
from saccade.training.recipe import TrainingConfig

Perform = Callable[[Job, Callable[[str], None]], None]
"""Does a job and says lines of how it goes."""


def compare(
    recipes: Sequence[str],
    *,
    data: str | Path,
    out: str | Path,
    changes: Sequence[str] = (),
    max_steps: int | None = None,
    minutes: float | None = None,
    tokens: int | None = None,
    seeds: Sequence[int] = (0,),
    device: str = "auto",
    precision: str = "auto",
    pair: str | None = None,
    columns: Mapping[str, str] | None = None,
    cache: str | Path | None = None,
    threads: int | None = None,
    console: Console | None = None,
    perform: Perform = in_child,
) -> Comparison:
    """Train recipes on the same data with the same budget, and write down which is better.

    A recipe is "transformer-tiny", "mine.toml" or "name=either"; a change "key=value" is for all of
    them, "name:key=value" for one. Each is trained with each seed. The folder `out` gets a page and
    a JSON file; called again, it goes on where it stopped.
    """
    console = console or Console()
    budget = Budget(max_steps=max_steps, minutes=minutes, tokens=tokens)
    asked = entrants(recipes, changes, budget)
    _require_seeds(seeds)
    folder = Folder(Path(out))
    with Interruption(), folder.locked():
        wanted = asked[0].recipe.options.columns
        corpus = sources.open_corpus(data, wanted, pair=pair, columns=columns)
        console.notify(corpus.summary)
        folder.agree(asked, str(data), corpus, console.notify)
        jobs = [
            Job(
                name=each.name,
                seed=seed,
                recipe=str(folder.recipe(each.name)),
                run=str(folder.run(each.name, seed)),
                measured=str(folder.measured(each.name, seed)),
                data=str(data),
                pair=pair,
                columns=None if columns is None else dict(columns),
                device=device,
                precision=precision,
                cache=None if cache is None else str(cache),
                threads=threads,
            )
            for seed in seeds
            for each in asked
        ]
        failed = _perform_all(jobs, perform, console)
        comparison = Comparison(
            task=asked[0].recipe.task,
            data=str(data),
            budget=_budget(asked[0].recipe.training, tokens),
            seeds=tuple(seeds),
            entrants=[_contender(i, each, jobs, failed) for i, each in enumerate(asked)],
        )
        with disk_errors(folder.path, "all trainings are kept"):
            write_file(folder.json, readable_json(comparison.as_json()).encode())
            folder.keep(pages(comparison))
    return comparison


def _perform_all(jobs: Sequence[Job], perform: Perform, console: Console) -> dict[str, str]:
    """Do what is not done yet; why some failed, by their runs."""
    todo = [job for job in jobs if found(job) is None]
    if len(todo) < len(jobs):
        console.notify(f"{len(jobs) - len(todo)} of {len(jobs)} trainings are done already")
    failed: dict[str, str] = {}
    began = time.monotonic()
    for number, job in enumerate(todo, 1):
        title = f"{job.name}, seed {job.seed}"
        console.notify(f"training {number} of {len(todo)}: {title}")
        try:
            perform(job, lambda line: console.notify(f"  {line}"))
        except StoppedError:
            raise
        except SaccadeError as error:
            failed[job.run] = str(error)
        told = found(job)
        outcome = f"failed: {failed.get(job.run)}" if told is None else _score(told)
        console.notify(f"{title}: {outcome} · {_left(number, len(todo), time.monotonic() - began)}")
    return failed


def _contender(
    number: int, entrant: Entrant, jobs: Sequence[Job], failed: Mapping[str, str]
) -> Contender:
    mine = [job for job in jobs if job.name == entrant.name]
    measured = [(job, told) for job in mine if (told := found(job)) is not None]
    return Contender(
        name=entrant.name,
        number=number,
        measured={job.seed: told for job, told in measured},
        failed={job.seed: failed[job.run] for job in mine if job.run in failed},
        shown=_shown(*measured[0]) if measured else [],
    )


def _shown(job: Job, measured: Measured) -> list[Shown]:
    return [
        Shown(
            sample=sample,
            record=None
            if sample.attention is None
            else AttentionRecord.load(Path(job.measured) / sample.attention),
        )
        for sample in measured.samples
    ]


def _require_seeds(seeds: Sequence[int]) -> None:
    if not seeds or len(set(seeds)) < len(seeds):
        raise RecipeError(f"seeds must be different from each other, at least 1; got {list(seeds)}")


def _score(measured: Measured) -> str:
    score = measured.scores[measured.comparison_metric]
    return f"{score.name} {score.value:.4g}"


def _left(done: int, total: int, seconds: float) -> str:
    if done == total:
        return "none left"
    minutes = seconds / done * (total - done) / 60
    return f"{total - done} of {total} left, about {max(1, round(minutes))} min"


def _budget(training: TrainingConfig, tokens: int | None) -> str:
    """In words."""
    parts = [] if training.minutes is None else [f"{training.minutes:g} minutes"]
    if tokens is not None:
        parts.append(f"{tokens:,} tokens")
    elif training.max_steps < NO_END:
        parts.append(f"{training.max_steps:,} steps")
    return " or ".join(parts)
