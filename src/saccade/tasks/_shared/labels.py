"""Labels: one class, several classes at once, or a number, learned from a column of texts.

Each kind defines how labels are encoded, the loss, the meaning of logits, and the metrics.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional as F

from saccade.config import Conflict, Fraction, NotNegative, Positive, without_effect
from saccade.data.corpus import Item, Row, Split
from saccade.data.validation_split import are_numbers, split_labels
from saccade.errors import DataError, DecodingError, RecipeError, RunError, brief
from saccade.files import read_json
from saccade.metrics import ClassificationMetricsConfig, Tally
from saccade.metrics.calibration import Calibration, cross_fit, expected_calibration_error_tally
from saccade.metrics.classification import (
    ClassScores,
    balanced_accuracy_tally,
    best_threshold,
    class_scores,
    confusion,
    macro_f1_tally,
)
from saccade.metrics.regression import number_tallies
from saccade.shapes import Float, Tensor
from saccade.tasks._shared.answering import Answer
from saccade.tasks._shared.evaluation import TableRows
from saccade.tasks._shared.notebook import labels_html, text_html
from saccade.tasks._shared.scoring import TokenScore

LABELS_FILE = "labels.json"
SHOWN = 12
"""The number of mistakes in a table, and the maximum number of classes in one of confusions."""
MOST = 10_000
"""The maximum number of classes."""
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
LISTED = 100
"""The maximum number of classes in a table of precision and recall."""
MAJORITY = 0.8
"""The fraction of one class above which accuracy says little."""
RARE = 10
"""The minimum number of validation examples with and without a label, to choose its threshold."""
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


@dataclass(frozen=True, kw_only=True)
class LabelLossConfig:
    """The loss of labels.

    label_smoothing   fraction of the true distribution that is spread evenly over all classes; a
                      little, such as 0.1, makes a classifier less overconfident
    class_weights     how much each class counts in the loss: "none", all examples alike;
                      "balanced", all classes alike, however rare (of several labels at once,
                      examples with and without a label alike); or a table of labels and weights,
                      such as { spam = 5.0 }, in which other labels weigh 1. Weights are divided by
                      their mean over the training examples, so the learning rate keeps its meaning
    focal_gamma       focal loss (Lin et al. 2017): multiply the loss of an example by
                      (1 - p)^focal_gamma, where p is the probability of its label, so that training
                      attends to hard examples; 0 for none, 2 is usual
    """

    label_smoothing: Fraction = 0.0
    class_weights: Literal["none", "balanced"] | dict[str, Positive] = "none"
    focal_gamma: NotNegative = 0.0


def label_conflicts(labels: LabelsConfig, loss: LabelLossConfig) -> Iterator[Conflict]:
    """Yield the options of classes in `loss` if the labels are numbers."""
    if labels.kind == "number":
        names = ["label_smoothing", "class_weights", "focal_gamma"]
        for conflict in without_effect(loss, names, 'with labels.kind = "number"'):
            yield conflict._replace(key=f"loss.{conflict.key}")


@dataclass(frozen=True)
class LabelCounts:
    """The labels of the training data.

    Attributes:
        rows: The number of rows.
        of: The number of rows with each label.
    """

    rows: int
    of: Mapping[str, int]


@dataclass(frozen=True)
class Classification(Answer):
    """A prediction of labels.

    Attributes:
        text: The label.
        score: The logarithm of its probability.
        confidence: Its probability; of several labels at once, the product of the probabilities
            that each label holds or does not hold, as predicted.
        probabilities: The probability of each class; empty if the label is a number.
        labels: The predicted labels: one, or any number of several labels at once.
    """

    probabilities: Mapping[str, float] = field(default_factory=dict)
    labels: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The label, which is also `text`."""
        return self.text

    def __str__(self) -> str:
        """Return each label with its probability, as in `positive  97 %`."""
        if not self.probabilities:
            return self.text
        shown = (f"{name}  {percent(self.probabilities[name])}" for name in self.labels)
        return ", ".join(shown) or "(no label)"

    def _repr_html_(self) -> str:
        if not self.probabilities:
            return text_html(self.text, None)
        return labels_html(self.probabilities)

    def to_dict(self) -> dict[str, object]:
        """Return the answer as plain JSON values, without attention."""
        if not self.probabilities:
            return {"label": float(self.label), "truncated": self.truncated}
        table = {
            "label": self.label,
            "score": self.score,
            "confidence": self.confidence,
            "truncated": self.truncated,
        }
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
    def loss(
        self,
        logits: Float[Tensor, "b c"],
        truth: Tensor,
        smoothing: float = 0.0,
        *,
        gamma: float = 0.0,
        weights: Float[Tensor, "... c"] | None = None,
    ) -> Tensor:
        """Return the loss, summed over the batch.

        Args:
            logits: The logits.
            truth: The labels, as `decode` returns them.
            smoothing: The label smoothing.
            gamma: The exponent of the focal loss; 0 for none.
            weights: The weights, as `weights` returns them; None if all are 1.
        """

    def weights(
        self, option: Literal["none", "balanced"] | Mapping[str, float], counts: LabelCounts
    ) -> Tensor | None:
        """Return the weights of `loss`, with a mean of 1 over the training data; None for none."""
        return None

    @abstractmethod
    def distance(self, one: Float[Tensor, "b c"], other: Float[Tensor, "b c"]) -> Tensor:
        """Return the distance of two predictions in the unit of the loss, summed over the batch."""

    @abstractmethod
    def answer(self, logits: Float[Tensor, "w c"], temperature: float) -> Classification:
        """Return the prediction of an input's logits, averaged over its windows."""

    def label_scores(self, probabilities: Mapping[str, float], label: str) -> list[TokenScore]:
        """Return the score of a given label beside the most probable one; see `Task.score`.

        Args:
            probabilities: The probability of each class.
            label: The label, as data has it.
        """
        label = label.strip()
        best = max(probabilities, key=lambda name: probabilities[name])
        return [TokenScore(label, probabilities[label], best, probabilities[best])]

    def calibrate(self, logits: Float[Tensor, "n c"], truth: Tensor) -> Calibration | None:
        """Return the temperature that fits the labels best; None if there are no probabilities."""
        return cross_fit(logits.double().numpy(), truth.long().numpy())

    def choose_thresholds(self, logits: Float[Tensor, "n c"], truth: Tensor) -> str:
        """Choose the probabilities above which labels are predicted; return a sentence about it.

        Only labels of several at once have thresholds.
        """
        return ""

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

    def class_scores(self, answers: Sequence[str], truths: Sequence[str]) -> list[ClassScores]:
        """Return precision, recall, F1 and support of each class; empty for numbers."""
        return []

    def remarks(self, answers: Sequence[str], truths: Sequence[str]) -> list[str]:
        """Return sentences about what the metrics do not show."""
        return []

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

    def _table(self, weights: Mapping[str, float]) -> Float[Tensor, " c"]:
        """Return the weight of each class; 1 for those that a table does not name."""
        for name in weights:
            if name not in self.names:
                raise RecipeError(
                    f"loss.class_weights has a weight for {name[:40]!r}, which is not a label of "
                    f"the training data ({named(self.names)}); correct or remove it"
                )
        return torch.tensor([weights.get(name, 1.0) for name in self.names]).double()

    @property
    def may_be_empty(self) -> bool:
        """Whether a label may be blank."""
        return False

    @property
    def digest(self) -> str:
        """A digest of the labels, as they are encoded."""
        encoded = {key: value for key, value in self.facts().items() if key != "thresholds"}
        return hashlib.sha256(json.dumps(encoded).encode()).hexdigest()


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

    def loss(
        self,
        logits: Float[Tensor, "b c"],
        truth: Tensor,
        smoothing: float = 0.0,
        *,
        gamma: float = 0.0,
        weights: Float[Tensor, "... c"] | None = None,
    ) -> Tensor:
        """Return the cross-entropy, or the focal loss: -Σ target · (1 - p)^gamma · log p."""
        if not gamma:
            reduction = "sum" if weights is None else "none"
            losses = F.cross_entropy(logits, truth, reduction=reduction, label_smoothing=smoothing)
        else:
            target = F.one_hot(truth, self.outputs) * (1 - smoothing) + smoothing / self.outputs
            log_p = logits.log_softmax(-1)
            others = (-log_p.expm1()).clamp(min=1e-8)  # the slope of its power is finite
            losses = -(target * others**gamma * log_p).sum(-1)
        return losses.sum() if weights is None else losses @ weights[truth]

    def weights(
        self, option: Literal["none", "balanced"] | Mapping[str, float], counts: LabelCounts
    ) -> Float[Tensor, " c"] | None:
        """Return the weight of each class; if balanced, rows / (classes · rows of the class)."""
        if option == "none":
            return None
        rows = torch.tensor([counts.of.get(name, 0) for name in self.names]).double()
        weights = 1 / rows.clamp(min=1) if option == "balanced" else self._table(option)
        return (weights * rows.sum() / (weights @ rows)).float()

    def distance(self, one: Float[Tensor, "b c"], other: Float[Tensor, "b c"]) -> Tensor:
        """Return the mean of both Kullback-Leibler divergences."""
        first, second = one.log_softmax(-1), other.log_softmax(-1)
        return ((first.exp() - second.exp()) * (first - second)).sum() / 2

    def answer(self, logits: Float[Tensor, "w c"], temperature: float) -> Classification:
        """Return the most likely class."""
        p = (logits.double() / temperature).softmax(-1).mean(0)
        best = int(p.argmax())
        return Classification(
            self.names[best],
            _log(float(p[best])),
            confidence=float(p[best]),
            probabilities=_named(self.names, p),
            labels=(self.names[best],),
        )

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

    def class_scores(self, answers: Sequence[str], truths: Sequence[str]) -> list[ClassScores]:
        """Return precision, recall, F1 and support of each class."""
        return class_scores(answers, [truth.strip() for truth in truths], self.names)

    def remarks(self, answers: Sequence[str], truths: Sequence[str]) -> list[str]:
        """Return a remark if one class is so frequent that accuracy says little."""
        truths = [truth.strip() for truth in truths]
        name, count = Counter(truths).most_common(1)[0]
        if count <= MAJORITY * len(truths):
            return []
        values = (balanced_accuracy_tally, macro_f1_tally)
        balanced, f1 = (tally(answers, truths, self.names).of() for tally in values)
        return [
            f"{majority(name, count, len(truths))}; read balanced accuracy "
            f"({percent(balanced, 1)}) and macro F1 ({percent(f1, 1)}) instead"
        ]

    def check(self, metrics: ClassificationMetricsConfig) -> None:
        """Raise `MetricError` if a metric is not defined for one class per input."""
        metrics.check(self.names)

    def tables(self, items: Sequence[Item], answers: Sequence[Classification]) -> Tables:
        """Return the confusions, and the most confident mistakes."""
        truths = [item.references[0].strip() for item in items]
        scores = self.class_scores([answer.text for answer in answers], truths)
        tables: Tables = {"Precision and recall": score_table(scores)}
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
                "input": item.shown,
                "answer": answer.text,
                "confidence": percent(math.exp(score)),
                "right": truth,
            }
            for score, item, answer, truth in wrong[:SHOWN]
        ]
        return tables

    def facts(self) -> dict[str, object]:
        """Return the names of the classes."""
        return {"kind": self.kind, "names": list(self.names)}


class Several(Labels):
    """Any number of classes per input, each with a probability of its own.

    Attributes:
        thresholds: The probability above which each class is predicted.
    """

    kind = "several"

    def __init__(
        self, names: Sequence[str], separator: str, thresholds: Mapping[str, float] | None = None
    ) -> None:
        self.names, self.separator = tuple(names), separator
        self.outputs = len(self.names)
        self.thresholds = dict.fromkeys(self.names, 0.5) | dict(thresholds or {})
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

    def loss(
        self,
        logits: Float[Tensor, "b c"],
        truth: Tensor,
        smoothing: float = 0.0,
        *,
        gamma: float = 0.0,
        weights: Float[Tensor, "... c"] | None = None,
    ) -> Tensor:
        """Return the binary cross-entropy or focal loss, averaged over the classes."""
        target = truth * (1 - smoothing) + smoothing / 2
        if not gamma and weights is None:
            total = F.binary_cross_entropy_with_logits(logits, target, reduction="sum")
            return total / self.outputs
        without, with_ = (1.0, 1.0) if weights is None else weights
        log_p, log_not_p = F.logsigmoid(logits), F.logsigmoid(-logits)
        positive = with_ * target * (gamma * log_not_p).exp() * log_p
        negative = without * (1 - target) * (gamma * log_p).exp() * log_not_p
        return -(positive + negative).sum() / self.outputs

    def weights(
        self, option: Literal["none", "balanced"] | Mapping[str, float], counts: LabelCounts
    ) -> Float[Tensor, "2 c"] | None:
        """Return the weights of examples without each class, and of those with it.

        If balanced, rows / (2 · rows with the class) and rows / (2 · rows without it). A table has
        the weights of examples with a class.
        """
        if option == "none":
            return None
        having = torch.tensor([counts.of.get(name, 0) for name in self.names]).double()
        rows = torch.stack((counts.rows - having, having))
        if option == "balanced":
            weights = 1 / rows.clamp(min=1)
        else:
            table = self._table(option)
            weights = torch.stack((torch.ones_like(table), table))
        return (weights * counts.rows / (weights * rows).sum(0)).float()

    def distance(self, one: Float[Tensor, "b c"], other: Float[Tensor, "b c"]) -> Tensor:
        """Return the mean of both Kullback-Leibler divergences, averaged over the classes."""
        return ((one.sigmoid() - other.sigmoid()) * (one - other)).sum() / (2 * self.outputs)

    def answer(self, logits: Float[Tensor, "w c"], temperature: float) -> Classification:
        """Return all classes with a probability above their thresholds."""
        p = (logits.double() / temperature).sigmoid().mean(0)
        likely = p > torch.tensor([self.thresholds[name] for name in self.names])
        score = float(torch.where(likely, p, 1 - p).clamp(min=1e-12).log().sum())
        names = tuple(
            name for name, holds in zip(self.names, likely.tolist(), strict=True) if holds
        )
        return Classification(
            self.separator.join(names),
            score,
            confidence=math.exp(score),
            probabilities=_named(self.names, p),
            labels=names,
        )

    def label_scores(self, probabilities: Mapping[str, float], label: str) -> list[TokenScore]:
        """Return the score of each class: that it holds or does not hold, as the label says."""
        given = set(self.split(label))
        scores = []
        for name, p in probabilities.items():
            both = {name: p, f"not {name}": 1 - p}
            best = name if p > self.thresholds[name] else f"not {name}"
            own = name if name in given else f"not {name}"
            scores.append(TokenScore(own, both[own], best, both[best]))
        return scores

    def choose_thresholds(self, logits: Float[Tensor, "n c"], truth: Tensor) -> str:
        """Choose the threshold of each class by its F1, if that is better than with 0.5."""
        p, right = logits.double().sigmoid().numpy(), truth.bool().numpy()
        self.reset_thresholds()
        before, after, rare = [], [], 0
        for name, of_name, has in zip(self.names, p.T, right.T, strict=True):
            likely = of_name > 0.5
            f1 = 2 * (likely & has).sum() / max(1, likely.sum() + has.sum())
            threshold, best = best_threshold(of_name, has)
            enough = RARE <= has.sum() <= len(has) - RARE
            rare += not enough
            if enough and best > f1:
                self.thresholds[name] = threshold
            before.append(f1)
            after.append(best if enough else f1)
        chosen = sum(threshold != 0.5 for threshold in self.thresholds.values())
        few = f"; too few validation examples for {rare} of them" if rare else ""
        return (
            f"thresholds of {chosen} of {self.outputs} labels were chosen on validation data, "
            f"where macro F1 is {percent(float(np.mean(after)), 1)} (with 0.5 for all: "
            f"{percent(float(np.mean(before)), 1)}){few}"
        )

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
        """Return precision, recall and threshold of each class."""
        truths = [item.references[0] for item in items]
        rows = score_table(self.class_scores([answer.text for answer in answers], truths))
        return {
            "Precision and recall": [
                {**row, "threshold": self.thresholds[str(row["label"])]} for row in rows
            ]
        }

    def class_scores(self, answers: Sequence[str], truths: Sequence[str]) -> list[ClassScores]:
        """Return precision, recall, F1 and support of each class."""
        predicted = [set(self.split(answer)) for answer in answers]
        return class_scores(predicted, [set(self.split(truth)) for truth in truths], self.names)

    def reset_thresholds(self) -> None:
        """Predict every class with a probability above one half."""
        self.thresholds = dict.fromkeys(self.names, 0.5)

    def facts(self) -> dict[str, object]:
        """Return the names of the classes, the separator, and thresholds if they were chosen."""
        facts: dict[str, object] = {"kind": self.kind, "names": list(self.names)}
        facts["separator"] = self.separator
        chosen = any(threshold != 0.5 for threshold in self.thresholds.values())
        return {**facts, "thresholds": self.thresholds} if chosen else facts

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

    def loss(
        self,
        logits: Float[Tensor, "b c"],
        truth: Tensor,
        smoothing: float = 0.0,
        *,
        gamma: float = 0.0,
        weights: Float[Tensor, "... c"] | None = None,
    ) -> Tensor:
        """Return the squared error, in units of the spread of the training data."""
        return ((logits[:, 0] - (truth - self.mean) / self.scale) ** 2).sum()

    def distance(self, one: Float[Tensor, "b c"], other: Float[Tensor, "b c"]) -> Tensor:
        """Return the squared difference."""
        return ((one - other) ** 2).sum()

    def answer(self, logits: Float[Tensor, "w c"], temperature: float) -> Classification:
        """Return the number, with four digits after the point."""
        value = float(logits.double().mean()) * self.scale + self.mean
        return Classification(f"{value:.4f}", 0.0)

    def label_scores(self, probabilities: Mapping[str, float], label: str) -> list[TokenScore]:
        """Raise `DecodingError`, as numbers have no probability."""
        raise DecodingError(
            "this model predicts a number, which has no probability, so other numbers cannot be "
            "scored; compare them with the prediction itself"
        )

    def calibrate(self, logits: Float[Tensor, "n c"], truth: Tensor) -> None:
        """Return None, as there are no probabilities."""

    def weights(
        self, option: Literal["none", "balanced"] | Mapping[str, float], counts: LabelCounts
    ) -> None:
        """Raise `RecipeError` if there are weights, as numbers have no classes."""
        if option != "none":
            raise RecipeError(
                "loss.class_weights needs classes, and these labels are numbers; leave it out, or "
                "set labels.kind=one if each number is the name of a class"
            )

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
                    "input": item.shown,
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

    Classes of the validation set are known as well. The scale of a number is that of the training
    set alone.

    Raises:
        DataError: There are no labels, or too few or too many classes.
    """
    first: dict[str, Row] = {}
    counts: Counter[str] = Counter()
    for split in (train, *train.companions):
        for row in split:
            label = row.values[-1].strip()
            first.setdefault(label, row)
            counts[label] += split is train
    if config.kind == "several":
        names = {name for label in first for name in split_labels(label, config.separator)}
        if not names:
            raise DataError(
                f"{train.name}: no row has a label; name the column: --columns label=NAME"
            )
        return Several(_sorted(names), config.separator)
    first.pop("", None)
    if config.kind == "auto":
        _require_no_decimal_commas(first)
    if config.kind == "number" or (config.kind == "auto" and are_numbers(first)):
        values = {label: _number(label, row.where) for label, row in first.items()}
        numbers = np.repeat(list(values.values()), [counts[label] for label in values])
        return Number(float(numbers.mean()), float(numbers.std()) or 1.0)
    if len(first) < 2:
        only = ", ".join(map(repr, first)) or "none"
        raise DataError(
            f"a classifier needs at least two different labels; {train.name} has {only}. Add rows "
            "of other classes, or name the column of the labels: --columns label=NAME"
        )
    if len(first) > MOST:
        raise DataError(
            f"{train.name} has {len(first):,} different labels, and a classifier can have "
            f"{MOST:,}; name the right column with --columns label=NAME, or for numbers set "
            "labels.kind=number"
        )
    return Classes(_sorted(first))


def count_labels(train: Split, labels: Labels) -> LabelCounts:
    """Return how many rows of training data have each class; of numbers, none is counted."""
    texts = [row.values[-1] for row in train] if labels.names else []
    if isinstance(labels, Several):
        return LabelCounts(
            len(texts), Counter(x for text in texts for x in set(labels.split(text)))
        )
    counts = Counter(name for text in texts if (name := text.strip()))
    return LabelCounts(counts.total(), counts)


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
                return Several(_names(facts), facts["separator"], _thresholds(facts))
            case "number":
                mean, scale = float(facts["mean"]), float(facts["scale"])
                if not math.isfinite(mean) or not 0 < scale < math.inf:
                    raise ValueError("mean must be a finite number, scale one above 0")
                return Number(mean, scale)
            case kind:
                raise ValueError(f"{kind!r:.80} is not a valid kind of labels")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise RunError(
            f"{path} cannot be read: {type(error).__name__}: {brief(error)}. Restore it from a copy"
        ) from None


def _names(facts: Mapping[str, object]) -> list[str]:
    names = facts["names"]
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise ValueError("names must be a list of texts")
    if len(set(names)) < len(names):
        raise ValueError("names must be different")
    return names


def _require_no_decimal_commas(labels: Mapping[str, Row]) -> None:
    """Raise if all labels are numbers, and some have a decimal comma."""
    commas = [label for label in labels if DECIMAL_COMMA.fullmatch(label)]
    if commas and are_numbers([label.replace(",", ".") for label in labels] + ["0.5"]):
        raise DataError(
            f"{labels[commas[0]].where}: the label {commas[0]!r} has a decimal comma; a number has "
            "a point. Write 3.5 instead of 3,5, or add --set labels.kind=one if these are classes"
        )


def _thresholds(facts: Mapping[str, Any]) -> dict[str, float]:
    thresholds = {str(name): float(x) for name, x in facts.get("thresholds", {}).items()}
    if not all(0 <= threshold <= 1 for threshold in thresholds.values()):
        raise ValueError("thresholds must be from 0 to 1")
    return thresholds


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        comma = DECIMAL_COMMA.fullmatch(text.strip())
        advice = "; write a decimal point, as in 3.5" if comma else "; correct or remove the row"
        message = f"{where}: the label must be a number, got {text[:40]!r}{advice}"
        raise DataError(message) from None
    if not math.isfinite(value):
        raise DataError(
            f"{where}: the label must be a finite number, got {text.strip()}; correct or remove "
            "the row"
        )
    return value


def _known(name: str, number: Mapping[str, int], where: str) -> int:
    if name not in number:
        raise DataError(
            f"{where}: the label {name[:40]!r} was not in the training data: "
            f"{named(list(number))}. Correct or remove the row, or train a new run with this label"
        )
    return number[name]


def named(names: Sequence[str]) -> str:
    """Return the first names of labels, for a message."""
    return ", ".join(names[:SHOWN]) + (" …" if len(names) > SHOWN else "")


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


def percent(fraction: float, digits: int = 0) -> str:
    """Return a fraction in per cent, never rounded to 0 or 100 if it is neither.

    >>> percent(0.97), percent(0.9999), percent(0.0001), percent(1.0), percent(0.125, 1)
    ('97 %', '> 99 %', '< 1 %', '100 %', '12.5 %')
    """
    if 0 < fraction < 1 and not digits:
        if fraction > 0.99:
            return "> 99 %"
        if fraction < 0.01:
            return "< 1 %"
    return f"{100 * fraction:.{digits}f} %"


def majority(name: str, count: int, total: int) -> str:
    """Return the beginning of a remark about a class that makes accuracy meaningless."""
    fraction = percent(count / total, 1)
    return (
        f"{fraction} of the labels are {name!r}, so accuracy says little: always predicting "
        f"{name!r} reaches {fraction}"
    )


def score_table(scores: Sequence[ClassScores]) -> list[dict[str, object]]:
    """Return the scores of each class as rows for people; of very many, the first ones."""
    return [
        {
            "label": row.label,
            "precision": percent(row.precision, 1),
            "recall": percent(row.recall, 1),
            "F1": percent(row.f1, 1),
            "support": row.support,
        }
        for row in scores[:LISTED]
    ]


def calibration_sentence(calibration: Calibration) -> str:
    """Return a sentence about a temperature: its effect, and whether it is applied."""
    effect = (
        f"on held-out folds of {calibration.labels:,} validation labels, the expected calibration "
        f"error goes from {percent(calibration.error_before, 1)} to "
        f"{percent(calibration.error_after, 1)}, and the negative log-likelihood from "
        f"{calibration.loss_before:.4g} to {calibration.loss_after:.4g}"
    )
    if calibration.applied:
        return f"logits are divided by a temperature of {calibration.fitted:.3g}: {effect}"
    return f"no temperature is applied, since {calibration.fitted:.3g} would be worse: {effect}"
