"""Measurements of a trained model: quality, cost, speed, and its predictions for some inputs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from saccade.data import sources
from saccade.data.corpus import Item
from saccade.errors import DataError, WatchError
from saccade.metrics.score import MetricScore
from saccade.tasks import Answer, Baseline, Task, measure_baselines
from saccade.tasks.measures import erasure
from saccade.training import checkpoint, session
from saccade.training.report import read_metrics
from saccade.training.run import Run

NUM_SAMPLES = 4
"""Inputs whose predictions are shown."""
ALONE, TOGETHER = 10, 64
"""Inputs predicted one by one for the latency, and in one call for the throughput."""
ROUNDS, MAX_SECONDS = 3, 10.0
"""Rounds that are timed, and the seconds after which no further call starts."""
MAX_CHARACTERS = 2000
"""Characters of a text that are shown."""

ERASED = 100
"""Items by which erasure is measured."""

Record = dict[str, Any]
"""A row of a table as JSON has it."""


@dataclass(frozen=True, kw_only=True)
class TrainingCost:
    """Cost of training.

    ended               why it ended
    tokens_per_second   median over the training, in `unit`; None if it was too short to measure
    peak_memory         bytes of main memory of its process; None where no system reports it
    """

    steps: int
    best_step: int
    seconds: float
    epochs: float | None
    ended: str
    unit: str
    tokens_per_second: float | None
    peak_memory: int | None


@dataclass(frozen=True, kw_only=True)
class PredictionSpeed:
    """Median latency of a single input, and throughput of `together` inputs in one call."""

    latency_seconds: float
    inputs_per_second: float
    together: int


@dataclass(frozen=True, kw_only=True)
class Sample:
    """An input and its prediction; `attention` names the file of its record, if there is one."""

    input: str
    references: tuple[str, ...]
    answer: str
    attention: str | None


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """All measurements of a training run.

    split               split they were taken on
    comparison_metric   metric that ranks the recipes
    curve               validations during training
    baselines           simple methods on the same items; none in older comparisons
    attention           measures of its attention: name, value, interval and meaning
    """

    parameters: int
    split: str
    items: int
    comparison_metric: str
    scores: dict[str, MetricScore]
    by_length: list[Record]
    training: TrainingCost
    answering: PredictionSpeed
    curve: list[Record]
    samples: list[Sample]
    baselines: list[Baseline] = field(default_factory=list)
    attention: list[Record] = field(default_factory=list)

    def as_json(self) -> Record:
        """Return plain values."""
        return asdict(self)


def measure(
    run: str | Path,
    folder: Path,
    *,
    data: str,
    pair: str | None,
    columns: Mapping[str, str] | None,
    skip_broken: bool = False,
    device: str,
    samples: bool = True,
    peak_memory: int | None,
) -> Measurements:
    """Measure a trained run on the test split of the data, or without one on the validation split.

    The attention of the samples is written into `folder`; there are none if `samples` is false.

    Args:
        run: The run folder.
        folder: The folder for the attention of the samples.
        data: The data of the comparison.
        pair: The two languages of parallel text files, such as "en-de".
        columns: The columns of the data, by the names that the task gives them.
        skip_broken: Leave out broken images and vector files.
        device: The device to measure on.
        samples: Keep predictions and attention for some inputs.
        peak_memory: Peak memory of training in bytes; None if unknown.
    """
    task = session.load(run, device=device)
    corpus = sources.open_corpus(
        data,
        task.columns,
        pair=pair,
        columns=columns,
        skip_broken=skip_broken,
        **Run(Path(run)).splitting(),
    )
    split = corpus.splits["test" if "test" in corpus.splits else "valid"]
    items = list(task.items(split))
    if not items:
        raise DataError(f"{data}: the split {split.name} has no rows to measure on; add some")
    evaluation = task.evaluate(items)
    records = read_metrics(Run(Path(run)))
    return Measurements(
        parameters=sum(p.numel() for p in task.parameters()),
        split=split.name,
        items=len(items),
        comparison_metric=task.comparison_metric,
        scores=evaluation.scores,
        by_length=evaluation.by_length,
        training=_training_cost(Run(Path(run)), records, task.unit, peak_memory),
        answering=prediction_speed(
            [task.input_of(item) for item in spread_by_length(items, TOGETHER)], task.predict
        ),
        curve=[record for record in records if "valid_loss" in record],
        samples=_samples(task, items, folder) if samples else [],
        baselines=measure_baselines(task, corpus.splits["train"], items, split=split.name),
        attention=[
            {
                "measure": finding.score.name,
                "value": finding.score.value,
                "interval": finding.score.interval,
                "meaning": finding.meaning,
            }
            for finding in erasure(task, items, most=ERASED)
        ],
    )


def spread_by_length(items: Sequence[Item], count: int) -> list[Item]:
    """Return `count` items from short to long without the extremes, the same in each comparison."""
    ordered = sorted(items, key=lambda item: sum(map(len, item.inputs)))
    count = min(count, len(ordered))
    return [ordered[int((i + 0.5) / count * len(ordered))] for i in range(count)]


Predict = Callable[[Sequence[object]], object]


def prediction_speed(inputs: Sequence[object], predict: Predict) -> PredictionSpeed:
    """Time the predictions for some inputs."""
    alone = [[one] for one in inputs[:: -(-len(inputs) // ALONE)]]
    return PredictionSpeed(
        latency_seconds=median(_timed(predict, alone)),
        inputs_per_second=len(inputs) / median(_timed(predict, [inputs])),
        together=len(inputs),
    )


def _timed(predict: Predict, calls: Sequence[Sequence[object]]) -> list[float]:
    """Return the seconds of each call, in several rounds, after one call that is not timed."""
    predict(calls[0])
    durations: list[float] = []
    for inputs in [*calls] * ROUNDS:
        if sum(durations) > MAX_SECONDS:
            break
        start = time.perf_counter()
        predict(inputs)
        durations.append(time.perf_counter() - start)
    return durations


def _training_cost(
    run: Run, records: Sequence[Record], unit: str, peak_memory: int | None
) -> TrainingCost:
    last = checkpoint.steps(run.checkpoints)[-1]
    state = json.loads((run.checkpoints / f"step-{last}" / checkpoint.STATE).read_bytes())
    rates = [record[f"{unit}_per_second"] for record in records if f"{unit}_per_second" in record]
    epochs = [record["epoch"] for record in records if "epoch" in record]
    return TrainingCost(
        steps=state["step"],
        best_step=state["best_step"],
        seconds=state["seconds"],
        epochs=epochs[-1] if epochs else None,
        ended=state["ended"],
        unit=unit,
        tokens_per_second=median(rates) if rates else None,
        peak_memory=peak_memory,
    )


def _samples(task: Task, items: Sequence[Item], folder: Path) -> list[Sample]:
    chosen = spread_by_length(items, NUM_SAMPLES)
    inputs = [task.input_of(item) for item in chosen]
    try:
        answers = task.predict(inputs, attention=True)
    except WatchError:  # a model without attention
        answers = task.predict(inputs)
    between = " " if task.columns[0].sequence else " | "
    return [
        Sample(
            input=_text(input_, between)[:MAX_CHARACTERS],
            references=tuple(text[:MAX_CHARACTERS] for text in item.references),
            answer=str(answer)[:MAX_CHARACTERS],
            attention=_save_attention(answer, folder / f"attention-{i}.npz"),
        )
        for i, (item, input_, answer) in enumerate(zip(chosen, inputs, answers, strict=True))
    ]


def _text(input_: object, between: str) -> str:
    match input_:
        case [*texts]:
            return between.join(map(str, texts))
    return str(input_)


def _save_attention(answer: Answer, path: Path) -> str | None:
    record = answer.attention
    if record is None or not (record.layers and record.read.tokens and record.wrote.tokens):
        return None
    return record.save(path).name
