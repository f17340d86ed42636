"""Inspect data: its contents and faults, the recipes that fit, and the cost of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from saccade.data import sources
from saccade.data.corpus import Corpus
from saccade.data.sources.columns import Column, ColumnNames, parse_columns
from saccade.data.survey import notes, survey
from saccade.errors import BrokenImagesError, DataError, TrainingError
from saccade.inspection.cost import SECONDS, Trial, measure_cost
from saccade.inspection.findings import Findings, Fit
from saccade.inspection.page import page
from saccade.inspection.text import text
from saccade.training import recipe as recipes
from saccade.training.choice import FittingTask, choose_recipe, fitting_tasks
from saccade.training.console import Console


class Inspection(Findings):
    """Findings about data, as text, JSON or a page."""

    def summary(self) -> str:
        """Return the inspection as lines of text."""
        return text(self)

    def as_json(self) -> dict[str, Any]:
        """Return the inspection as values that JSON can hold."""
        return {**asdict(self), "complete": self.survey.complete}

    def page(self) -> str:
        """Return the inspection as one HTML page that needs nothing else."""
        return page(self)


def inspect(
    data: str | Path,
    recipe: str | Path | None = None,
    *,
    pair: str | None = None,
    columns: ColumnNames | None = None,
    changes: Sequence[str] = (),
    valid_fraction: float | None = None,
    skip_broken: bool = False,
    trial: float = SECONDS,
    console: Console | None = None,
) -> Inspection:
    """Inspect data: its rows, labels, lengths and faults, and the cost of training on it.

    All rows are read once and all images are decoded; broken ones are reported. The cost is
    estimated from a few updates in a child process.

    Args:
        data: File or folder of data, `builtin:NAME` or `hf:NAME`.
        recipe: Name of a built-in recipe or path of a .toml file; chosen from the data if left out.
        pair: The two languages of parallel text files, such as "en-de".
        columns: The columns of the data, by the names that the task gives them.
        changes: Assignments to keys of the recipe, such as "model.dim=256".
        valid_fraction: Fraction of the rows to hold out for validation, as training would.
        skip_broken: Leave out images that are missing or damaged, as training would.
        trial: Seconds of training to estimate the cost from; 0 for no estimate.
        console: Where progress is shown; nowhere if left out.

    Returns:
        The inspection, with the methods `summary()`, `as_json()` and `page()`.

    Raises:
        DataError: The data does not exist, or its columns are not those of the recipe.
        RecipeError: The recipe does not exist.

    Example:
        >>> inspect("builtin:pydoc", trial=0.0).recipe
        'gpt-char'
    """
    console = console or Console(quiet=True)
    options: dict[str, Any] = {"pair": pair, "columns": columns}
    choice = None
    if recipe is None:
        tasks = fitting_tasks(data, **options)
        choice = choose_recipe(data, changes=changes, tasks=tasks, **options)
    else:
        tasks = _tasks_or_none(data, options)
    name = str(recipe) if choice is None else choice.recipe
    changed = (*(choice.changes if choice else ()), *changes)
    loaded = recipes.load(name, changed)
    splitting = {"valid_fraction": valid_fraction, "skip_broken": skip_broken}
    corpus = _opened(data, loaded.options.columns, {**options, **splitting})
    with console.counting("rows read:") as bar:
        facts = survey(
            corpus,
            loaded.options.columns,
            separator=loaded.separator,
            progress=bar.to,
        )
    cost, error = None, ""
    if trial > 0:
        console.notify(f"measuring {trial:g} seconds of training with {name}")
        job = Trial(
            recipe=name,
            data=str(data),
            changes=changed,
            pair=pair,
            columns=parse_columns(columns) or None,
            seconds=trial,
            skip_broken=skip_broken,
        )
        try:
            cost = measure_cost(job)
        except TrainingError as failure:
            error = str(failure)
    return Inspection(
        data=str(data),
        understood=corpus.summary,
        task=loaded.task,
        survey=facts,
        notes=tuple(notes(facts)),
        recipe=name,
        choice=choice,
        fits=tuple(
            Fit(fit, task.name, recipes.description(fit)) for task in tasks for fit in task.recipes
        ),
        cost=cost,
        cost_error=error,
    )


def _tasks_or_none(data: str | Path, options: Mapping[str, Any]) -> list[FittingTask]:
    """Return the built-in tasks that fit; empty if only a task of another package does."""
    try:
        return fitting_tasks(data, **options)
    except DataError:
        return []


def _opened(data: str | Path, columns: Sequence[Column], options: Mapping[str, Any]) -> Corpus:
    """Open data as training does; without holding out rows if a file cannot be read to its end."""
    try:
        return sources.open_corpus(data, columns, tolerant=True, **options)
    except BrokenImagesError:
        pass
    except DataError:
        if options["valid_fraction"] is not None:
            raise
    without = {**options, "valid_fraction": 0.0}
    return sources.open_corpus(data, columns, tolerant=True, **without)
