"""`compare`: from the names of recipes to a page that reports which is better."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from saccade.compare import joining
from saccade.compare.comparison import Comparison, Contender, ShownSample
from saccade.compare.entrants import Entrant, TrainingBudget, entrants
from saccade.compare.folder import ComparisonFolder
from saccade.compare.leases import SECONDS, Lease, Leases
from saccade.compare.measurements import Measurements
from saccade.compare.page import pages
from saccade.compare.training_job import TrainingJob, completed
from saccade.compare.worker import SupersededError, perform_in_worker
from saccade.data import sources
from saccade.data.sources.columns import ColumnNames, parse_columns
from saccade.errors import RecipeError, RunError, SaccadeError, StoppedError
from saccade.files import write_file
from saccade.lens.formatting import readable_json
from saccade.lens.record import AttentionRecord
from saccade.training.console import Console
from saccade.training.interruption import Interruption
from saccade.training.recipe import UNLIMITED_STEPS, TrainingConfig
from saccade.training.run import Run

Perform = Callable[[TrainingJob, Callable[[str], None]], None]
"""Performs a job, and passes on the lines that it prints."""
LOCK_SECONDS = 60.0
"""Seconds to wait for the folder while another process of the same comparison writes its files."""


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
    columns: ColumnNames | None = None,
    valid_fraction: float | None = None,
    skip_broken: bool = False,
    samples: bool = True,
    cache: str | Path | None = None,
    threads: int | None = None,
    join: bool = False,
    lease_seconds: float = SECONDS,
    console: Console | None = None,
    perform: Perform = perform_in_worker,
) -> Comparison:
    """Train recipes on the same data and report which is better.

    Each recipe is trained once per seed, all with the same budget: the smallest of `max_steps`,
    `minutes` and `tokens`, or without any of them the budget of the first recipe. `compare.html`
    and `compare.json` in `out` hold the results. Call it again with the same `out` to resume:
    complete training runs are not repeated, and recipes, seeds and budget can be added.

    Args:
        recipes: Built-in names or .toml files; "name=recipe" gives a recipe another name.
        data: A file, a folder, `builtin:NAME` or `hf:NAME`, as for `saccade.train`.
        out: Output folder.
        changes: "key=value" changes a key of all recipes, "name:key=value" that of one.
        max_steps: Updates per training.
        minutes: Wall-clock minutes per training, validation included.
        tokens: Tokens per training, in full batches with padding.
        seeds: Random seeds, all different.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "float32" or "bfloat16".
        pair: Languages of parallel plain text, such as "en-de".
        columns: Columns of the data by the name that the task expects: a mapping, or
            "source=english,target=french".
        valid_fraction: Fraction of the rows to hold out for validation, as for `saccade.train`.
        skip_broken: Leave out images and vector files that are missing or damaged.
        samples: Whether results and run folders may quote texts of the data.
        cache: Folder for encoded data.
        threads: CPU threads per training.
        join: Share the training runs with other processes, also of other machines, that call this
            with the same arguments and see the same `out`. Each takes the next training that
            nobody has taken, and returns when all are complete; the one that is done last writes
            the pages.
        lease_seconds: Seconds without a heartbeat after which another process counts as dead and
            its training is taken over.
        console: Where progress is printed.
        perform: Function that performs one training, by default in a process of its own.

    Returns:
        All results; `summary()` reports them in words, `as_json()` as plain values.

    Raises:
        RecipeError: If a recipe or its name is invalid, or the recipes have different tasks.
        RunError: If `out` holds something else, or a comparison that this one does not extend.
        StoppedError: If it was interrupted; everything is saved.

    Example:
        >>> comparison = compare(
        ...     ["rnn", "transformer-tiny"], data="pairs/", out="compared", minutes=20
        ... )  # doctest: +SKIP
        >>> print(comparison.summary())  # doctest: +SKIP
        transformer-tiny is the best (BLEU): 31.4 [29.9, 32.8] on 1,000 items of test. ...
    """
    console = console or Console()
    budget = TrainingBudget(max_steps=max_steps, minutes=minutes, tokens=tokens)
    chosen = entrants(recipes, changes, budget)
    _require_distinct(seeds)
    folder = ComparisonFolder(Path(out))
    with Interruption(), ExitStack() as lock:
        if not join:
            lock.enter_context(folder.locked())
        first = chosen[0].recipe
        rule = folder.split_rule()
        corpus = sources.open_corpus(
            data,
            first.options.columns,
            pair=pair,
            columns=columns,
            valid_fraction=valid_fraction,
            rule=rule,
            skip_broken=skip_broken,
        )
        console.notify(corpus.summary)
        for remark in corpus.remarks:
            console.notify(remark)
        if join:
            lock.enter_context(folder.locked(LOCK_SECONDS))
        elif (session := joining.unfinished(folder.path)) is not None:
            raise RunError(
                f"processes with --join have begun to work on {folder.path}; join them with "
                f"--join, or, if none of them is running any more, remove {session.parent}"
            )
        folder.require_resumable(chosen, corpus, console.notify)
        limits = _budget_text(first.training, tokens)
        leases = None
        if join:
            names = [entrant.name for entrant in chosen]
            terms = {"recipes": names, "seeds": list(seeds), "budget": limits}
            leases = Leases(joining.join(folder.path, terms), lease_seconds)
        folder.write_plan(chosen, str(data), corpus)
        jobs = [
            TrainingJob(
                name=entrant.name,
                seed=seed,
                recipe=str(folder.recipe(entrant.name)),
                run=str(folder.run(entrant.name, seed)),
                measured=str(folder.measured(entrant.name, seed)),
                data=str(data),
                pair=pair,
                columns=parse_columns(columns) or None,
                valid_fraction=valid_fraction,
                split_rule=rule,
                skip_broken=skip_broken,
                device=device,
                precision=precision,
                samples=samples,
                cache=None if cache is None else str(cache),
                threads=threads,
                by_hand=sorted(entrant.recipe.by_hand),
            )
            for seed in seeds
            for entrant in chosen
        ]
        if leases is not None:
            lock.close()
            failed = _perform_shared(jobs, perform, console, leases)
        else:
            failed = _perform_all(jobs, perform, console)
        comparison = Comparison(
            task=first.task,
            data=str(data),
            budget=limits,
            seeds=tuple(seeds),
            entrants=[_contender(i, entrant, jobs, failed) for i, entrant in enumerate(chosen)],
        )
        if leases is not None:
            joining.once(leases, joining.PAGE, partial(_write_shared, folder, comparison))
        else:
            _write(folder, comparison)
    return comparison


def _write(folder: ComparisonFolder, comparison: Comparison) -> None:
    content = readable_json(comparison.as_json()).encode()
    write_file(folder.json, content, "all training runs are kept")
    folder.write_pages(pages(comparison))


def _write_shared(folder: ComparisonFolder, comparison: Comparison) -> None:
    with folder.locked(LOCK_SECONDS):
        _write(folder, comparison)


def _perform_all(jobs: Sequence[TrainingJob], perform: Perform, console: Console) -> dict[str, str]:
    """Perform the jobs that are not complete; return the reasons of failures by run folder."""
    todo = [job for job in jobs if completed(job) is None]
    if len(todo) < len(jobs):
        console.notify(f"{len(jobs) - len(todo)} of {len(jobs)} training runs are complete already")
    failed: dict[str, str] = {}
    start = time.monotonic()
    for number, job in enumerate(todo, 1):
        console.notify(f"training {number} of {len(todo)}: {_title(job)}")
        reason = _perform(job, perform, console)
        if reason is not None:
            failed[job.run] = reason
        remaining = _remaining(number, len(todo), time.monotonic() - start)
        console.notify(f"{_title(job)}: {_outcome(job, reason)} · {remaining}")
    return failed


def _perform_shared(
    jobs: Sequence[TrainingJob], perform: Perform, console: Console, leases: Leases
) -> dict[str, str]:
    """Perform the jobs that no other process performs, until all are complete or have failed."""
    failed: dict[str, str] = {}
    todo = list(jobs)
    waiting_for = ""
    while todo:
        for job in todo:
            name = Path(job.run).name
            record = leases.read(name)
            if record is not None and record.state == "failed":
                failed[job.run] = record.reason
            if job.run in failed or completed(job) is not None:
                todo.remove(job)
                break
            if (lease := leases.take(name)) is not None:
                with lease:
                    _perform_leased(job, lease, perform, console)
                waiting_for = ""
                break
        else:  # others hold all that is left
            records = [leases.read(Path(job.run).name) for job in todo]
            text = ", ".join(
                f"{_title(job)} ({joining.holder(record)})"
                for job, record in zip(todo, records, strict=True)
            )
            if text != waiting_for:
                waiting_for = text
                console.notify(f"waiting for the training runs of others: {text}")
            time.sleep(joining.poll_seconds(leases))
    return failed


def _perform_leased(job: TrainingJob, lease: Lease, perform: Perform, console: Console) -> None:
    """Perform a job that this process holds, unless it was completed or is still being saved."""
    if completed(job) is not None:
        lease.conclude("done")
        return
    console.notify(f"training {_title(job)}")
    try:
        with Run(Path(job.run)).locked(LOCK_SECONDS):  # the process before may still be saving
            pass
        reason = _perform(replace(job, successor=str(lease.successor)), perform, console)
    except RunError as error:
        reason = str(error)
    except SupersededError as error:
        console.notify(f"{_title(job)}: {error}")
        return
    if reason is None and completed(job) is None:
        reason = "it ended without measurements; run the command again"
    console.notify(f"{_title(job)}: {_outcome(job, reason)}")
    lease.conclude("done" if reason is None else "failed", reason or "")


def _perform(job: TrainingJob, perform: Perform, console: Console) -> str | None:
    """Perform a job; return the reason if it fails."""
    try:
        perform(job, lambda line: console.notify(f"  {line}"))
    except (StoppedError, SupersededError):
        raise
    except SaccadeError as error:
        return str(error)
    return None


def _title(job: TrainingJob) -> str:
    return f"{job.name}, seed {job.seed}"


def _outcome(job: TrainingJob, reason: str | None) -> str:
    measurements = completed(job)
    return f"failed: {reason}" if measurements is None else _score(measurements)


def _contender(
    number: int, entrant: Entrant, jobs: Sequence[TrainingJob], failed: Mapping[str, str]
) -> Contender:
    own = [job for job in jobs if job.name == entrant.name]
    measured = [(job, results) for job in own if (results := completed(job)) is not None]
    return Contender(
        name=entrant.name,
        number=number,
        measured={job.seed: results for job, results in measured},
        failed={job.seed: failed[job.run] for job in own if job.run in failed},
        shown=_shown(*measured[0]) if measured else [],
    )


def _shown(job: TrainingJob, measurements: Measurements) -> list[ShownSample]:
    if not job.samples:  # of an earlier call that kept them
        return []
    return [
        ShownSample(
            sample=sample,
            record=None
            if sample.attention is None
            else AttentionRecord.load(Path(job.measured) / sample.attention),
        )
        for sample in measurements.samples
    ]


def _require_distinct(seeds: Sequence[int]) -> None:
    if not seeds or len(set(seeds)) < len(seeds):
        raise RecipeError(
            f"seeds must be one or more different numbers, got {list(seeds)}; "
            "pass for example seeds=[0, 1, 2]"
        )


def _score(measurements: Measurements) -> str:
    score = measurements.scores[measurements.comparison_metric]
    return f"{score.name} {score.value:.4g}"


def _remaining(done: int, total: int, seconds: float) -> str:
    if done == total:
        return "none left"
    minutes = seconds / done * (total - done) / 60
    return f"{total - done} of {total} left, about {max(1, round(minutes))} min"


def _budget_text(training: TrainingConfig, tokens: int | None) -> str:
    parts = [] if training.minutes is None else [f"{training.minutes:g} minutes"]
    if tokens is not None:
        parts.append(f"{tokens:,} tokens")
    elif training.max_steps < UNLIMITED_STEPS:
        parts.append(f"{training.max_steps:,} steps")
    return " or ".join(parts)
