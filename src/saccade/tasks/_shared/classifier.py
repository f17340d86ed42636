"""Tasks that label their inputs: the metrics of labels, and calibrated probabilities."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from saccade.config import Fraction
from saccade.data.corpus import Item, Split
from saccade.data.sources.columns import Column
from saccade.data.store.cache import Encoded
from saccade.errors import RunError, brief
from saccade.files import read_json
from saccade.metrics import ClassificationMetricsConfig
from saccade.shapes import Float, Tensor
from saccade.tasks._shared.answering import TaskInput
from saccade.tasks._shared.base import Rows, Task, likelihood
from saccade.tasks._shared.baselines import BaselineMethod
from saccade.tasks._shared.evaluation import Evaluation, evaluation_of
from saccade.tasks._shared.label_baselines import Features, label_baselines
from saccade.tasks._shared.labels import LABELS_FILE, Classification, Labels, Number

LABEL = Column("label", ("labels", "class", "category", "target", "score"), numbers=True)
CLASSIFIER_FILE = "classifier.json"
"""The file of a run folder with the temperature, and other facts about a classifier."""
ENOUGH = 100
"""The minimum number of validation examples for calibration."""


@dataclass(frozen=True, kw_only=True)
class LabelLossConfig:
    """The loss of labels.

    label_smoothing   fraction of the true distribution that is spread evenly over all classes; a
                      little, such as 0.1, makes a classifier less overconfident
    """

    label_smoothing: Fraction = 0.0


class Classifier(Task):
    """A task that labels its inputs.

    Attributes:
        labels: The labels.
        metrics: The metrics of evaluations.
        temperature: The divisor of the logits before they become probabilities; it is fitted to
            validation data after training, so that probabilities can be trusted (Guo et al. 2017).
    """

    reinitialised = ("head.",)

    def __init__(
        self, labels: Labels, metrics: ClassificationMetricsConfig, temperature: float
    ) -> None:
        super().__init__()
        self.labels, self.metrics, self.temperature = labels, metrics, temperature
        self.selection_metric = labels.selection_metric(metrics)
        labels.check(metrics)

    @abstractmethod
    def check(self, split: Split) -> None:
        """Raise if data has other columns than the data of training."""

    @abstractmethod
    def logits_of(self, examples: Encoded) -> Float[Tensor, "n c"]:
        """Return the logits of all examples."""

    def features(self) -> Features | None:
        """Return the features of inputs that a linear model reads as a baseline; None for none."""
        return None

    def baselines(self, train: Split) -> Iterator[BaselineMethod]:
        """Yield the most frequent label or the mean, and a linear model."""

        def measure(items: list[Item], answers: list[Classification]) -> Evaluation:
            return self.measure(items, answers, quick=False)

        return label_baselines(self.labels, train, measure, self.features())

    def items(self, split: Split) -> Iterator[Item]:
        """Yield one item per row, also if several rows have the same input."""
        self.check(split)
        for row in split:
            self.labels.encode(row.values[-1], row.where)
            yield Item(row.values[:-1], row.values[-1:], row.line)

    def lengths(self, items: Sequence[Item]) -> list[str]:
        """Return the texts by whose length metrics are grouped; none if they are not."""
        return []

    def measure(
        self, items: list[Item], answers: Sequence[Classification], *, quick: bool
    ) -> Evaluation:
        """Return the metrics of the labels against those of the items."""
        texts, truths = [x.text for x in answers], [item.references[0] for item in items]
        calibration = self.labels.calibration(answers, truths)
        return evaluation_of(
            items,
            texts,
            self.labels.tally(texts, truths, self.metrics),
            self.metrics,
            quick=quick,
            texts=self.lengths(items),
            without_lengths=None if calibration is None else {calibration.name: calibration},
            tables=self.labels.tables(items, answers),
        )

    def finish(self, examples: Encoded) -> str:
        """Calibrate the probabilities."""
        return self.calibrate(examples)

    def calibrate(self, examples: Encoded) -> str:
        """Fit the temperature to validation examples and return a sentence about it."""
        count = len(examples)
        if count < ENOUGH:
            return (
                f"probabilities are not calibrated: that needs {ENOUGH} validation {self.unit}, "
                f"and there are {count}"
            )
        truth = self.truth(examples, np.arange(count))
        self.temperature, summary = self.labels.calibrate(self.logits_of(examples), truth)
        return summary

    def probability(self, given: TaskInput, output: str) -> float | None:
        """Return the probability of a label for an input; None for a number."""
        return None if isinstance(self.labels, Number) else likelihood(self, given, output)

    def truth(self, examples: Encoded, rows: Rows) -> Tensor:
        """Return the labels of these examples, which are their last field."""
        return self.labels.decode([examples.fields[-1][int(row)] for row in rows])

    def forced(self, outputs: Sequence[str]) -> Tensor:
        """Return labels as a batch has them."""
        return self.labels.decode(
            [np.array(self.labels.encode(label, "the output")) for label in outputs]
        )

    def about(self, **facts: object) -> dict[str, str]:
        """Return the files of the labels, and of the temperature with other facts."""
        facts["temperature"] = self.temperature
        return {
            LABELS_FILE: json.dumps(self.labels.facts(), indent=1, ensure_ascii=False),
            CLASSIFIER_FILE: json.dumps(facts, indent=1),
        }


class AboutClassifier(NamedTuple):
    """The facts about a classifier in a run folder."""

    temperature: float
    pairs: bool


def read_about(folder: Path) -> AboutClassifier:
    """Return the facts about a classifier in a run folder."""
    path = folder / CLASSIFIER_FILE
    try:
        facts = read_json(path)
        temperature = float(facts["temperature"])
        if not 0 < temperature < math.inf:
            raise ValueError(f"temperature must be a number above 0, got {temperature}")
        return AboutClassifier(temperature, bool(facts.get("pairs", False)))
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise RunError(f"{path} cannot be read: {type(error).__name__}: {brief(error)}") from None
