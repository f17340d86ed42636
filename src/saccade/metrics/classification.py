"""Metrics of classification: fractions, except matthews, which is from -1 to 1.

    accuracy            items with the right label; of several labels, with exactly the right set
    balanced_accuracy   mean of the recall of each label that occurs in the references
    f1                  2 · right predictions / (predictions + references) of one label
    macro_f1            mean of f1 over the labels that occur in the predictions or the references
    micro_f1            f1 of the counts of all labels together
    matthews            correlation of predictions and references, of two labels or more (Gorodkin
                        2004, "Comparing two K-category assignments by a K-category correlation
                        coefficient")

An item has one label (a text) or several (a set of texts, which may be empty). `labels` are all
possible labels, in the order of the model. A label that does not occur is left out of macro_f1;
scikit-learn counts it as 0 for items with several labels. Undefined values are 0: f1 where a label
is neither predicted nor right, matthews where all predictions or all references are equal. With one
label per item, micro_f1 equals the accuracy.

`class_scores` returns precision, recall and F1 of each label, and `best_threshold` the probability
above which a label is predicted with the largest F1.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Float, Int

from saccade.config import Conflict, without_effect
from saccade.errors import MetricError
from saccade.metrics.resample import SAMPLES, SEED
from saccade.metrics.score import (
    Tally,
    Value,
    ratio,
    require_names,
    require_resampling,
    require_same_length,
    scored,
    signature_of,
)

ClassificationMetric = Literal[
    "accuracy", "balanced_accuracy", "macro_f1", "micro_f1", "f1", "matthews"
]
ONE_LABEL: tuple[ClassificationMetric, ...] = ("balanced_accuracy", "matthews")
"""Metrics of items with exactly one label."""
Labelled = Sequence[str] | Sequence[Collection[str]]
_SHOWN = 12  # labels in a message
_Indices = frozenset[int]


def accuracy_tally(predictions: Labelled, references: Labelled, labels: Sequence[str]) -> Tally:
    """The fraction of items whose labels are exactly the right ones.

    Args:
        predictions: One label, or one set of labels, per item.
        references: The right label or set of labels of each item.
        labels: All possible labels.
    """
    pairs = _indices(predictions, references, labels)
    counts = [(float(given == right), 1.0) for given, right in pairs]
    return _tally("accuracy", np.array(counts), ratio, predictions, labels)


def balanced_accuracy_tally(
    predictions: Sequence[str], references: Sequence[str], labels: Sequence[str]
) -> Tally:
    """The mean recall of the labels that occur in the references.

    Predicting always the same label has 1 / labels, however frequent that label is.

    Args:
        predictions: One label per item.
        references: The right label of each item.
        labels: All possible labels.
    """
    given, right = _classes(predictions, references, labels)
    items = np.arange(len(given))
    counts = np.zeros((len(given), 2, len(labels)))
    counts[items, 0, right] = given == right
    counts[items, 1, right] = 1
    return _tally("balanced_accuracy", counts.reshape(len(given), -1), _mean, predictions, labels)


def f1_tally(
    predictions: Labelled,
    references: Labelled,
    labels: Sequence[str],
    *,
    positive: str | None = None,
) -> Tally:
    """The F1 score of one label: 2 TP / (2 TP + FP + FN).

    Args:
        predictions: One label, or one set of labels, per item.
        references: The right label or set of labels of each item.
        labels: All possible labels.
        positive: The label to score; by default the second of two.

    Raises:
        MetricError: `positive` is not one of the labels, or is missing where there are not two.
    """
    positive = _positive(labels, positive)
    column = list(labels).index(positive)
    counts = []
    for given, right in _indices(predictions, references, labels):
        has_label = column in given, column in right
        counts.append((2.0 * all(has_label), float(sum(has_label))))
    return _tally("f1", np.array(counts), ratio, predictions, labels, f"|positive:{positive}")


def micro_f1_tally(predictions: Labelled, references: Labelled, labels: Sequence[str]) -> Tally:
    """The F1 score of the counts of all labels together: 2 Σ TP / Σ (2 TP + FP + FN).

    Args:
        predictions: One label, or one set of labels, per item.
        references: The right label or set of labels of each item.
        labels: All possible labels.
    """
    pairs = _indices(predictions, references, labels)
    counts = [(2.0 * len(given & right), float(len(given) + len(right))) for given, right in pairs]
    return _tally("micro_f1", np.array(counts), ratio, predictions, labels)


def macro_f1_tally(predictions: Labelled, references: Labelled, labels: Sequence[str]) -> Tally:
    """The mean of the F1 scores of all labels that occur.

    Args:
        predictions: One label, or one set of labels, per item.
        references: The right label or set of labels of each item.
        labels: All possible labels.
    """
    pairs = _indices(predictions, references, labels)
    counts = np.zeros((len(pairs), 2, len(labels)))
    for of_item, (given, right) in zip(counts, pairs, strict=True):
        of_item[0, list(given & right)] = 2
        of_item[1, list(given)] += 1
        of_item[1, list(right)] += 1
    return _tally("macro_f1", counts.reshape(len(pairs), -1), _mean, predictions, labels)


def matthews_tally(
    predictions: Sequence[str], references: Sequence[str], labels: Sequence[str]
) -> Tally:
    """The Matthews correlation coefficient for two labels or more (Gorodkin 2004), -1 to 1.

        R_K = (s c - Σ p_k t_k) / (√(s² - Σ p_k²) √(s² - Σ t_k²))

    with s items, c right ones, and p_k predictions and t_k references of label k.

    Args:
        predictions: One label per item.
        references: The right label of each item.
        labels: All possible labels.
    """
    given, right = _classes(predictions, references, labels)
    items = np.arange(len(given))
    counts = np.zeros((len(given), 1 + 2 * len(labels)))
    counts[:, 0] = given == right
    counts[items, 1 + given] = 1
    counts[items, 1 + len(labels) + right] = 1
    return _tally("matthews", counts, _correlation, predictions, labels)


accuracy = scored(accuracy_tally)
balanced_accuracy = scored(balanced_accuracy_tally)
f1 = scored(f1_tally)
micro_f1 = scored(micro_f1_tally)
macro_f1 = scored(macro_f1_tally)
matthews = scored(matthews_tally)


def confusion(
    predictions: Sequence[str], references: Sequence[str], labels: Sequence[str]
) -> Int[np.ndarray, "right predicted"]:
    """Return the confusion matrix.

    Args:
        predictions: One label per item.
        references: The right label of each item.
        labels: All possible labels.

    Returns:
        The number of items of each right label (rows) with each predicted label (columns).
    """
    given, right = _classes(predictions, references, labels)
    table = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(table, (right, given), 1)
    return table


class ClassScores(NamedTuple):
    """How well one label is predicted.

    Attributes:
        label: The label.
        precision: The fraction of its predictions that are right; 0 if there are none.
        recall: The fraction of its items for which it is predicted; 0 if there are none.
        f1: The harmonic mean of both.
        support: The number of items that have the label.
    """

    label: str
    precision: float
    recall: float
    f1: float
    support: int


def class_scores(
    predictions: Labelled, references: Labelled, labels: Sequence[str]
) -> list[ClassScores]:
    """Return precision, recall, F1 and support of each label.

    Args:
        predictions: One label, or one set of labels, per item.
        references: The right label or set of labels of each item.
        labels: All possible labels.
    """
    both, predicted, right = np.zeros((3, len(labels)), dtype=np.int64)
    for given, expected in _indices(predictions, references, labels):
        both[list(given & expected)] += 1
        predicted[list(given)] += 1
        right[list(expected)] += 1
    precision, recall = both / np.maximum(predicted, 1), both / np.maximum(right, 1)
    f1 = 2 * both / np.maximum(predicted + right, 1)
    columns = (precision.tolist(), recall.tolist(), f1.tolist(), right.tolist())
    return [ClassScores(*row) for row in zip(labels, *columns, strict=True)]


def best_threshold(
    probabilities: Float[np.ndarray, " items"], right: Bool[np.ndarray, " items"]
) -> tuple[float, float]:
    """Return the threshold with the largest F1 of `probability > threshold`, and that F1.

    Ties go to the threshold nearest to 0.5. Thresholds are midpoints of neighbouring probabilities.

    Args:
        probabilities: The probability of a label for each item.
        right: True for the items that have the label.
    """
    require_same_length(probabilities=len(probabilities), labels=len(right))
    order = np.argsort(-probabilities, kind="stable")
    descending, hits = probabilities[order], np.cumsum(right[order])
    f1 = 2 * hits / (np.arange(1, len(order) + 1) + max(1, int(right.sum())))
    thresholds = (descending + np.append(descending[1:], 0.0)) / 2
    differs = np.append(descending[1:] < descending[:-1], values=True)  # equal ones go together
    candidates = np.flatnonzero(differs & (f1 == f1[differs].max()))
    best = candidates[np.abs(thresholds[candidates] - 0.5).argmin()]
    return float(thresholds[best]), float(f1[best])


@dataclass(frozen=True, kw_only=True)
class ClassificationMetricsConfig:
    """The metrics of classification.

    names      metrics to report; the first selects the best weights
    positive   label that f1 scores; by default the second of two labels
    samples    number of resamples per confidence interval; 0 leaves the intervals out
    seed       seed of the resamples
    """

    names: tuple[ClassificationMetric, ...] = ("accuracy", "macro_f1")
    positive: str | None = None
    samples: int = SAMPLES
    seed: int = SEED

    def __post_init__(self) -> None:
        require_names(self.names, get_args(ClassificationMetric))
        require_resampling(self.samples, self.seed)

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the label of f1 if f1 is not reported."""
        if "f1" not in self.names:
            yield from without_effect(self, ["positive"], 'unless names contains "f1"')

    def check(self, labels: Sequence[str]) -> None:
        """Raise if a metric cannot be computed where each item has one of these labels."""
        _numbers(labels)
        if "f1" in self.names:
            _positive(labels, self.positive)

    def check_several(self, labels: Sequence[str]) -> None:
        """Raise if a metric cannot be computed where an item may have several of these labels."""
        for name in ONE_LABEL:
            if name in self.names:
                raise MetricError(
                    f"{name} needs one label per item, and these items may have several; remove it "
                    "from names (macro_f1 and micro_f1 allow several)"
                )
        if "f1" in self.names and self.positive is None:
            raise MetricError(
                "f1 scores one label, and items with several labels have no default; choose it "
                f"with positive ({_listed(labels)}), or use macro_f1 for the mean of all"
            )
        self.check(labels)

    def tally(
        self, predictions: Sequence[str], references: Sequence[str], labels: Sequence[str]
    ) -> dict[str, Tally]:
        """Return the tally of each metric, for items with one label."""
        self.check(labels)
        tallies = self._tallies() | {
            "balanced_accuracy": balanced_accuracy_tally,
            "matthews": matthews_tally,
        }
        return {name: tallies[name](predictions, references, labels) for name in self.names}

    def tally_several(
        self,
        predictions: Sequence[Collection[str]],
        references: Sequence[Collection[str]],
        labels: Sequence[str],
    ) -> dict[str, Tally]:
        """Return the tally of each metric, for items with a set of labels."""
        self.check_several(labels)
        tallies = self._tallies()
        return {name: tallies[name](predictions, references, labels) for name in self.names}

    def _tallies(self) -> dict[str, Callable[..., Tally]]:
        return {
            "accuracy": accuracy_tally,
            "macro_f1": macro_f1_tally,
            "micro_f1": micro_f1_tally,
            "f1": partial(f1_tally, positive=self.positive),
        }


def _tally(
    name: str,
    counts: Float[np.ndarray, "items numbers"],
    value: Value,
    predictions: Labelled,
    labels: Sequence[str],
    option: str = "",
) -> Tally:
    per_item = "one" if all(isinstance(labelled, str) for labelled in predictions) else "several"
    signature = signature_of(f"classes:{len(labels)}|labels:{per_item}{option}")
    return Tally(name=name, counts=counts, value=value, signature=signature)


def _mean(sums: Float[np.ndarray, " numbers"]) -> float:
    """Compute the mean of the ratios of the labels that occur."""
    right, total = sums.reshape(2, -1)
    occurs = total > 0
    return float((right[occurs] / total[occurs]).mean()) if occurs.any() else 0.0


def _correlation(sums: Float[np.ndarray, " numbers"]) -> float:
    """Compute R_K from the sums per label: it needs no more of the confusion matrix."""
    right, (p, t) = sums[0], sums[1:].reshape(2, -1)
    items = p.sum()
    spread = math.sqrt(items**2 - p @ p) * math.sqrt(items**2 - t @ t)
    return float((items * right - p @ t) / spread) if spread else 0.0


def _indices(
    predictions: Labelled, references: Labelled, labels: Sequence[str]
) -> list[tuple[_Indices, _Indices]]:
    """Return the indices in `labels` of the predicted and of the right labels of each item."""
    require_same_length(predictions=len(predictions), references=len(references))
    number = _numbers(labels)

    def places(what: str, items: Labelled) -> list[_Indices]:
        return [
            frozenset(
                _known(number, label, what, i)
                for label in ((item,) if isinstance(item, str) else item)
            )
            for i, item in enumerate(items)
        ]

    return list(
        zip(places("prediction", predictions), places("reference", references), strict=True)
    )


def _classes(
    predictions: Sequence[str], references: Sequence[str], labels: Sequence[str]
) -> tuple[Int[np.ndarray, " items"], Int[np.ndarray, " items"]]:
    """Return the index in `labels` of the predicted and of the right label of each item."""
    require_same_length(predictions=len(predictions), references=len(references))
    number = _numbers(labels)
    given = [_known(number, label, "prediction", i) for i, label in enumerate(predictions)]
    right = [_known(number, label, "reference", i) for i, label in enumerate(references)]
    return np.array(given, dtype=np.int64), np.array(right, dtype=np.int64)


def _numbers(labels: Sequence[str]) -> Mapping[str, int]:
    number = {label: i for i, label in enumerate(labels)}
    if not labels or len(number) < len(labels):
        raise MetricError(f"labels must be distinct, at least 1; got {_listed(labels) or 'none'}")
    return number


def _known(number: Mapping[str, int], label: str, what: str, item: int) -> int:
    if label not in number:
        raise MetricError(
            f"the {what} of item {item} has the label {label!r}, which is not one of the "
            f"{len(number)} labels ({_listed(list(number))}); correct it, or add it to labels"
        )
    return number[label]


def _positive(labels: Sequence[str], positive: str | None) -> str:
    """Return the label that f1 scores."""
    if positive is None and len(labels) == 2:
        return labels[1]
    if positive is None:
        raise MetricError(
            f"f1 scores one label, by default the second of two, and there are {len(labels)} "
            f"({_listed(labels)}); choose one with positive, or use macro_f1 for the mean of all"
        )
    if positive not in labels:
        raise MetricError(
            f"positive must be one of the labels ({_listed(labels)}); got {positive!r}"
        )
    return positive


def _listed(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
    return ", ".join(map(repr, labels[:_SHOWN])) + more
