"""Summaries of run folders: what a run is, its scores, its baselines and its cost."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from saccade import recipes as builtin
from saccade.errors import SaccadeError
from saccade.interop.model_card import CardFacts
from saccade.tasks import Baseline, Standing, read_baselines, standing
from saccade.training.report import read_metrics, report_due
from saccade.training.run import CLEANED, Run
from saccade.training.tensor_files import read_shapes
from saccade.training.validation_scores import ValidationScores, score_json

DEPTH = 6
"""Maximum depth of folders that are searched for runs."""
NOT_METRICS = ("step", "epoch", "seconds", "train_loss", "valid_loss")
"""Names in the record of a validation that are not metrics of the task."""

State = Literal["finished", "unfinished", "imported"]


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """A run as its files describe it; no weights are loaded.

    Attributes:
        folder: The run folder.
        state: "finished", "unfinished" (also while it is being trained) or "imported".
        task: The name of its task.
        recipe: The recipe as given to `train`; "" in runs of older versions.
        data: The data as given to `train`; "" in runs of older versions.
        started: The time it was started, in local time.
        model: The class of the model.
        parameters: The number of weights; None if there are none yet.
        model_bytes: The size of the weights on the disk.
        total_bytes: The size of the run folder.
        valid: The scores of the best weights, if the run is finished.
        baselines: The baselines, measured on the same items.
        curve: The validations during training.
        about: The content of run.json.
        reads: The name of the first column, which identifies the kind of input.
    """

    folder: Path
    state: State
    task: str
    recipe: str
    data: str
    started: datetime
    model: str
    parameters: int | None
    model_bytes: int
    total_bytes: int
    valid: ValidationScores
    baselines: Sequence[Baseline]
    curve: Sequence[Mapping[str, Any]]
    about: Mapping[str, Any]
    reads: str = "text"

    @property
    def metric(self) -> str:
        """The metric that matters most; "" if none was measured."""
        if self.valid.metric:
            return self.valid.metric
        names = [name for name in self.last if name not in NOT_METRICS]
        return names[0] if names else ("valid_loss" if self.curve else "")

    @property
    def value(self) -> float | None:
        """The value of `metric`: of the best weights, or of the last validation."""
        if self.metric in self.valid.scores:
            return self.valid.scores[self.metric].value
        value = self.last.get(self.metric)
        return None if value is None else float(value)

    @property
    def last(self) -> Mapping[str, Any]:
        """The last validation; empty if there was none."""
        return self.curve[-1] if self.curve else {}

    @property
    def standing(self) -> Standing | None:
        """The model beside its best baseline; None if one of them was not measured."""
        return standing(self.valid.scores, self.baselines, self.metric)

    @property
    def minutes(self) -> float | None:
        """The minutes of training up to the last validation."""
        seconds = self.last.get("seconds")
        return None if seconds is None else float(seconds) / 60

    @property
    def formats(self) -> list[str]:
        """The formats that it can be exported to, as far as its recipe is built in."""
        return builtin.exports().get(self.recipe, ["onnx"])

    def cost(self) -> str:
        """Return the cost of the training in words; "" if nothing was validated."""
        if not self.curve or self.minutes is None:
            return ""
        parts = [f"{self.last['step']:,} steps", f"{self.last['epoch']:.1f} epochs"]
        parts.append(f"{self.minutes:.1f} minutes")
        machine = [str(self.about[key]) for key in ("device", "precision") if key in self.about]
        if "threads" in self.about:
            machine.append(f"threads: {self.about['threads']}")
        return ", ".join(parts) + (f" on {', '.join(machine)}" if machine else "")

    def commands(self) -> dict[str, str]:
        """Return useful next commands, by what they do."""
        run = shlex.quote(str(self.folder))
        data = shlex.quote(self.data) if self.data else "DATA"
        again = f"saccade train {shlex.quote(self.recipe) or f'{run}/recipe.toml'} --data {data}"
        if self.state == "unfinished":
            resume = {"resume": f"{again} --out {run} --resume"}
        elif self.state == "imported" or self.about.get(CLEANED):
            resume = {"train further": f"{again} --init {run} --out OTHER"}
        else:
            resume = {"train longer": f"{again} --out {run} --resume --minutes MINUTES_IN_ALL"}
        if self.parameters is None:
            return resume
        first, *others = self.formats
        example = {"image": "IMAGE.png", "vectors": "VECTORS.npy"}.get(self.reads, '"Your text"')
        return {
            "predict": f"saccade predict {run} {example}",
            "serve": f"saccade serve {run}",
            "evaluate": f"saccade evaluate {run} --data TEST_DATA",
            "export": f"saccade export {run} --to {first} OUT"
            + (f"  # or {', '.join(others)}" if others else ""),
            **resume,
        }

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "folder": str(self.folder),
            "state": self.state,
            "task": self.task,
            "recipe": self.recipe or None,
            "data": self.data or None,
            "started": self.started.isoformat(timespec="seconds"),
            "model": self.model,
            "parameters": self.parameters,
            "model_bytes": self.model_bytes,
            "total_bytes": self.total_bytes,
            "examples": dict(self.valid.examples),
            "metric": self.metric or None,
            "value": self.value,
            "items": self.valid.items,
            "scores": {name: score_json(score) for name, score in self.valid.scores.items()},
            "baselines": [baseline.as_json() for baseline in self.baselines],
            "standing": None if self.standing is None else self.standing.as_json(),
            "steps": self.last.get("step"),
            "epochs": self.last.get("epoch"),
            "minutes": self.minutes,
            "exports_to": self.formats,
            "curve": [dict(record) for record in self.curve],
            "commands": self.commands(),
        }

    def card_facts(self, name: str) -> CardFacts:
        """Return what the model card of an export reports of this run.

        Args:
            name: the name of the exported model.
        """
        return CardFacts(
            name=name,
            recipe=self.recipe,
            data=self.data,
            examples=self.valid.examples,
            training=self.cost(),
            metric=self.metric,
            scores=self.valid.scores,
            items=self.valid.items,
            baselines=self.baselines,
        )


def summarize(folder: str | Path) -> RunSummary:
    """Return the summary of a run folder.

    Raises:
        RunError: if the folder is not a run, or is damaged.
    """
    run = Run(Path(folder))
    about, recipe = run.about(), run.recipe()
    records = read_metrics(run) if run.metrics.exists() else []
    state: State = "finished"
    if "imported" in about:
        state = "imported"
    elif not run.weights.exists() or not run.metrics.exists() or report_due(run):
        state = "unfinished"
    shapes = read_shapes(run.weights) if run.weights.exists() else None
    return RunSummary(
        folder=run.folder,
        state=state,
        task=recipe.task,
        recipe=str(about.get("recipe", "")),
        data=str(about.get("source", about.get("imported", ""))),
        started=run.begun_at(),
        model=type(getattr(recipe.options, "model", None)).__name__.removesuffix("Config"),
        parameters=None if shapes is None else sum(map(math.prod, shapes.values())),
        model_bytes=run.weights.stat().st_size if run.weights.exists() else 0,
        total_bytes=run.size(),
        valid=ValidationScores.read(run),
        baselines=read_baselines(run.folder),
        curve=[record for record in records if "valid_loss" in record],
        about=about,
        reads=recipe.options.columns[0].name,
    )


def find_runs(folder: str | Path) -> Iterator[Path]:
    """Yield the run folders in a folder and below it, in the order of their names.

    Hidden folders and the contents of runs are not searched.
    """
    root = Path(folder)
    for place, names, files in os.walk(root):
        here = Path(place)
        if "run.json" in files:
            names.clear()
            yield here
        deep = len(here.relative_to(root).parts) >= DEPTH
        names[:] = [] if deep else sorted(name for name in names if not name.startswith("."))


def summaries(folder: str | Path) -> Iterator[tuple[Path, RunSummary | str]]:
    """Yield each run folder in a folder and below it, with its summary or why it has none."""
    for path in find_runs(folder):
        try:
            yield path, summarize(path)
        except (SaccadeError, OSError) as error:
            yield path, str(error)
