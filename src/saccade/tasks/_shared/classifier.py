"""What tasks that label their inputs share: how answers are measured, and probabilities mended."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from saccade.config import Fraction
from saccade.data.corpus import Item, Split
from saccade.data.sources.columns import Column
from saccade.data.store.cache import Encoded
from saccade.errors import RunError, brief
from saccade.files import read_json
from saccade.metrics import ClassificationMetricsConfig, by_length
from saccade.metrics.score import scores_of
from saccade.shapes import Float, Tensor
from saccade.tasks._shared.answering import OnBatch
from saccade.tasks._shared.base import Evaluation, Task, likelihood
from saccade.tasks._shared.labels import LABELS_FILE, Labels, Number

LABEL = Column("label", ("labels", "class", "category", "target", "score"), numbers=True)
CLASSIFIER_FILE = "classifier.json"
"""The temperature of its probabilities, and what else a task must remember."""
ENOUGH = 100
"""Validation examples by which probabilities can be calibrated."""
Rows = Sequence[int] | npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class LabelLossConfig:
    """What is learned from.

    label_smoothing   the share of the truth that is given to all classes alike
    """

    label_smoothing: Fraction = 0.0


class Classifier(Task):
    """A task that labels its inputs.

    `temperature` divides the logits before they become probabilities; it is found on validation
    data when training ends, so that probabilities mean something (Guo et al. 2017).
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
        """Refuse data of another kind than what was trained on."""

    @abstractmethod
    def logits_of(self, examples: Encoded) -> Float[Tensor, "n c"]:
        """The logits of all examples."""

    def items(self, split: Split) -> Iterator[Item]:
        """A row is a question, also where another asks the same."""
        self.check(split)
        for row in split:
            self.labels.encode(row.values[-1], row.where)
            yield Item(row.values[:-1], row.values[-1:], row.line)

    def lengths(self, items: Sequence[Item]) -> list[str]:
        """The texts by whose length quality is told, if it is."""
        return []

    def evaluate(
        self,
        items: Iterable[Item],
        *,
        quick: bool = False,
        on_batch: OnBatch | None = None,
        batch_size: int = 64,
        **options: Any,
    ) -> Evaluation:
        """Label the items and compare with their labels."""
        items, metrics = list(items), self.metrics
        examples = self.prepare([self.input_of(item) for item in items], **options)
        if quick:
            metrics = replace(metrics, samples=0)
        else:
            self.warn(examples)
        found = self.answer_all(examples, batch_size=batch_size, on_batch=on_batch)
        answers, truths = [x.text for x in found], [item.references[0] for item in items]
        tallies = self.labels.tally(answers, truths, metrics)
        texts = [] if quick else self.lengths(items)
        lengths = by_length(tallies, texts) if texts else []
        if (sureness := self.labels.sureness(found, truths)) is not None:
            tallies[sureness.name] = sureness
        return Evaluation(
            scores_of(tallies, metrics.samples, metrics.seed),
            answers,
            items,
            lengths,
            self.labels.tables(items, found),
        )

    def finish(self, examples: Encoded) -> str:
        """Find the temperature at which the probabilities of validation data are right."""
        return self.calibrate(examples)

    def calibrate(self, examples: Encoded) -> str:
        """Fit the temperature to validation examples and return a sentence about it."""
        count = len(examples)
        if count < ENOUGH:
            return (
                f"probabilities are left as they are: {count} validation {self.unit} are too few "
                f"to calibrate them by, {ENOUGH} would do"
            )
        truth = self.truth(examples, np.arange(count))
        self.temperature, said = self.labels.calibrate(self.logits_of(examples), truth)
        return said

    def probability(self, given: Any, output: str) -> float | None:
        """Return the probability of a label for an input; None for a number."""
        return None if isinstance(self.labels, Number) else likelihood(self, given, output)

    def truth(self, examples: Encoded, rows: Rows) -> Tensor:
        """The labels of these examples, whose last field they are."""
        return self.labels.decode([examples.fields[-1][int(row)] for row in rows])

    def forced(self, outputs: Sequence[str]) -> Tensor:
        """These labels, as a batch has them."""
        return self.labels.decode(
            [np.array(self.labels.encode(label, "the output")) for label in outputs]
        )

    def about(self, more: Mapping[str, Any]) -> dict[str, str]:
        """The files of the labels, and of the temperature with what else must be remembered."""
        facts = {**more, "temperature": self.temperature}
        return {
            LABELS_FILE: json.dumps(self.labels.facts(), indent=1, ensure_ascii=False),
            CLASSIFIER_FILE: json.dumps(facts, indent=1),
        }


def read_about(folder: Path) -> dict[str, Any]:
    """Return the facts about a classifier in a run folder: at least the temperature."""
    path = folder / CLASSIFIER_FILE
    try:
        facts = read_json(path)
        temperature = float(facts["temperature"])
        if not 0 < temperature < math.inf:
            raise ValueError(f"temperature must be a number above 0, got {temperature}")
        return {"pairs": False, **facts, "temperature": temperature}
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise RunError(f"{path} cannot be read: {type(error).__name__}: {brief(error)}") from None
