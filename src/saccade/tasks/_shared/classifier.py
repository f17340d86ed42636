"""Tasks that label their inputs: loss and metrics of labels, and calibrated probabilities."""

from __future__ import annotations

import copy
import json
import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import nn

from saccade.data.corpus import Item, Split
from saccade.data.sources.columns import Column
from saccade.data.store.cache import Encoded
from saccade.errors import DataError, DecodingError, RecipeError, RunError, brief
from saccade.files import read_json
from saccade.metrics import ClassificationMetricsConfig
from saccade.shapes import Float, Tensor
from saccade.tasks._shared.answering import TaskInput
from saccade.tasks._shared.base import Loss, Rows, Task, likelihood, likelihoods
from saccade.tasks._shared.baselines import BaselineMethod
from saccade.tasks._shared.evaluation import Evaluation, evaluation_of
from saccade.tasks._shared.label_baselines import LinearFeatures, label_baselines
from saccade.tasks._shared.labels import (
    LABELS_FILE,
    MAJORITY,
    Classes,
    Classification,
    LabelCounts,
    LabelLossConfig,
    Labels,
    LabelsConfig,
    Number,
    Several,
    calibration_sentence,
    majority,
    named,
)
from saccade.tasks._shared.scoring import ScoredAnswer, TokenScore, attention_toward

if TYPE_CHECKING:
    from saccade.lens.record import AttentionRecord

LABEL = Column(
    "label",
    (
        *("labels", "class", "category", "target", "score", "sentiment", "intent", "topic"),
        *("emotion", "rating", "stars"),
    ),
    numbers=True,
    label=True,
)
CLASSIFIER_FILE = "classifier.json"
"""The file of a run folder with the temperature, and other facts about a classifier."""
ENOUGH = 100
"""The minimum number of validation examples for calibration."""


@dataclass(frozen=True)
class AboutClassifier:
    """The facts about a classifier in a run folder, beside its labels.

    Attributes:
        temperature: The divisor of the logits.
        pairs: Whether it reads pairs of texts.
        counts: The labels of its training data; None if they are not known.
        calibration: How the temperature was chosen.
    """

    temperature: float = 1.0
    pairs: bool = False
    counts: LabelCounts | None = None
    calibration: Mapping[str, object] = field(default_factory=dict)


NEW = AboutClassifier()
"""The facts about a classifier of which nothing is known yet."""


LabelTaskT = TypeVar("LabelTaskT", bound="LabelTask")


def label_column(config: LabelsConfig) -> Column:
    """Return the column of labels of this kind; numbers are not classes to stratify by."""
    separator = config.separator if config.kind == "several" else ""
    return replace(LABEL, label=config.kind != "number", separator=separator)


class LabelTask(Task):
    """A task whose outputs are labels: their loss, and calibrated probabilities.

    Attributes:
        labels: The labels.
        options: The options of the loss.
        temperature: The divisor of the logits before they become probabilities; it is fitted to
            validation data after training, so that probabilities can be trusted (Guo et al. 2017).
        calibration: How the temperature was chosen, as plain values.
        counts: The labels of the training data; None if they are not known.
        class_weights: The weights of the loss in training; None if all are 1.
    """

    reinitialised = ("head.",)
    class_weights: Tensor | None

    def __init__(self, labels: Labels, options: LabelLossConfig, about: AboutClassifier) -> None:
        super().__init__()
        self.labels, self.options = labels, options
        self.temperature, self.calibration = about.temperature, about.calibration
        self.counts = about.counts
        if options.focal_gamma and isinstance(labels, Number):
            raise RecipeError(
                "loss.focal_gamma needs classes, and these labels are numbers; leave it out, or "
                "set labels.kind=one if each number is the name of a class"
            )
        weights = (
            None if about.counts is None else labels.weights(options.class_weights, about.counts)
        )
        self.register_buffer("class_weights", weights, persistent=False)

    @property
    def largest_weight(self) -> float:
        """The largest weight of a class, at least 1."""
        return 1.0 if self.class_weights is None else max(1.0, float(self.class_weights.max()))

    @abstractmethod
    def logits_of(self, examples: Encoded) -> Float[Tensor, "n c"]:
        """Return the logits of all examples."""

    @abstractmethod
    def truth(self, examples: Encoded, rows: Rows) -> Tensor:
        """Return the labels of these examples."""

    def train(self: LabelTaskT, mode: bool = True) -> LabelTaskT:  # noqa: FBT001, FBT002
        """Switch training on or off; what was fitted to earlier weights is reset."""
        if mode:
            self.temperature, self.calibration = 1.0, {}
            if isinstance(self.labels, Several):
                self.labels.reset_thresholds()
        return super().train(mode)

    def label_loss(self, logits: Float[Tensor, "b c"], truth: Tensor) -> Tensor:
        """Return the loss, summed over the batch.

        Smoothing, focus and weights apply in training only, so that validation losses of all
        options are comparable. Weights have a mean of 1 over the training data, so an update is
        divided by its number of examples: gradients of several batches or processes add up exactly.
        """
        if not self.training:
            return self.labels.loss(logits, truth)
        return self.labels.loss(
            logits,
            truth,
            self.options.label_smoothing,
            gamma=self.options.focal_gamma,
            weights=self.class_weights,
        )

    def attention_toward(self, given: TaskInput, answer: ScoredAnswer) -> AttentionRecord:
        """Return the attention that speaks for a label: each weight times its effect on it.

        Where a label is read from does not depend on the label, but the effect of each weight on
        its probability does.
        """
        record = super().attention_toward(given, answer)

        def loss() -> Tensor:
            total: Tensor = self(self.force([given], [answer.text]).to(self.device)).total
            return total

        return attention_toward(record, self.model, loss)

    def finish(self, examples: Encoded) -> str:
        """Calibrate the probabilities, and choose the thresholds of several labels at once."""
        return self.calibrate(examples)

    def calibrate(self, examples: Encoded) -> str:
        """Fit the temperature to validation examples and return a sentence about it.

        It is applied only if it makes neither the calibration error nor the loss worse, on
        examples that it was not fitted to. The thresholds of several labels depend on it, so they
        are chosen here too.
        """
        truth = self.truth(examples, np.arange(len(examples)))
        if (count := len(truth)) < ENOUGH:
            return (
                f"probabilities are not calibrated: that needs {ENOUGH} validation {self.unit}, "
                f"and there are {count}"
            )
        logits = self.logits_of(examples)
        calibration = self.labels.calibrate(logits, truth)
        if calibration is None:
            return ""
        self.temperature = calibration.temperature
        self.calibration = {**asdict(calibration), "applied": calibration.applied}
        chosen = self.labels.choose_thresholds(logits / self.temperature, truth)
        return "; ".join(filter(None, [calibration_sentence(calibration), chosen]))

    def about(self, **facts: object) -> dict[str, str]:
        """Return the files of the labels, and of the temperature with other facts."""
        facts["temperature"] = self.temperature
        if self.calibration:
            facts["calibration"] = self.calibration
        if self.counts is not None:
            facts["label_counts"] = {"rows": self.counts.rows, "of": dict(self.counts.of)}
        return {
            LABELS_FILE: json.dumps(self.labels.facts(), indent=1, ensure_ascii=False),
            CLASSIFIER_FILE: json.dumps(facts, indent=1, ensure_ascii=False),
        }


class Classifier(LabelTask):
    """A task that labels its inputs.

    Attributes:
        metrics: The metrics of evaluations.
    """

    def __init__(
        self,
        labels: Labels,
        metrics: ClassificationMetricsConfig,
        options: LabelLossConfig,
        about: AboutClassifier,
    ) -> None:
        super().__init__(labels, options, about)
        self.metrics = metrics
        self.selection_metric = labels.selection_metric(metrics)
        labels.check(metrics)
        self._remarked_majority = False

    @abstractmethod
    def check(self, split: Split) -> None:
        """Raise if data has other columns than the data of training."""

    def features(self) -> LinearFeatures | None:
        """Return the features of inputs that a linear model reads as a baseline; None for none."""
        return None

    def baselines(self, train: Split) -> Iterator[BaselineMethod]:
        """Yield the most frequent label or the mean, and a linear model."""

        def measure(items: list[Item], answers: list[Classification]) -> Evaluation:
            return self.measure(items, answers, quick=False)

        return label_baselines(self.labels, train, measure, self.features())

    def items(self, split: Split) -> Iterator[Item]:
        """Yield one item per row with a label, also if several rows have the same input."""
        self.check(split)
        for row in split:
            if not (self.labels.may_be_empty or row.values[-1].strip()):
                continue
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
        evaluation = evaluation_of(
            items,
            texts,
            self.labels.tally(texts, truths, self.metrics),
            self.metrics,
            quick=quick,
            texts=self.lengths(items),
            without_lengths=None if calibration is None else {calibration.name: calibration},
            tables=self.labels.tables(items, answers),
        )
        return replace(
            evaluation,
            per_class=[score._asdict() for score in self.labels.class_scores(texts, truths)],
            remarks=self.labels.remarks(texts, truths),
        )

    def batch_loss(self, logits: Float[Tensor, "b c"], truth: Tensor) -> Loss:
        """Return the `label_loss` of a batch."""

        def items() -> Tensor:
            rows = zip(logits.split(1), truth.split(1), strict=True)
            return torch.stack([self.label_loss(*row) for row in rows])

        total = self.label_loss(logits, truth)
        return Loss(total, len(logits), items=None if self.training else items)

    def remarks(self, examples: Encoded) -> Iterator[str]:
        """Also yield, once, that one class is so frequent that accuracy says little."""
        yield from super().remarks(examples)
        if not isinstance(self.labels, Classes) or not len(examples) or self._remarked_majority:
            return
        truth = self.truth(examples, np.arange(len(examples)))
        [(number, count)] = Counter(truth.tolist()).most_common(1)
        if count > MAJORITY * len(truth):
            self._remarked_majority = True
            weigh = ", and loss.class_weights=balanced makes all classes count alike"
            yield (
                f"{majority(self.labels.names[number], count, len(truth))}; balanced_accuracy and "
                "macro_f1 show more (metrics.names, the first selects the best weights)"
                f"{weigh if self.class_weights is None else ''}"
            )

    def probability(self, given: TaskInput, output: str) -> float | None:
        """Return the probability of a label for an input; None for a number."""
        return None if isinstance(self.labels, Number) else likelihood(self, given, output)

    def probabilities(self, inputs: Sequence[TaskInput], output: str) -> list[float] | None:
        """Return the `probability` of a label for each input, computed together."""
        return None if isinstance(self.labels, Number) else likelihoods(self, inputs, output)

    def token_scores(
        self, examples: Sequence[Any], outputs: Sequence[str]
    ) -> list[list[TokenScore]]:
        """Return the calibrated probability of each label, beside the most probable one."""
        for number, label in enumerate(outputs, 1):
            try:
                self.labels.encode(label, "")
            except DataError:
                raise DecodingError(
                    f"output {number} must be a label of this model ({named(self.labels.names)}), "
                    f"got {label[:40]!r}; "
                    "write it as the model does"
                ) from None
        answers: Sequence[Any] = self.answer(examples)  # Classifications
        pairs = zip(answers, outputs, strict=True)
        return [self.labels.label_scores(answer.probabilities, label) for answer, label in pairs]

    def truth(self, examples: Encoded, rows: Rows) -> Tensor:
        """Return the labels of these examples, which are their last field."""
        return self.labels.decode([examples.fields[-1][int(row)] for row in rows])

    def forced(self, outputs: Sequence[str]) -> Tensor:
        """Return labels as a batch has them."""
        return self.labels.decode(
            [np.array(self.labels.encode(label, "the output")) for label in outputs]
        )


def read_about(folder: Path) -> AboutClassifier:
    """Return the facts about a classifier in a run folder."""
    path = folder / CLASSIFIER_FILE
    try:
        facts = read_json(path)
        temperature = float(facts["temperature"])
        if not 0 < temperature < math.inf:
            raise ValueError(f"temperature must be a number above 0, got {temperature}")
        counts = None
        if "label_counts" in facts:
            table = facts["label_counts"]
            of = {str(name): int(count) for name, count in table["of"].items()}
            counts = LabelCounts(int(table["rows"]), of)
        return AboutClassifier(
            temperature,
            pairs=bool(facts.get("pairs", False)),
            counts=counts,
            calibration=dict(facts.get("calibration", {})),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise RunError(
            f"{path} cannot be read: {type(error).__name__}: {brief(error)}. Restore it from a copy"
        ) from None


def with_scaled_head(model: nn.Module, scale: float, shift: float = 0.0) -> nn.Module:
    """Return a copy of a classifier's model whose logits are `scale` times its own, plus `shift`.

    With the inverse of a temperature, softmax of the logits gives the calibrated probabilities.
    """
    copied = copy.deepcopy(model)
    head = copied.get_submodule("head")
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            parameter.mul_(scale)
            if name == "bias":
                parameter.add_(shift)
    return copied
