"""What is measured of a trained model: quality, cost, speed, and its answers to some inputs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from saccade.data import sources
from saccade.data.corpus import Item
from saccade.errors import DataError, WatchError
from saccade.metrics.score import MetricScore
from saccade.tasks import Answer, Task
from saccade.training import checkpoint, session
from saccade.training.report import read_metrics
from saccade.training.run import Run

SAMPLES = 4
"""Inputs whose answers are shown."""
ALONE, TOGETHER = 10, 64
"""Inputs answered one by one for the latency, and in one call for the throughput."""
ROUNDS, SECONDS = 3, 10.0
"""Rounds that are timed, and how long they go on at most."""
LONGEST = 2000
"""Characters of a text that is shown."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """What a training was like.

    ended               why it was over
    tokens_per_second   the median over the training, in `unit`; None if it was too short to tell
    peak_memory         bytes of main memory that its process had; None where no system tells it
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
class Answering:
    """How fast it answers: the median for an input alone, and inputs a second of many at once."""

    latency_seconds: float
    inputs_per_second: float
    together: int


@dataclass(frozen=True, kw_only=True)
class Sample:
    """An input and its answer; `attention` is the file of where it looked, if it looks anywhere."""

    input: str
    references: tuple[str, ...]
    answer: str
    attention: str | None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """All that was measured of a training.

    split      what it was measured on
    compares   the metric that decides
    curve      its validations
    """

    parameters: int
    split: str
    items: int
    comparison_metric: str
    scores: dict[str, MetricScore]
    by_length: list[dict[str, Any]]
    training: Training
    answering: Answering
    curve: list[dict[str, Any]]
    samples: list[Sample]

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Measured:
        """From what `as_json` gave."""
        parts = {
            "scores": {name: _score(score) for name, score in table["scores"].items()},
            "training": Training(**table["training"]),
            "answering": Answering(**table["answering"]),
            "samples": [
                Sample(**{**each, "references": tuple(each["references"])})
                for each in table["samples"]
            ],
        }
        return cls(**{**table, **parts})


def measure(
    run: str | Path,
    folder: Path,
    data: str,
    pair: str | None,
    columns: Mapping[str, str] | None,
    device: str,
    peak_memory: int | None,
) -> Measured:
    """Measure a trained run on the test split of the data, or on the validation split."""
    task = session.load(run, device=device)
    corpus = sources.open_corpus(data, task.columns, pair=pair, columns=columns)
    split = corpus.splits["test" if "test" in corpus.splits else "valid"]
    items = list(task.items(split))
    if not items:
        raise DataError(f"there is nothing to measure in {split.name} of {data}")
    evaluation = task.evaluate(items)
    records = read_metrics(Run(Path(run)))
    return Measured(
        parameters=sum(p.numel() for p in task.parameters()),
        split=split.name,
        items=len(items),
        comparison_metric=task.comparison_metric,
        scores=evaluation.scores,
        by_length=evaluation.by_length,
        training=_training(Run(Path(run)), records, task.unit, peak_memory),
        answering=answering(
            [task.question(item) for item in chosen(items, TOGETHER)], task.predict
        ),
        curve=[record for record in records if "valid_loss" in record],
        samples=_samples(task, items, folder),
    )


def chosen(items: Sequence[Item], count: int) -> list[Item]:
    """Some items, the same in each comparison: from short to long, neither extreme."""
    ordered = sorted(items, key=lambda item: sum(map(len, item.inputs)))
    count = min(count, len(ordered))
    return [ordered[int((i + 0.5) / count * len(ordered))] for i in range(count)]


def answering(questions: Sequence[Any], predict: Callable[[Sequence[Any]], object]) -> Answering:
    """Time the answers to some inputs."""
    alone = [[each] for each in questions[:: -(-len(questions) // ALONE)]]
    return Answering(
        latency_seconds=median(_timed(predict, alone)),
        inputs_per_second=len(questions) / median(_timed(predict, [questions])),
        together=len(questions),
    )


def _timed(
    predict: Callable[[Sequence[Any]], object], calls: Sequence[Sequence[Any]]
) -> list[float]:
    """The seconds of each call, in several rounds, after one that does not count."""
    predict(calls[0])
    taken: list[float] = []
    for inputs in [*calls] * ROUNDS:
        if sum(taken) > SECONDS:
            break
        began = time.perf_counter()
        predict(inputs)
        taken.append(time.perf_counter() - began)
    return taken


def _training(
    run: Run, records: Sequence[Mapping[str, Any]], unit: str, peak_memory: int | None
) -> Training:
    last = checkpoint.steps(run.checkpoints)[-1]
    state = json.loads((run.checkpoints / f"step-{last}" / checkpoint.STATE).read_bytes())
    rates = [record[f"{unit}_per_second"] for record in records if f"{unit}_per_second" in record]
    epochs = [record["epoch"] for record in records if "epoch" in record]
    return Training(
        steps=state["step"],
        best_step=state["best_step"],
        seconds=state["seconds"],
        epochs=epochs[-1] if epochs else None,
        ended=state["ended"],
        unit=unit,
        tokens_per_second=median(rates) if rates else None,
        peak_memory=peak_memory,
    )


def _samples(task: Task[Any], items: Sequence[Item], folder: Path) -> list[Sample]:
    asked = chosen(items, SAMPLES)
    questions = [task.question(item) for item in asked]
    try:
        answers = task.predict(questions, attention=True)
    except WatchError:  # it never looks back
        answers = task.predict(questions)
    return [
        Sample(
            input=_text(question)[:LONGEST],
            references=tuple(text[:LONGEST] for text in item.references),
            answer=str(answer)[:LONGEST],
            attention=_saved(answer, folder / f"attention-{i}.npz"),
        )
        for i, (item, question, answer) in enumerate(zip(asked, questions, answers, strict=True))
    ]


def _text(question: Any) -> str:
    return question if isinstance(question, str) else " | ".join(question)


def _saved(answer: Answer, path: Path) -> str | None:
    record = answer.attention
    if record is None or not (record.layers and record.read.tokens and record.wrote.tokens):
        return None
    return record.save(path).name


def _score(table: Mapping[str, Any]) -> MetricScore:
    interval = table["interval"]
    return MetricScore(
        **{
            **table,
            "interval": None if interval is None else tuple(interval),
            "resamples": tuple(table["resamples"]),
        }
    )
