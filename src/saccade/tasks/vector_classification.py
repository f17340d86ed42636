"""Vector classification: a label, several labels or a number for a sequence of vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from saccade.config import Conflict
from saccade.data.corpus import Row, Split
from saccade.data.sources.columns import Column
from saccade.data.sources.vectors import read_vectors
from saccade.data.store.cache import Encoded
from saccade.data.transforms.vector_augment import VectorAugmentConfig
from saccade.errors import WatchError
from saccade.lens.record import AttentionRecord
from saccade.metrics import ClassificationMetricsConfig
from saccade.models import VectorClassifier, VectorClassifierConfig
from saccade.shapes import Bool, Float, Tensor
from saccade.tasks._shared.answering import NO_OPTIONS, Answer, Options, require_no_options
from saccade.tasks._shared.attention_records import classifier_attention
from saccade.tasks._shared.base import Batch, Loss, Progress, Rows, TaskConfig
from saccade.tasks._shared.classifier import (
    LABEL,
    NEW,
    AboutClassifier,
    Classifier,
    label_column,
    read_about,
)
from saccade.tasks._shared.description import Description, LabelOutput, places_of
from saccade.tasks._shared.label_baselines import MeanVectorFeatures
from saccade.tasks._shared.labels import (
    Classification,
    LabelLossConfig,
    Labels,
    LabelsConfig,
    count_labels,
    label_conflicts,
    learn_labels,
    read_labels,
)
from saccade.tasks._shared.vectors import (
    VECTORS,
    SequenceInput,
    VectorExample,
    VectorFiles,
    VectorScale,
    VectorsConfig,
    VectorTask,
    new_scale,
    padded,
    read_scale,
)

FORMAT = 1
"""Version of the encoding; raise it when the same row is encoded differently."""
AT_ONCE = 64
"""Maximum number of sequences per batch."""


@dataclass(frozen=True, kw_only=True)
class VectorClassificationConfig(TaskConfig):
    """The options of a recipe that classifies sequences of vectors.

    model     the encoder of vectors and its head
    vectors   how vectors are read
    augment   augmentation: random changes of vectors in training
    labels    the kind of the labels
    loss      the loss of training
    metrics   the metrics of evaluations; the first one selects the best weights
    """

    model: VectorClassifierConfig
    vectors: VectorsConfig = VectorsConfig()
    augment: VectorAugmentConfig = VectorAugmentConfig()
    labels: LabelsConfig = LabelsConfig()
    loss: LabelLossConfig = LabelLossConfig()
    metrics: ClassificationMetricsConfig = ClassificationMetricsConfig()

    def __post_init__(self) -> None:
        self.model.encoder.position.require_room(self.vectors.max_length, "vectors.max_length")

    def conflicts(self) -> Iterator[Conflict]:
        """Yield options of classes if the labels are numbers."""
        yield from label_conflicts(self.labels, self.loss)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns `vectors` and `label`."""
        return VECTORS, label_column(self.labels)

    def create(
        self, train: Split, progress: Progress | None = None, vocabulary: Path | None = None
    ) -> VectorClassification:
        """Return an untrained task with the labels of this data; it has no vocabulary."""
        labels = learn_labels(train, self.labels)
        about = AboutClassifier(counts=count_labels(train, labels))
        return VectorClassification(self, new_scale(self.vectors, train), labels, about)

    def restore(self, folder: Path) -> VectorClassification:
        """Return the untrained task of a run folder."""
        scale = read_scale(folder)
        return VectorClassification(self, scale, read_labels(folder), read_about(folder))


@dataclass(frozen=True)
class LabelledVectors(Batch):
    """Padded sequences of vectors, and their labels."""

    vectors: Float[Tensor, "b n w"]
    mask: Bool[Tensor, "b n"]
    truth: Tensor


class VectorClassification(VectorTask, Classifier):
    """A classifier with its labels and the scale of its vectors."""

    name = "vector_classification"
    config: VectorClassificationConfig
    unit = "sequences"

    def __init__(
        self,
        config: VectorClassificationConfig,
        scale: VectorScale,
        labels: Labels,
        about: AboutClassifier = NEW,
    ) -> None:
        super().__init__(labels, config.metrics, config.loss, about)
        self.config, self.augmentation = config, config.augment
        self.vectors = VectorFiles(config.vectors, scale)
        self.model: VectorClassifier = config.model.build(scale.width, labels.outputs)

    def describe(self) -> Description:
        """Describe the task: vectors in, a label out."""
        return Description(
            reads=self.vector_input(places_of(self.config.model.encoder)),
            writes=LabelOutput(labels=self.labels, temperature=self.temperature),
            model=self.config.model,
        )

    def forward(self, batch: LabelledVectors) -> Loss:
        """Return the loss of the labels."""
        logits = self.logits(batch.vectors, batch.mask)
        return self.batch_loss(logits, batch.truth)

    def logits(
        self, vectors: Float[Tensor, "b n w"], mask: Bool[Tensor, "b n"]
    ) -> Float[Tensor, "b classes"]:
        """Return the logits of each sequence, in float32."""
        return self.model(self.scaled(vectors, mask), mask).float()

    def encode(self, split: Split, folder: Path, progress: Progress | None = None) -> Encoded:
        """Return the vectors of each sequence, and its label."""

        def truths(rows: list[Row]) -> list[list[int]]:
            return [self.labels.encode(row.values[-1], row.where) for row in rows]

        return self.vectors.encode(
            split,
            truths,
            key=f"vector_classification {FORMAT} {self.labels.digest}",
            folder=folder,
            may_be_empty=(LABEL.name,) if self.labels.may_be_empty else (),
            progress=progress,
        )

    def sizes(self, examples: Encoded) -> npt.NDArray[np.int64]:
        """Return the number of steps of each sequence."""
        return np.minimum(self.steps(examples), self.config.vectors.max_length)[:, None]

    def collate(self, examples: Encoded, rows: Rows) -> LabelledVectors:
        """Return the sequences at `rows` as one batch."""
        return LabelledVectors(*padded(self.sequences(examples, rows)), self.truth(examples, rows))

    def features(self) -> MeanVectorFeatures:
        """Return the mean vector of each sequence, scaled."""
        scale, most = self.vectors.scale, self.config.vectors.max_length
        mean, spread = (np.array(numbers, np.float32) for numbers in (scale.mean, scale.spread))
        return MeanVectorFeatures(lambda name: (read_vectors(name, most) - mean) / spread)

    def check(self, split: Split) -> None:
        """Accept any table of vectors and labels."""

    def prepare(
        self, inputs: Sequence[SequenceInput], options: Options = NO_OPTIONS, *, first: int = 0
    ) -> list[VectorExample]:
        """Number the inputs: paths, bytes of files, arrays (steps, width) or lists of numbers."""
        require_no_options(options)
        return self.examples_of(inputs, first)

    def answer(self, examples: Sequence[VectorExample]) -> list[Classification]:
        """Label a batch."""
        vectors, mask = (x.to(self.device) for x in padded(self.arrays(examples)))
        logits = self.logits(vectors, mask).cpu()
        return [self.labels.answer(one, self.temperature) for one in logits.unsqueeze(1)]

    def look(
        self, examples: Sequence[VectorExample], answers: Sequence[Answer]
    ) -> list[AttentionRecord]:
        """Return the attention over time of the pooling queries, or else of all steps."""
        model = self.config.model
        if model.encoder.kind == "recurrent" and model.pooling != "attention":
            raise WatchError(
                "this model has no attention: a recurrent encoder reads one step after another; "
                'train it with model.pooling = "attention", or a Transformer'
            )
        arrays = self.arrays(examples)
        vectors, mask = (x.to(self.device) for x in padded(arrays))
        sides = [self.vectors.side(array) for array in arrays]
        return classifier_attention(self.model, lambda: self.logits(vectors, mask), sides)

    def force(self, inputs: Sequence[SequenceInput], outputs: Sequence[str]) -> LabelledVectors:
        """Return the batch in which each sequence has the given label."""
        return LabelledVectors(*padded(self.arrays(self.examples_of(inputs))), self.forced(outputs))

    @torch.no_grad()
    def logits_of(self, examples: Encoded) -> Float[Tensor, "n c"]:
        """Return the logits of all examples, computed in batches of similar length."""
        self.ensure_eval()
        order = np.argsort(self.steps(examples), kind="stable")
        logits = torch.empty(len(examples), self.labels.outputs)
        for at in range(0, len(order), AT_ONCE):
            rows = order[at : at + AT_ONCE]
            vectors, mask = padded(self.sequences(examples, rows))
            logits[rows] = self.logits(vectors.to(self.device), mask.to(self.device)).cpu()
        return logits

    def files(self) -> dict[str, str]:
        """Return the labels, the temperature, and the scale of the vectors."""
        return {**self.about(), **self.scale_file()}
