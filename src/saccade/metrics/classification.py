"""Metrics of classification: fractions, but for matthews, which runs from -1 to 1.

    accuracy   items answered with the right label; of several labels, with all of them and no other
    f1         2 · right answers / (answers + references) of one label
    macro_f1   the mean of f1 over the labels that occur in the answers or the references
    micro_f1   the same as f1, of the counts of all labels together
    matthews   the correlation of answers and references, of two labels or more (Gorodkin 2004,
               "Comparing two K-category assignments by a K-category correlation coefficient")

An item has one label (a text) or several (a set of texts, which may be empty). `labels` are all
that there are, in the order of the model. A label that occurs nowhere is left out of macro_f1, also
of items with several labels, where scikit-learn counts it as 0. What is undefined is 0: f1 where
nothing is answered nor right, matthews where all answers or all references are the same. With one
label an item micro_f1 is the accuracy.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Int

from saccade.config import Conflict, without_effect
from saccade.errors import MetricError
from saccade.metrics.resample import SAMPLES, SEED
from saccade.metrics.score import (
    Tally,
    ratio,
    require_as_many,
    require_names,
    require_resampling,
    scored,
    signature_of,
)

ClassificationMetric = Literal["accuracy", "macro_f1", "micro_f1", "f1", "matthews"]
Labelled = Sequence[str] | Sequence[Collection[str]]
_SHOWN = 12  # labels in a message
_Columns = frozenset[int]


def accuracy_tally(answers: Labelled, references: Labelled, labels: Sequence[str]) -> Tally:
    """1 for each item whose labels are the right ones."""
    pairs = _columns(answers, references, labels)
    counts = [(float(given == right), 1.0) for given, right in pairs]
    return _tally("accuracy", np.array(counts), ratio, answers, labels)


def f1_tally(
    answers: Labelled, references: Labelled, labels: Sequence[str], *, positive: str | None = None
) -> Tally:
    """Of the label `positive`, by default the second of two: right answers, and all with it."""
    positive = _positive(labels, positive)
    column = list(labels).index(positive)
    counts = []
    for given, right in _columns(answers, references, labels):
        of_item = column in given, column in right
        counts.append((2.0 * all(of_item), float(sum(of_item))))
    return _tally("f1", np.array(counts), ratio, answers, labels, f"|positive:{positive}")


def micro_f1_tally(answers: Labelled, references: Labelled, labels: Sequence[str]) -> Tally:
    """Of all labels together: right answers, and answers and references."""
    pairs = _columns(answers, references, labels)
    counts = [(2.0 * len(given & right), float(len(given) + len(right))) for given, right in pairs]
    return _tally("micro_f1", np.array(counts), ratio, answers, labels)


def macro_f1_tally(answers: Labelled, references: Labelled, labels: Sequence[str]) -> Tally:
    """Of each label: right answers, and answers and references. Two numbers a label."""
    pairs = _columns(answers, references, labels)
    counts = np.zeros((len(pairs), 2, len(labels)))
    for of_item, (given, right) in zip(counts, pairs, strict=True):
        of_item[0, list(given & right)] = 2
        of_item[1, list(given)] += 1
        of_item[1, list(right)] += 1
    return _tally("macro_f1", counts.reshape(len(pairs), -1), _mean_f1, answers, labels)


def matthews_tally(
    answers: Sequence[str], references: Sequence[str], labels: Sequence[str]
) -> Tally:
    """Right items, and of each label its answers and its references. One label an item."""
    given, right = _classes(answers, references, labels)
    items = np.arange(len(given))
    counts = np.zeros((len(given), 1 + 2 * len(labels)))
    counts[:, 0] = given == right
    counts[items, 1 + given] = 1
    counts[items, 1 + len(labels) + right] = 1
    return _tally("matthews", counts, _correlation, answers, labels)


accuracy = scored(accuracy_tally)
f1 = scored(f1_tally)
micro_f1 = scored(micro_f1_tally)
macro_f1 = scored(macro_f1_tally)
matthews = scored(matthews_tally)


def confusion(
    answers: Sequence[str], references: Sequence[str], labels: Sequence[str]
) -> Int[np.ndarray, "right answered"]:
    """How many items of each right label (rows) were answered with each label (columns)."""
    given, right = _classes(answers, references, labels)
    table = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(table, (right, given), 1)
    return table


@dataclass(frozen=True, kw_only=True)
class ClassificationMetricsConfig:
    """Which metrics of classification.

    `positive` is the label of f1; without it f1 is of the second of two labels. `samples` are the
    resamples of each confidence interval; 0 leaves the intervals out.
    """

    names: tuple[ClassificationMetric, ...] = ("accuracy", "macro_f1")
    positive: str | None = None
    samples: int = SAMPLES
    seed: int = SEED

    def __post_init__(self) -> None:
        require_names(self.names, get_args(ClassificationMetric))
        require_resampling(self.samples, self.seed)

    def conflicts(self) -> Iterator[Conflict]:
        """The label of a metric that is not asked for."""
        if "f1" not in self.names:
            yield from without_effect(self, ["positive"], 'unless names contains "f1"')

    def check(self, labels: Sequence[str]) -> None:
        """Refuse names that make no sense where an item has one of these labels."""
        _numbers(labels)
        if "f1" in self.names:
            _positive(labels, self.positive)

    def check_several(self, labels: Sequence[str]) -> None:
        """Refuse names that make no sense where an item has any number of these labels."""
        if "matthews" in self.names:
            raise MetricError(
                "matthews is for one label an item, and these items may have several; take it out "
                "of names (macro_f1 and micro_f1 are for several)"
            )
        if "f1" in self.names and self.positive is None:
            raise MetricError(
                "f1 is of one label, and items with several labels have no second of two; give "
                f"that label as positive ({_listed(labels)}), or take macro_f1 for the mean of all"
            )
        self.check(labels)

    def tally(
        self, answers: Sequence[str], references: Sequence[str], labels: Sequence[str]
    ) -> dict[str, Tally]:
        """What each metric counts for each item of one label."""
        self.check(labels)
        count: Mapping[str, Callable[..., Tally]] = self._counters() | {"matthews": matthews_tally}
        return {name: count[name](answers, references, labels) for name in self.names}

    def tally_several(
        self,
        answers: Sequence[Collection[str]],
        references: Sequence[Collection[str]],
        labels: Sequence[str],
    ) -> dict[str, Tally]:
        """What each metric counts for each item of a set of labels."""
        self.check_several(labels)
        count = self._counters()
        return {name: count[name](answers, references, labels) for name in self.names}

    def _counters(self) -> dict[str, Callable[..., Tally]]:
        return {
            "accuracy": accuracy_tally,
            "macro_f1": macro_f1_tally,
            "micro_f1": micro_f1_tally,
            "f1": partial(f1_tally, positive=self.positive),
        }


def _tally(
    name: str,
    counts: Float[np.ndarray, "items numbers"],
    value: Callable[[Float[np.ndarray, " numbers"]], float],
    answers: Labelled,
    labels: Sequence[str],
    option: str = "",
) -> Tally:
    an_item = "one" if all(isinstance(answer, str) for answer in answers) else "several"
    return Tally(
        name=name,
        counts=counts,
        value=value,
        signature=signature_of(f"classes:{len(labels)}|labels:{an_item}{option}"),
        higher_is_better=True,
    )


def _mean_f1(sums: Float[np.ndarray, " numbers"]) -> float:
    right, bear_it = sums.reshape(2, -1)
    occurs = bear_it > 0
    return float((right[occurs] / bear_it[occurs]).mean()) if occurs.any() else 0.0


def _correlation(sums: Float[np.ndarray, " numbers"]) -> float:
    """Gorodkin's R_K from sums of labels alone: they are all that its confusion matrix is used for.

    R_K = (s c - Σ p_k t_k) / (√(s² - Σ p_k²) √(s² - Σ t_k²)) with s items, c right ones, and
    p_k answers and t_k references of label k.
    """
    right, (given, wanted) = sums[0], sums[1:].reshape(2, -1)
    items = given.sum()
    spread = math.sqrt(items**2 - given @ given) * math.sqrt(items**2 - wanted @ wanted)
    return float((items * right - given @ wanted) / spread) if spread else 0.0


def _columns(
    answers: Labelled, references: Labelled, labels: Sequence[str]
) -> list[tuple[_Columns, _Columns]]:
    """Of each item the places, in `labels`, of its answered and of its right ones."""
    require_as_many(answers=len(answers), references=len(references))
    number = _numbers(labels)

    def places(what: str, items: Labelled) -> list[_Columns]:
        return [
            frozenset(
                _known(number, label, what, i)
                for label in ((item,) if isinstance(item, str) else item)
            )
            for i, item in enumerate(items)
        ]

    return list(zip(places("answer", answers), places("reference", references), strict=True))


def _classes(
    answers: Sequence[str], references: Sequence[str], labels: Sequence[str]
) -> tuple[Int[np.ndarray, " items"], Int[np.ndarray, " items"]]:
    """The place, in `labels`, of the answered label of each item, and of the right one."""
    require_as_many(answers=len(answers), references=len(references))
    number = _numbers(labels)
    given = [_known(number, label, "answer", i) for i, label in enumerate(answers)]
    right = [_known(number, label, "reference", i) for i, label in enumerate(references)]
    return np.array(given, dtype=np.int64), np.array(right, dtype=np.int64)


def _numbers(labels: Sequence[str]) -> Mapping[str, int]:
    number = {label: i for i, label in enumerate(labels)}
    if not labels or len(number) < len(labels):
        raise MetricError(
            f"labels must be different from each other, at least 1; got {_listed(labels) or 'none'}"
        )
    return number


def _known(number: Mapping[str, int], label: str, what: str, item: int) -> int:
    if label not in number:
        raise MetricError(
            f"the {what} of item {item} has the label {label!r}, which is none of the "
            f"{len(number)} known ones ({_listed(list(number))}); mend it, or add it to labels"
        )
    return number[label]


def _positive(labels: Sequence[str], positive: str | None) -> str:
    """The label that f1 is of."""
    if positive is None and len(labels) == 2:
        return labels[1]
    if positive is None:
        raise MetricError(
            f"f1 is of one label, by default the second of two, and there are {len(labels)} "
            f"({_listed(labels)}); give one as positive, or take macro_f1 for the mean of all"
        )
    if positive not in labels:
        raise MetricError(
            f"positive must be one of the labels ({_listed(labels)}); got {positive!r}"
        )
    return positive


def _listed(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
    return ", ".join(map(repr, labels[:_SHOWN])) + more
