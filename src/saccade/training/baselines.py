"""Baselines of a run: measured when training ends, and again by `evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade.data import sources
from saccade.data.corpus import Item, Split
from saccade.errors import SaccadeError
from saccade.metrics.score import MetricScore
from saccade.tasks import (
    BASELINE_FILE,
    Baseline,
    BaselineFile,
    HasBaselines,
    Standing,
    Task,
    advice,
    measure_baselines,
    standing,
)
from saccade.training import manifest
from saccade.training.learning_curve import still_improving
from saccade.training.report import read_metrics
from saccade.training.run import Run

Notify = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class DataPlace:
    """The place of data and the options it was opened with, for opening it again.

    Attributes:
        data: A file or folder, `builtin:NAME` or `hf:NAME`.
        pair: The languages of parallel text files.
        columns: The columns of the data, by the names that the task gives them.
    """

    data: str
    pair: str | None = None
    columns: Mapping[str, str] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return plain values, with an absolute path."""
        named = ":" in self.data and not Path(self.data).exists()
        return {
            "data": self.data if named else str(Path(self.data).resolve()),
            "pair": self.pair,
            "columns": None if self.columns is None else dict(self.columns),
        }

    def train(self, task: Task, **options: Any) -> Split:
        """Return the training data, opened with these options of `open_corpus`."""
        corpus = sources.open_corpus(
            self.data,
            task.columns,
            pair=self.pair,
            columns=self.columns,
            required=("train",),
            **options,
        )
        return corpus.splits["train"]


def keep_baselines(run: Run, baselines: Sequence[Baseline], place: DataPlace) -> None:
    """Write the baselines of a run into its folder."""
    content = BaselineFile(baselines=baselines, data=place.as_json()).to_string()
    manifest.replace_files(run.folder, {BASELINE_FILE: content.encode()}, "the run itself is kept")


def baselines_on(
    run: Run, task: Task, items: Sequence[Item], *, split: str, place: DataPlace, notify: Notify
) -> list[Baseline]:
    """Return the baselines of a run on other items.

    They are fitted again to the training data of the run if the evaluated data contains it or it is
    still at its original place; otherwise the validation results are returned.

    Args:
        run: The run folder.
        task: Its task.
        items: The items to measure on.
        split: The name of their split.
        place: The evaluated data.
        notify: Called with a line about baselines that could not be measured on the items.
    """
    if not isinstance(task, HasBaselines):
        return []
    kept = BaselineFile.read(run.folder)
    train = _training_data(run, task, place, kept.data)
    if train is not None:
        return measure_baselines(task, train, items, split=split, notify=notify)
    if kept.baselines:
        notify(
            "the training data of this run was not found, so its baselines are those of the "
            "validation set"
        )
    return list(kept.baselines)


def _training_data(
    run: Run, task: Task, place: DataPlace, before: Mapping[str, Any]
) -> Split | None:
    """Return the data that a run was trained on; None if it is neither in `place` nor `before`."""
    about = run.about()
    digest = about.get("data", {}).get("train")
    options = {**run.splitting(), "skip_broken": bool(about.get("skipped_images"))}
    places = [place]
    if before and not str(before["data"]).startswith("hf:"):  # nothing is downloaded for this
        places.append(DataPlace(**before))
    for candidate in places:
        try:
            train = candidate.train(task, **options)
            if digest is not None and train.digest() == digest:
                return train
        except (SaccadeError, OSError):
            continue
    return None


def baseline_remarks(
    run: Run, task: Task, scores: Mapping[str, MetricScore], baselines: Sequence[Baseline]
) -> tuple[Standing | None, list[str]]:
    """Return a model beside its best baseline, and sentences about it for people.

    Args:
        run: The run of the model.
        task: Its task.
        scores: The scores of the model.
        baselines: The baselines, measured on the same items.
    """
    result = standing(scores, baselines, task.comparison_metric)
    if result is None:
        return None, []
    if result.beats:
        return result, [str(result)]
    return result, [str(result), f"what may help: {'; '.join(next_steps(run, task, baselines))}"]


def next_steps(run: Run, task: Task, baselines: Sequence[Baseline]) -> list[str]:
    """Return what may help a run that does not beat its baselines."""
    about = run.about()
    metric = task.comparison_metric
    trivial = [b.scores[metric] for b in baselines if b.kind == "trivial" and metric in b.scores]
    higher = trivial[0].higher_is_better if trivial else True
    validations = [record for record in read_metrics(run) if "valid_loss" in record]
    improving = still_improving(
        validations,
        metric,
        higher_is_better=higher,
        start=trivial[0].value if trivial else None,
    )
    pretrained = bool({"init", "imported"} & about.keys())
    epochs = validations[-1].get("epoch", 0.0) if validations else 0.0
    return advice(task.describe(), pretrained=pretrained, improving=improving, epochs=epochs)
