"""Labels: one class, several classes at once, or a number, learned from a column of texts.

Each kind defines how labels are encoded, the loss, the meaning of logits, and the metrics.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional as F

from saccade.config import Conflict, without_effect
from saccade.data.corpus import Item, Row, Split
from saccade.errors import DataError, RunError, brief
from saccade.files import read_json
from saccade.metrics import ClassificationMetricsConfig, Tally
from saccade.metrics.calibration import (
    expected_calibration_error_tally,
    fit_temperature,
    fit_temperature_of_sigmoids,
)
from saccade.metrics.classification import confusion
from saccade.metrics.regression import number_tallies
from saccade.shapes import Float, Tensor
from saccade.tasks._shared.answering import Answer
from saccade.tasks._shared.evaluation import TableRows

LABELS_FILE = "labels.json"
SHOWN = 12
"""The number of mistakes in a table, and the maximum number of classes in one of confusions."""
MOST = 10_000
"""The maximum number of classes."""
Tables = dict[str, TableRows]


@dataclass(frozen=True, kw_only=True)
class LabelsConfig:
    """The kind of the labels.

    kind        "one" class per input; "several" classes at once; a "number" (regression); "auto" is
                "number" if all labels are numbers and one is not an integer, otherwise "one"
    separator   the text between several labels of one input
    """

    kind: Literal["auto", "one", "several", "number"] = "auto"
    separator: str = ","

    def conflicts(self) -> Iterator[Conflict]:
        """Yield a separator of labels that are never several."""
        if self.kind in ("one", "number"):
            yield from without_effect(self, ["separator"], f'with labels.kind = "{self.kind}"')


@dataclass(frozen=True)
class Classification(Answer):
    """A prediction of labels.

    Attributes:
        text: The label.
        score: The logarithm of its probability.
        probabilities: The probability of each class; empty if the label is a number.
    """

    probabilities: Mapping[str, float] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The label, which is also `text`."""
        return self.text

    def __str__(self) -> str:
        """Return the label with its probability."""
        probability = self.probabilities.get(self.label)
        return self.label if probability is None else f"{self.label} ({probability:.0%})"

    def to_dict(self) -> dict[str, object]:
        """Return the answer as plain JSON values, without attention."""
        if not self.probabilities:
            return {"label": float(self.label), "truncated": self.truncated}
        table = {"label": self.label, "score": self.score, "truncated": self.truncated}
        return {**table, "probabilities": dict(self.probabilities)}


class Labels(ABC):
    """Base class for kinds of labels.

    Attributes:
        kind: The name of the kind in recipes and files.
        outputs: The number of logits.
        names: The names of the classes, in the order of the logits; empty for a number.
    """

    kind: ClassVar[str]
    outputs: int
    names: tuple[str, ...] = ()

    @abstractmethod
    def encode(self, text: str, where: str) -> list[int]:
        """Return a label as at least one integer for the cache; `where` it is, for an error."""

    @abstractmethod
    def decode(self, rows: Sequence[npt.NDArray[np.int64]]) -> Tensor:
        """Return encoded labels as `loss` takes them."""

    @abstractmethod
    def loss(self, logits: Float[Tensor, "b c"], truth: Tensor, smoothing: float) -> Tensor:
        """Return the loss, summed over the batch."""

    @abstractmethod
    def distance(self, one: Float[Tensor, "b c"], other: Float[Tensor, "b c"]) -> Tensor:
        """Return the distance of two predictions in the unit of the loss, summed over the batch."""

    @abstractmethod
    def answer(self, logits: Float[Tensor, "w c"], temperature: float) -> Classification:
        """Return the prediction of an input's logits, averaged over its windows."""

    @abstractmethod
    def calibrate(self, logits: Float[Tensor, "n c"], truth: Tensor) -> tuple[float, str]:
        """Return the temperature that fits the labels best, and a sentence about its effect."""

    @abstractmethod
    def tally(
        self,
        answers: Sequence[str],
        truths: Sequence[str],
        metrics: ClassificationMetricsConfig,
    ) -> dict[str, Tally]:
        """Return what each metric counts for each answer."""

    def calibration(self, answers: Sequence[Classification], truths: Sequence[str]) -> Tally | None:
        """Return the tally of the calibration error; None if there are no probabilities."""
        return None

    @abstractmethod
    def check(self, metrics: ClassificationMetricsConfig) -> None:
        """Raise `MetricError` if a metric is not defined for such labels."""

    def selection_metric(self, metrics: ClassificationMetricsConfig) -> str:
        """Return the metric that selects the best weights: the first one of the recipe."""
        return metrics.names[0]

    @abstractmethod
    def tables(self, items: Sequence[Item], answers: Sequence[Classification]) -> Tables:
        """Return tables of the worst mistakes and of confusions."""

    @abstractmethod
    def facts(self) -> dict[str, object]:
        """Return the content of the file of labels, as plain values."""

    @property
    def may_be_empty(self) -> bool:
        """Whether a label may be blank."""
        return False

    @property
    def digest(self) -> str:
        """A digest of the labels."""
        return hashlib.sha256(json.dumps(self.facts()).encode()).hexdigest()


class Classes(Labels):
    """One class per input."""

    kind = "one"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.outputs = len(self.names)
        self._number = {name: number for number, name in enumerate(self.names)}

    def encode(self, text: str, where: str) -> list[int]:
        """Return the number of the class."""
        return [_known(text.strip(), self._number, where)]

    def decode(self, rows: Sequence[npt.NDArray[np.int64]]) -> Tensor:
        """Return the numbers of the classes (b,)."""
        return torch.tensor([int(row[0]) for row in rows])

    def loss(self, logits: Float[Tensor, "b c"], truth: Tensor, smoothing: float) -> Tensor:
        """Return the cross-entropy."""
        return F.cross_entropy(logits, truth, reduction="sum", label_smoothing=smoothing)

    def distance(self, one: Float[Tensor, "b c"], other: Float[Tensor, "b c"]) -> Tensor:
        """Return the mean of both Kullback-Leibler divergences."""
        first, second = one.log_softmax(-1), other.log_softmax(-1)
        return ((first.exp() - second.exp()) * (first - second)).sum() / 2

    def answer(self, logits: Float[Tensor, "w c"], temperature: float) -> Classification:
        """Return the most likely class."""
        p = (logits.double() / temperature).softmax(-1).mean(0)
        best = int(p.argmax())
        return Classification(
            self.names[best], _log(float(p[best])), probabilities=_named(self.names, p)
        )

    def calibrate(self, logits: Float[Tensor, "n c"], truth: Tensor) -> tuple[float, str]:
        """Return the temperature that maximises the likelihood of the right classes."""
        temperature = fit_temperature(logits.double().numpy(), truth.numpy())
        both = [(logits.double() / t).softmax(-1).numpy() for t in (1.0, temperature)]
        return temperature, _calibrated(temperature, both, truth.numpy())

    def tally(
        self,
        answers: Sequence[str],
        truths: Sequence[str],
        metrics: ClassificationMetricsConfig,
    ) -> dict[str, Tally]:
        """Return the metrics of the recipe."""
        return metrics.tally(answers, [truth.strip() for truth in truths], self.names)

    def calibration(self, answers: Sequence[Classification], truths: Sequence[str]) -> Tally:
        """Return the tally of the expected calibration error."""
        p = np.array([[answer.probabilities[name] for name in self.names] for answer in answers])
        right = np.array([self._number[truth.strip()] for truth in truths])
        return expected_calibration_error_tally(p, right)

    def check(self, metrics: ClassificationMetricsConfig) -> None:
        """Raise `MetricError` if a metric is not defined for one class per input."""
        metrics.check(self.names)

    def tables(self, items: Sequence[Item], answers: Sequence[Classification]) -> Tables:
        """Return the confusions, and the most confident mistakes."""
        truths = [item.references[0].strip() for item in items]
        tables: Tables = {}
        if self.outputs <= SHOWN:
            counts = confusion([answer.text for answer in answers], truths, self.names)
            columns = [f"answered {name}" for name in self.names]
            tables["Confusions"] = [
                {"right": name, **dict(zip(columns, row.tolist(), strict=True))}
                for name, row in zip(self.names, counts, strict=True)
            ]
        wrong = [
            (answer.score, item, answer, truth)
            for item, answer, truth in zip(items, answers, truths, strict=True)
            if answer.text != truth
        ]
        wrong.sort(key=lambda mistake: -mistake[0])
        tables["The most confident mistakes"] = [
            {
                "input": " | ".join(item.inputs),
                "answer": answer.text,
                "probability": math.exp(score),
                "right": truth,
            }
            for score, item, answer, truth in wrong[:SHOWN]
        ]
        return tables

    def facts(self) -> dict[str, object]:
        """Return the names of the classes."""
        return {"kind": self.kind, "names": list(self.names)}


class Several(Labels):
    """Any number of classes per input, each with a probability of its own."""

    kind = "several"

    def __init__(self, names: Sequence[str], separator: str) -> None:
        self.names, self.separator = tuple(names), separator
        self.outputs = len(self.names)
        self._number = {name: number for number, name in enumerate(self.names)}

    @property
    def may_be_empty(self) -> bool:
        """Whether a label may be blank: an input may have no class."""
        return True

    def encode(self, text: str, where: str) -> list[int]:
        """Return a 0, which stands for nothing, and the numbers of the classes from 1 on."""
        numbers = [_known(name, self._number, where) for name in self.split(text)]
        return [0, *(number + 1 for number in numbers)]

    def decode(self, rows: Sequence[npt.NDArray[np.int64]]) -> Tensor:
        """Return 1 for each class of an input (b, c)."""
        truth = torch.zeros(len(rows), self.outputs + 1)
        for i, row in enumerate(rows):
            truth[i, torch.as_tensor(row)] = 1.0
        return truth[:, 1:]

    def loss(self, logits: Float[Tensor, "b c"], truth: Tensor, smoothing: float) -> Tensor:
        """Return the binary cross-entropy, averaged over the classes."""
        target = truth * (1 - smoothing) + smoothing / 2
        total = F.binary_cross_entropy_with_logits(logits, target, reduction="sum")
        return total / self.outputs

    def distance(self, one: Float[Tensor, "b c"], other: Float[Tensor, "b c"]) -> Tensor:
        """Return the mean of both Kullback-Leibler divergences, averaged over the classes."""
        return ((one.sigmoid() - other.sigmoid()) * (one - other)).sum() / (2 * self.outputs)

    def answer(self, logits: Float[Tensor, "w c"], temperature: float) -> Classification:
        """Return all classes with a probability above one half."""
        p = (logits.double() / temperature).sigmoid().mean(0)
        likely = p > 0.5
        score = torch.where(likely, p, 1 - p).clamp(min=1e-12).log().sum()
        names = [name for name, holds in zip(self.names, likely.tolist(), strict=True) if holds]
        text = self.separator.join(names)
        return Classification(text, float(score), probabilities=_named(self.names, p))

    def calibrate(self, logits: Float[Tensor, "n c"], truth: Tensor) -> tuple[float, str]:
        """Return the temperature that maximises the likelihood of all classes."""
        temperature = fit_temperature_of_sigmoids(logits.double().numpy(), truth.bool().numpy())
        positive = [(logits.double() / t).sigmoid().flatten() for t in (1.0, temperature)]
        both = [torch.stack((1 - p, p), -1).numpy() for p in positive]
        return temperature, _calibrated(temperature, both, truth.flatten().long().numpy())

    def tally(
        self,
        answers: Sequence[str],
        truths: Sequence[str],
        metrics: ClassificationMetricsConfig,
    ) -> dict[str, Tally]:
        """Return the metrics of the recipe over sets of classes."""
        predicted = [set(self.split(answer)) for answer in answers]
        right = [set(self.split(truth)) for truth in truths]
        return metrics.tally_several(predicted, right, self.names)

    def check(self, metrics: ClassificationMetricsConfig) -> None:
        """Raise `MetricError` if a metric is not defined for several classes per input."""
        metrics.check_several(self.names)

    def tables(self, items: Sequence[Item], answers: Sequence[Classification]) -> Tables:
        """Return how often each class is right, was predicted, and both."""
        predicted = [set(self.split(answer.text)) for answer in answers]
        right = [set(self.split(item.references[0])) for item in items]
        return {
            "Labels": [
                {
                    "label": name,
                    "right": sum(name in classes for classes in right),
                    "predicted": sum(name in classes for classes in predicted),
                    "both": sum(name in a & b for a, b in zip(predicted, right, strict=True)),
                }
                for name in self.names
            ]
        }

    def facts(self) -> dict[str, object]:
        """Return the names of the classes, and the separator."""
        return {"kind": self.kind, "names": list(self.names), "separator": self.separator}

    def split(self, text: str) -> list[str]:
        """Return the classes in a text."""
        return split_labels(text, self.separator)


class Number(Labels):
    """A number; the logit is (number - mean) / scale."""

    kind = "number"
    outputs = 1

    def __init__(self, mean: float, scale: float) -> None:
        self.mean, self.scale = mean, scale

    def encode(self, text: str, where: str) -> list[int]:
        """Return the bits of the number in float32."""
        return [int(np.float32(_number(text, where)).view(np.uint32))]

    def decode(self, rows: Sequence[npt.NDArray[np.int64]]) -> Tensor:
        """Return the numbers (b,)."""
        bits = np.array([row[0] for row in rows], dtype=np.uint32)
        return torch.from_numpy(bits.view(np.float32).copy())

    def loss(self, logits: Float[Tensor, "b c"], truth: Tensor, smoothing: float) -> Tensor:
        """Return the squared error, in units of the spread of the training data."""
        return ((logits[:, 0] - (truth - self.mean) / self.scale) ** 2).sum()

    def distance(self, one: Float[Tensor, "b c"], other: Float[Tensor, "b c"]) -> Tensor:
        """Return the squared difference."""
        return ((one - other) ** 2).sum()

    def answer(self, logits: Float[Tensor, "w c"], temperature: float) -> Classification:
        """Return the number, with four digits after the point."""
        value = float(logits.double().mean()) * self.scale + self.mean
        return Classification(f"{value:.4f}", 0.0)

    def calibrate(self, logits: Float[Tensor, "n c"], truth: Tensor) -> tuple[float, str]:
        """Return 1, as there are no probabilities."""
        return 1.0, ""

    def tally(
        self,
        answers: Sequence[str],
        truths: Sequence[str],
        metrics: ClassificationMetricsConfig,
    ) -> dict[str, Tally]:
        """Return correlations and the squared error, whatever the recipe names."""
        return number_tallies(list(map(float, answers)), [_number(x, "the label") for x in truths])

    def check(self, metrics: ClassificationMetricsConfig) -> None:
        """Accept all metrics, as numbers have their own."""

    def selection_metric(self, metrics: ClassificationMetricsConfig) -> str:
        """Return the squared error, which is defined for all numbers."""
        return "mean_squared_error"

    def tables(self, items: Sequence[Item], answers: Sequence[Classification]) -> Tables:
        """Return the largest errors."""
        errors = [
            (float(answer.text) - _number(item.references[0], "the label"), item, answer)
            for item, answer in zip(items, answers, strict=True)
        ]
        errors.sort(key=lambda entry: -abs(entry[0]))
        return {
            "The largest errors": [
                {
                    "input": " | ".join(item.inputs),
                    "answer": answer.text,
                    "right": item.references[0],
                    "error": error,
                }
                for error, item, answer in errors[:SHOWN]
            ]
        }

    def facts(self) -> dict[str, object]:
        """Return mean and scale."""
        return {"kind": self.kind, "mean": self.mean, "scale": self.scale}


def learn_labels(train: Split, config: LabelsConfig) -> Labels:
    """Return the labels of training data, which are its last column.

    Raises:
        DataError: There are no labels, or too few or too many classes.
    """
    first: dict[str, Row] = {}
    counts: Counter[str] = Counter()
    for row in train:
        label = row.values[-1].strip()
        first.setdefault(label, row)
        counts[label] += 1
    if config.kind == "several":
        names = {name for label in first for name in split_labels(label, config.separator)}
        if not names:
            raise DataError(
                f"{train.name}: no row has a label; name the column: --columns label=NAME"
            )
        return Several(_sorted(names), config.separator)
    first.pop("", None)
    if config.kind == "number" or (config.kind == "auto" and _are_numbers(first)):
        values = {label: _number(label, row.where) for label, row in first.items()}
        numbers = np.repeat(list(values.values()), [counts[label] for label in values])
        return Number(float(numbers.mean()), float(numbers.std()) or 1.0)
    if len(first) < 2:
        only = ", ".join(map(repr, first)) or "none"
        raise DataError(
            f"a classifier needs at least two different labels; {train.name} has {only}"
        )
    if len(first) > MOST:
        raise DataError(
            f"{train.name} has {len(first):,} different labels, and a classifier can have "
            f"{MOST:,}; name the right column with --columns label=NAME, or for numbers set "
            "labels.kind=number"
        )
    return Classes(_sorted(first))


def read_labels(folder: Path) -> Labels:
    """Return the labels of a run folder."""
    path = folder / LABELS_FILE
    try:
        facts = read_json(path)
        match facts["kind"]:
            case "one":
                return Classes(_names(facts))
            case "several":
                if not isinstance(facts["separator"], str) or not facts["separator"]:
                    raise ValueError("separator must be a text")
                return Several(_names(facts), facts["separator"])
            case "number":
                mean, scale = float(facts["mean"]), float(facts["scale"])
                if not math.isfinite(mean) or not 0 < scale < math.inf:
                    raise ValueError("mean must be a finite number, scale one above 0")
                return Number(mean, scale)
            case kind:
                raise ValueError(f"{kind!r:.80} is not a valid kind of labels")
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise RunError(f"{path} cannot be read: {type(error).__name__}: {brief(error)}") from None


def _names(facts: Mapping[str, object]) -> list[str]:
    names = facts["names"]
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise ValueError("names must be a list of texts")
    if len(set(names)) < len(names):
        raise ValueError("names must be different")
    return names


def split_labels(text: str, separator: str) -> list[str]:
    """Return the labels in a text, without the blanks around them."""
    return [name for part in text.split(separator) if (name := part.strip())]


def _are_numbers(labels: Mapping[str, Row]) -> bool:
    """Return whether all labels are numbers, and one is not an integer."""
    try:
        values = [float(label) for label in labels]
    except ValueError:
        return False
    return any(not value.is_integer() for value in values)


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise DataError(f"{where}: the label must be a number, got {text[:40]!r}") from None
    if not math.isfinite(value):
        raise DataError(f"{where}: the label must be a finite number, got {text.strip()}")
    return value


def _known(name: str, number: Mapping[str, int], where: str) -> int:
    if name not in number:
        some = ", ".join(list(number)[:SHOWN]) + (" …" if len(number) > SHOWN else "")
        raise DataError(f"{where}: the label {name[:40]!r} was not in the training data: {some}")
    return number[name]


def _sorted(names: Iterable[str]) -> list[str]:
    """Return names sorted by value if they are numbers, otherwise by the alphabet."""
    try:
        return sorted(names, key=lambda name: (float(name), name))
    except ValueError:
        return sorted(names)


def _named(names: Sequence[str], probabilities: Tensor) -> dict[str, float]:
    return dict(zip(names, probabilities.tolist(), strict=True))


def _log(probability: float) -> float:
    return math.log(max(probability, 1e-300))


def _calibrated(
    temperature: float, both: Sequence[npt.NDArray[np.float64]], right: npt.NDArray[np.int64]
) -> str:
    """Return a sentence about the effect of a temperature on probabilities, before and after."""
    before, after = (expected_calibration_error_tally(p, right).of() for p in both)
    return (
        f"logits are divided by a temperature of {temperature:.3g}: the expected calibration "
        f"error of the probabilities on {len(right):,} validation labels is {after:.1%} "
        f"(it was {before:.1%})"
    )
