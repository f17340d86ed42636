"""What a classifier says: one label, several at once, or a number. Learned from a column of texts.

Each kind knows how its labels become numbers, what the loss is, what logits mean, and how answers
are measured.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

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

LABELS_FILE = "labels.json"
SHOWN = 12
"""How many mistakes, and how many classes at most in a table of confusions."""
MOST = 10_000
"""More different labels than that are hardly classes."""
Tables = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class LabelsConfig:
    """What the labels are.

    kind        "one" of some classes; "several" at once; a "number"; "auto" takes numbers for
                numbers if one of them is not whole, and anything else for classes
    separator   between the labels of a text that has several
    """

    kind: Literal["auto", "one", "several", "number"] = "auto"
    separator: str = ","

    def conflicts(self) -> Iterator[Conflict]:
        """The separator of labels that come alone."""
        if self.kind in ("one", "number"):
            yield from without_effect(self, ["separator"], f'with labels.kind = "{self.kind}"')


@dataclass(frozen=True)
class Classification(Answer):
    """A label, and how likely each is; for a number, that number and no probabilities.

    `text` is the label, `score` the logarithm of its probability.
    """

    probabilities: Mapping[str, float] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The answer."""
        return self.text

    def __str__(self) -> str:
        """For people."""
        share = self.probabilities.get(self.label)
        return self.label if share is None else f"{self.label} ({share:.0%})"

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        if not self.probabilities:
            return {"label": float(self.label)}
        table = {"label": self.label, "score": self.score}
        return {**table, "probabilities": dict(self.probabilities)}


class Labels(ABC):
    """A kind of labels.

    `outputs` is how many numbers a model gives for them.
    """

    kind: ClassVar[str]
    outputs: int

    @abstractmethod
    def encode(self, text: str, where: str) -> list[int]:
        """A label as numbers for the cache, at least one; `where` it stands, for an error."""

    @abstractmethod
    def decode(self, rows: Sequence[npt.NDArray[np.int64]]) -> Tensor:
        """Encoded labels as what `loss` takes."""

    @abstractmethod
    def loss(self, logits: Float[Tensor, "b c"], truth: Tensor, smoothing: float) -> Tensor:
        """The sum over the batch."""

    @abstractmethod
    def distance(self, one: Float[Tensor, "b c"], other: Float[Tensor, "b c"]) -> Tensor:
        """How far two judgements of the same texts are apart, in the unit of the loss; the sum."""

    @abstractmethod
    def answer(self, logits: Float[Tensor, "w c"], temperature: float) -> Classification:
        """What the logits of a text say; those of several windows of it are averaged."""

    @abstractmethod
    def calibrate(self, logits: Float[Tensor, "n c"], truth: Tensor) -> tuple[float, str]:
        """The temperature at which probabilities are right, and what it changed."""

    @abstractmethod
    def tally(
        self,
        answers: Sequence[str],
        truths: Sequence[str],
        metrics: ClassificationMetricsConfig,
    ) -> dict[str, Tally]:
        """How good each answer is."""

    def sureness(self, answers: Sequence[Classification], truths: Sequence[str]) -> Tally | None:
        """How far probabilities are from what comes true, where there are any."""
        return None

    @abstractmethod
    def check(self, metrics: ClassificationMetricsConfig) -> None:
        """Refuse metrics that make no sense for such labels."""

    def selection_metric(self, metrics: ClassificationMetricsConfig) -> str:
        """The metric that tells which weights are the best: the first that the recipe names."""
        return metrics.names[0]

    @abstractmethod
    def tables(self, items: Sequence[Item], answers: Sequence[Classification]) -> Tables:
        """What is worth a look: the worst mistakes, and what is taken for what."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What it is made of, as plain values."""

    @property
    def may_be_empty(self) -> bool:
        """Whether a blank label means something."""
        return False

    @property
    def digest(self) -> str:
        """The same for the same labels."""
        return hashlib.sha256(json.dumps(self.facts()).encode()).hexdigest()


class Classes(Labels):
    """One of some classes."""

    kind = "one"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.outputs = len(self.names)
        self._number = {name: number for number, name in enumerate(self.names)}

    def encode(self, text: str, where: str) -> list[int]:
        """The number of the class."""
        return [_known(text.strip(), self._number, where)]

    def decode(self, rows: Sequence[npt.NDArray[np.int64]]) -> Tensor:
        """The numbers of the classes (b,)."""
        return torch.tensor([int(row[0]) for row in rows])

    def loss(self, logits: Float[Tensor, "b c"], truth: Tensor, smoothing: float) -> Tensor:
        """Cross entropy."""
        return F.cross_entropy(logits, truth, reduction="sum", label_smoothing=smoothing)

    def distance(self, one: Float[Tensor, "b c"], other: Float[Tensor, "b c"]) -> Tensor:
        """The mean of both Kullback-Leibler divergences."""
        first, second = one.log_softmax(-1), other.log_softmax(-1)
        return ((first.exp() - second.exp()) * (first - second)).sum() / 2

    def answer(self, logits: Float[Tensor, "w c"], temperature: float) -> Classification:
        """The likeliest class."""
        shares = (logits.double() / temperature).softmax(-1).mean(0)
        best = int(shares.argmax())
        return Classification(
            self.names[best], _log(float(shares[best])), probabilities=_named(self.names, shares)
        )

    def calibrate(self, logits: Float[Tensor, "n c"], truth: Tensor) -> tuple[float, str]:
        """By the likelihood of the right classes."""
        temperature = fit_temperature(logits.double().numpy(), truth.numpy())
        shares = [(logits.double() / t).softmax(-1).numpy() for t in (1.0, temperature)]
        return temperature, _calibrated(temperature, shares, truth.numpy())

    def tally(
        self,
        answers: Sequence[str],
        truths: Sequence[str],
        metrics: ClassificationMetricsConfig,
    ) -> dict[str, Tally]:
        """The metrics of the recipe."""
        return metrics.tally(answers, [truth.strip() for truth in truths], self.names)

    def sureness(self, answers: Sequence[Classification], truths: Sequence[str]) -> Tally:
        """The expected calibration error."""
        shares = np.array([[a.probabilities[name] for name in self.names] for a in answers])
        right = np.array([self._number[truth.strip()] for truth in truths])
        return expected_calibration_error_tally(shares, right)

    def check(self, metrics: ClassificationMetricsConfig) -> None:
        """One label an item."""
        metrics.check(self.names)

    def tables(self, items: Sequence[Item], answers: Sequence[Classification]) -> Tables:
        """What is taken for what, and the mistakes that it was surest of."""
        truths = [item.references[0].strip() for item in items]
        found: Tables = {}
        if self.outputs <= SHOWN:
            counts = confusion([answer.text for answer in answers], truths, self.names)
            columns = [f"answered {name}" for name in self.names]
            found["What is taken for what"] = [
                {"right": name, **dict(zip(columns, row.tolist(), strict=True))}
                for name, row in zip(self.names, counts, strict=True)
            ]
        wrong = [
            (answer.score, item, answer, truth)
            for item, answer, truth in zip(items, answers, truths, strict=True)
            if answer.text != truth
        ]
        wrong.sort(key=lambda each: -each[0])
        found["The most confident mistakes"] = [
            {
                "input": " | ".join(item.inputs),
                "answer": answer.text,
                "probability": math.exp(score),
                "right": truth,
            }
            for score, item, answer, truth in wrong[:SHOWN]
        ]
        return found

    def facts(self) -> dict[str, Any]:
        """The names of the classes."""
        return {"kind": self.kind, "names": list(self.names)}


class Several(Labels):
    """Any of some classes, each for itself."""

    kind = "several"

    def __init__(self, names: Sequence[str], separator: str) -> None:
        self.names, self.separator = tuple(names), separator
        self.outputs = len(self.names)
        self._number = {name: number for number, name in enumerate(self.names)}

    @property
    def may_be_empty(self) -> bool:
        """A text may have no label at all."""
        return True

    def encode(self, text: str, where: str) -> list[int]:
        """A 0, which stands for nothing, and the numbers of the classes from 1 on."""
        numbers = [_known(name, self._number, where) for name in self.parted(text)]
        return [0, *(number + 1 for number in numbers)]

    def decode(self, rows: Sequence[npt.NDArray[np.int64]]) -> Tensor:
        """1 for each class that holds (b, c)."""
        truth = torch.zeros(len(rows), self.outputs + 1)
        for i, row in enumerate(rows):
            truth[i, torch.as_tensor(row)] = 1.0
        return truth[:, 1:]

    def loss(self, logits: Float[Tensor, "b c"], truth: Tensor, smoothing: float) -> Tensor:
        """Binary cross entropy, the mean over the classes."""
        target = truth * (1 - smoothing) + smoothing / 2
        total = F.binary_cross_entropy_with_logits(logits, target, reduction="sum")
        return total / self.outputs

    def distance(self, one: Float[Tensor, "b c"], other: Float[Tensor, "b c"]) -> Tensor:
        """The mean of both Kullback-Leibler divergences, and over the classes."""
        return ((one.sigmoid() - other.sigmoid()) * (one - other)).sum() / (2 * self.outputs)

    def answer(self, logits: Float[Tensor, "w c"], temperature: float) -> Classification:
        """All classes that are likelier than not."""
        shares = (logits.double() / temperature).sigmoid().mean(0)
        held = shares > 0.5
        sure = torch.where(held, shares, 1 - shares).clamp(min=1e-12).log().sum()
        names = [name for name, holds in zip(self.names, held.tolist(), strict=True) if holds]
        text = self.separator.join(names)
        return Classification(text, float(sure), probabilities=_named(self.names, shares))

    def calibrate(self, logits: Float[Tensor, "n c"], truth: Tensor) -> tuple[float, str]:
        """By the likelihood of what holds and what does not."""
        temperature = fit_temperature_of_sigmoids(logits.double().numpy(), truth.bool().numpy())
        shares = [(logits.double() / t).sigmoid().flatten() for t in (1.0, temperature)]
        both = [torch.stack((1 - share, share), -1).numpy() for share in shares]
        return temperature, _calibrated(temperature, both, truth.flatten().long().numpy())

    def tally(
        self,
        answers: Sequence[str],
        truths: Sequence[str],
        metrics: ClassificationMetricsConfig,
    ) -> dict[str, Tally]:
        """Over sets of labels."""
        said = [set(self.parted(answer)) for answer in answers]
        right = [set(self.parted(truth)) for truth in truths]
        return metrics.tally_several(said, right, self.names)

    def check(self, metrics: ClassificationMetricsConfig) -> None:
        """Any number of labels an item."""
        metrics.check_several(self.names)

    def tables(self, items: Sequence[Item], answers: Sequence[Classification]) -> Tables:
        """Each class with how often it holds, was said, and both."""
        said = [set(self.parted(answer.text)) for answer in answers]
        right = [set(self.parted(item.references[0])) for item in items]
        return {
            "Labels": [
                {
                    "label": name,
                    "holds": sum(name in each for each in right),
                    "was said": sum(name in each for each in said),
                    "both": sum(name in a & b for a, b in zip(said, right, strict=True)),
                }
                for name in self.names
            ]
        }

    def facts(self) -> dict[str, Any]:
        """The names of the classes, and what stands between them."""
        return {"kind": self.kind, "names": list(self.names), "separator": self.separator}

    def parted(self, text: str) -> list[str]:
        """The labels in a text."""
        return parted(text, self.separator)


class Number(Labels):
    """A number; the model gives it in units of `scale` from `mean`."""

    kind = "number"
    outputs = 1

    def __init__(self, mean: float, scale: float) -> None:
        self.mean, self.scale = mean, scale

    def encode(self, text: str, where: str) -> list[int]:
        """The bits of the number in float32."""
        return [int(np.float32(_number(text, where)).view(np.uint32))]

    def decode(self, rows: Sequence[npt.NDArray[np.int64]]) -> Tensor:
        """The numbers (b,)."""
        bits = np.array([row[0] for row in rows], dtype=np.uint32)
        return torch.from_numpy(bits.view(np.float32).copy())

    def loss(self, logits: Float[Tensor, "b c"], truth: Tensor, smoothing: float) -> Tensor:
        """The squared error, in units of the spread of the training data."""
        return ((logits[:, 0] - (truth - self.mean) / self.scale) ** 2).sum()

    def distance(self, one: Float[Tensor, "b c"], other: Float[Tensor, "b c"]) -> Tensor:
        """The squared difference."""
        return ((one - other) ** 2).sum()

    def answer(self, logits: Float[Tensor, "w c"], temperature: float) -> Classification:
        """The number, to four digits after the point."""
        value = float(logits.double().mean()) * self.scale + self.mean
        return Classification(f"{value:.4f}", 0.0)

    def calibrate(self, logits: Float[Tensor, "n c"], truth: Tensor) -> tuple[float, str]:
        """There are no probabilities."""
        return 1.0, ""

    def tally(
        self,
        answers: Sequence[str],
        truths: Sequence[str],
        metrics: ClassificationMetricsConfig,
    ) -> dict[str, Tally]:
        """Correlations and the squared error, whatever the recipe names."""
        return number_tallies(list(map(float, answers)), [_number(x, "the label") for x in truths])

    def check(self, metrics: ClassificationMetricsConfig) -> None:
        """Numbers have their own."""

    def selection_metric(self, metrics: ClassificationMetricsConfig) -> str:
        """The one that is defined whatever the numbers are."""
        return "mean_squared_error"

    def tables(self, items: Sequence[Item], answers: Sequence[Classification]) -> Tables:
        """The largest errors."""
        rows: list[dict[str, Any]] = [
            {
                "input": " | ".join(item.inputs),
                "answer": answer.text,
                "right": item.references[0],
                "error": float(answer.text) - _number(item.references[0], "the label"),
            }
            for item, answer in zip(items, answers, strict=True)
        ]
        rows.sort(key=lambda row: -abs(float(row["error"])))
        return {"The largest errors": rows[:SHOWN]}

    def facts(self) -> dict[str, Any]:
        """Mean and scale."""
        return {"kind": self.kind, "mean": self.mean, "scale": self.scale}


def learn_labels(train: Split, config: LabelsConfig) -> Labels:
    """The labels of training data, whose last column they are."""
    first: dict[str, Row] = {}
    counts: Counter[str] = Counter()
    for row in train:
        label = row.values[-1].strip()
        first.setdefault(label, row)
        counts[label] += 1
    if config.kind == "several":
        names = {name for label in first for name in parted(label, config.separator)}
        if not names:
            raise DataError(f"{train.name}: no text has a label")
        return Several(_sorted(names), config.separator)
    first.pop("", None)
    if config.kind == "number" or (config.kind == "auto" and _are_numbers(first)):
        values = {label: _number(label, row.where) for label, row in first.items()}
        numbers = np.repeat(list(values.values()), [counts[label] for label in values])
        return Number(float(numbers.mean()), float(numbers.std()) or 1.0)
    if len(first) < 2:
        only = ", ".join(map(repr, first)) or "none"
        raise DataError(
            f"a classifier needs at least two labels to tell apart; {train.name} has {only}"
        )
    if len(first) > MOST:
        raise DataError(
            f"{train.name} has {len(first):,} different labels, which are hardly classes; name "
            "the right column with --columns label=NAME, or for numbers set labels.kind=number"
        )
    return Classes(_sorted(first))


def read_labels(folder: Path) -> Labels:
    """The labels of a run folder."""
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
                raise ValueError(f"there are no labels of the kind {kind!r:.80}")
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise RunError(f"{path} cannot be read: {type(error).__name__}: {brief(error)}") from None


def _names(facts: Mapping[str, Any]) -> list[str]:
    names = facts["names"]
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise ValueError("names must be a list of texts")
    if len(set(names)) < len(names):
        raise ValueError("a name stands there twice")
    return names


def parted(text: str, separator: str) -> list[str]:
    """The labels in a text, without the blanks around them."""
    return [name for part in text.split(separator) if (name := part.strip())]


def _are_numbers(labels: Mapping[str, Row]) -> bool:
    """Whether all are numbers, and one is not whole (or not a number, which is then an error)."""
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
        raise DataError(f"{where}: the label {name[:40]!r} is not one of those trained on: {some}")
    return number[name]


def _sorted(names: Any) -> list[str]:
    """Numbers by their value, other names by the alphabet."""
    try:
        return sorted(names, key=lambda name: (float(name), name))
    except ValueError:
        return sorted(names)


def _named(names: Sequence[str], shares: Tensor) -> dict[str, float]:
    return dict(zip(names, shares.tolist(), strict=True))


def _log(share: float) -> float:
    return math.log(max(share, 1e-300))


def _calibrated(
    temperature: float, shares: Sequence[npt.NDArray[np.float64]], right: npt.NDArray[np.int64]
) -> str:
    """What the temperature changed, from the probabilities before and after."""
    before, after = (expected_calibration_error_tally(each, right).of() for each in shares)
    return (
        f"logits are divided by a temperature of {temperature:.3g}: the expected calibration "
        f"error of the probabilities on {len(right):,} validation labels is {after:.1%} "
        f"(it was {before:.1%})"
    )
