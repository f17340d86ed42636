"""Baselines: simple methods that a model should beat, measured as the model is.

A task with the capability `HasBaselines` yields methods that are fitted to its training data: a
trivial one, such as the majority class, and where it has one a simple learner, such as TF-IDF with
logistic regression. `measure_baselines` measures them on the items of an evaluation, with the
metrics of the task. A run folder keeps the results in `baseline.json`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from saccade.data.corpus import Item, Split
from saccade.errors import RunError, brief
from saccade.files import read_json
from saccade.lens.formatting import readable_json
from saccade.metrics.resample import paired_difference
from saccade.metrics.score import MetricScore
from saccade.tasks._shared.description import (
    Description,
    GeneratedText,
    LabelOutput,
    TextInput,
    TokenOutput,
)
from saccade.tasks._shared.evaluation import Evaluation

BASELINE_FILE = "baseline.json"
"""The file of a run folder with the results of the baselines on the validation set."""
FORMAT = 1
SIGNIFICANCE = 0.05
"""The p-value below which a difference is significant."""
FEW_EPOCHS = 3.0
"""The number of epochs below which more of them are likely to help."""
LONG = 2.0
"""The seconds of a baseline that are worth a message."""

Kind = Literal["trivial", "simple"]
Notify = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class BaselineMethod:
    """A method that is fitted to training data.

    Attributes:
        name: Its name, such as "majority class".
        kind: "trivial" if it hardly looks at its input, "simple" if it is a simple learner.
        evaluate: Returns the metrics of its predictions for some items.
        note: A remark about how it was fitted, such as the number of rows it read.
    """

    name: str
    kind: Kind
    evaluate: Callable[[list[Item]], Evaluation]
    note: str = ""


@runtime_checkable
class HasBaselines(Protocol):
    """A task that knows simple methods which its model should beat."""

    def baselines(self, train: Split) -> Iterator[BaselineMethod]:
        """Yield the methods, fitted to training data: trivial ones first, then simple learners.

        A method is fitted when it is asked for, in a few seconds at most.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The result of a baseline.

    Attributes:
        name: The name of the method, such as "majority class".
        kind: "trivial", or "simple" for a simple learner.
        scores: Its metrics, by name.
        split: The split it was measured on.
        items: The number of items it was measured on.
        seconds: The time to fit and measure it.
        note: A remark about how it was fitted; may be empty.
    """

    name: str
    kind: Kind
    scores: Mapping[str, MetricScore]
    split: str = "valid"
    items: int = 0
    seconds: float = 0.0
    note: str = ""

    def values(self) -> dict[str, float]:
        """Return the numbers, by the names of their metrics."""
        return {name: score.value for name, score in self.scores.items()}

    def sentence(self, metric: str) -> str:
        """Return one of its scores, and what it was measured on."""
        value = self.scores[metric].value
        return f"{self.name}, {metric} {value:.4g} on {self.items:,} {self.split} items"

    def as_json(self) -> dict[str, Any]:
        """Return plain values, without the time, which differs from one measurement to the next."""
        return {
            "name": self.name,
            "kind": self.kind,
            "metrics": self.values(),
            "details": {
                name: {
                    "interval": score.interval,
                    "higher_is_better": score.higher_is_better,
                    "signature": score.signature,
                }
                for name, score in self.scores.items()
            },
            "split": self.split,
            "items": self.items,
            "note": self.note,
        }

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Baseline:
        """Return the result that `as_json` wrote."""
        if table["kind"] not in ("trivial", "simple"):
            raise ValueError(f"{table['kind']!r:.80} is not a valid kind of baseline")
        scores = {}
        for name, value in table["metrics"].items():
            detail = table["details"][name]
            low_high = detail["interval"]
            scores[name] = MetricScore(
                name=name,
                value=_number(value),
                signature=str(detail["signature"]),
                interval=None if low_high is None else (_number(low_high[0]), _number(low_high[1])),
                higher_is_better=bool(detail["higher_is_better"]),
            )
        return cls(
            name=str(table["name"]),
            kind=table["kind"],
            scores=scores,
            split=str(table["split"]),
            items=int(table["items"]),
            seconds=_number(table.get("seconds", 0.0)),
            note=str(table["note"]),
        )


@dataclass(frozen=True, kw_only=True)
class BaselineFile:
    """The content of baseline.json.

    Attributes:
        baselines: The results on the validation set.
        data: The training data, as it was given to `train`: its place, and its options.
    """

    baselines: Sequence[Baseline] = ()
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_string(self) -> str:
        """Return the text of the file."""
        return readable_json(
            {
                "format": FORMAT,
                "data": dict(self.data),
                "baselines": [
                    {**baseline.as_json(), "seconds": round(baseline.seconds, 3)}
                    for baseline in self.baselines
                ],
            }
        )

    @classmethod
    def read(cls, folder: Path) -> BaselineFile:
        """Return the content of a run folder's file; an empty one if the run has no such file.

        Raises:
            RunError: The file is damaged.
        """
        path = folder / BASELINE_FILE
        try:
            table = read_json(path)
            return cls(
                baselines=[Baseline.from_json(entry) for entry in table["baselines"]],
                data=dict(table["data"]),
            )
        except (FileNotFoundError, NotADirectoryError):
            return cls()
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise RunError(
                f"{path} cannot be read: {type(error).__name__}: {brief(error)}. Delete it to go "
                "on without baselines, or restore it from a copy"
            ) from None


def read_baselines(folder: str | Path) -> list[Baseline]:
    """Return the baselines of a run folder, measured on its validation set; none in old runs.

    Raises:
        RunError: The file of the baselines is damaged.
    """
    return list(BaselineFile.read(Path(folder)).baselines)


def measure_baselines(
    task: object,
    train: Split,
    items: Sequence[Item],
    *,
    split: str,
    notify: Notify = lambda text: None,
) -> list[Baseline]:
    """Fit the baselines of a task to training data and measure them.

    Args:
        task: The task; it has no baselines unless it has the capability `HasBaselines`.
        train: The training data.
        items: The items to measure on.
        split: The name of their split.
        notify: Called with a line about each baseline that takes long or cannot be measured.
    """
    if not isinstance(task, HasBaselines) or not items:
        return []
    results: list[Baseline] = []
    start = time.perf_counter()
    try:
        for method in task.baselines(train):
            scores = method.evaluate(list(items)).scores
            seconds = time.perf_counter() - start
            results.append(
                Baseline(
                    name=method.name,
                    kind=method.kind,
                    scores=scores,
                    split=split,
                    items=len(items),
                    seconds=seconds,
                    note=method.note,
                )
            )
            if seconds > LONG:
                notify(f"measured the baseline {method.name} in {seconds:.0f} s")
            start = time.perf_counter()
    except (ArithmeticError, LookupError, MemoryError, ValueError) as error:
        # training is complete: whatever a baseline cannot do must not end it
        notify(f"a baseline could not be measured ({type(error).__name__}: {brief(error)})")
    return results


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A model beside its best baseline, by one metric.

    Attributes:
        model: The score of the model.
        baseline: The best baseline.
        gain: How much better the model is; negative if it is worse.
        interval: The 95 % confidence interval of the gain, if both were measured on the same items.
        p_value: The two-sided p-value of the gain, if both were measured on the same items.
        beats: Whether the model is better than the baseline by more than chance.
    """

    model: MetricScore
    baseline: Baseline
    gain: float
    interval: tuple[float, float] | None
    p_value: float | None
    beats: bool

    @property
    def metric(self) -> str:
        """The name of the metric."""
        return self.model.name

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "metric": self.metric,
            "baseline": self.baseline.name,
            "kind": self.baseline.kind,
            "gain": self.gain,
            "interval": self.interval,
            "p_value": self.p_value,
            "beats": self.beats,
        }

    def __str__(self) -> str:
        """One sentence: both scores, and whether the model is better."""
        score = self.baseline.scores[self.metric]
        where = f"{self.baseline.items:,} {self.baseline.split} items"
        both = f"{self.metric} {self.model.value:.4g}, best baseline ({self.baseline.name}) "
        both += f"{score.value:.4g} on {where}"
        if self.beats:
            return both
        if self.gain <= 0:
            return f"the model is not better than a {self.baseline.kind} baseline: {both}"
        return f"the model is not significantly better than a {self.baseline.kind} baseline: {both}"


def best_baseline(baselines: Iterable[Baseline], metric: str) -> Baseline | None:
    """Return the baseline with the best score; None if none has this metric."""

    def goodness(baseline: Baseline) -> float:
        score = baseline.scores[metric]
        return score.value if score.higher_is_better else -score.value

    return max((one for one in baselines if metric in one.scores), key=goodness, default=None)


def standing(
    scores: Mapping[str, MetricScore], baselines: Iterable[Baseline], metric: str
) -> Standing | None:
    """Return a model's score beside its best baseline; None if they have no such metric."""
    best = best_baseline(baselines, metric)
    if metric not in scores or best is None:
        return None
    model, other = scores[metric], best.scores[metric]
    sign = 1.0 if model.higher_is_better else -1.0
    gain = sign * (model.value - other.value)
    if model.resamples and len(model.resamples) == len(other.resamples):
        differences = sign * (np.array(model.resamples) - np.array(other.resamples))
        paired = paired_difference(gain, differences)
        return Standing(
            model=model,
            baseline=best,
            gain=gain,
            interval=paired.interval,
            p_value=paired.p_value,
            beats=gain > 0 and paired.p_value < SIGNIFICANCE,
        )
    low, high = model.interval or (model.value, model.value)
    apart = not low <= other.value <= high
    return Standing(
        model=model, baseline=best, gain=gain, interval=None, p_value=None, beats=gain > 0 and apart
    )


def advice(
    description: Description, *, pretrained: bool, improving: bool | None, epochs: float
) -> list[str]:
    """Return what may help a model that does not beat its baselines, the most likely first.

    Args:
        description: The description of its task.
        pretrained: Whether training started from the weights of another model.
        improving: Whether the validation metric was still improving at the end; None if there were
            too few validations to know.
        epochs: How many times the training data was read.
    """
    parts = []
    if improving:
        parts.append("train longer (--minutes), as the validation metric was still improving")
    elif epochs < FEW_EPOCHS:
        often = "once" if f"{epochs:.1g}" == "1" else f"{epochs:.1g} times"
        parts.append(f"train longer (--minutes), as the data was read only {often}")
    if not pretrained:
        match description:
            case Description(writes=LabelOutput() | TokenOutput() | GeneratedText(start=None)):
                parts.append("start from a pretrained model (--init FOLDER)")
            case Description(reads=TextInput(), writes=GeneratedText()):
                parts.append(
                    "start from a pretrained translator (`saccade import`, then --init RUN)"
                )
    parts.append("add training data")
    if not improving and epochs >= FEW_EPOCHS:
        parts.append("use a smaller recipe")
    return parts


def _number(value: object) -> float:
    number = float(value)  # type: ignore[arg-type]
    if not math.isfinite(number):
        raise ValueError("a number is not finite")
    return number
