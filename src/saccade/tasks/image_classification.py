"""Image classification: a label, several labels or a number for an image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Shaped

from saccade.attention.attend import Attend
from saccade.config import Conflict
from saccade.data.corpus import Item, Row, Split
from saccade.data.sources.columns import Column
from saccade.data.sources.images import read_image
from saccade.data.store.cache import Encoded
from saccade.data.transforms.augment import AugmentConfig, augment, mix
from saccade.encoders.patches import FrozenEncoder
from saccade.errors import WatchError
from saccade.lens.faithfulness.erasure import attended
from saccade.lens.record import AttentionRecord
from saccade.metrics import ClassificationMetricsConfig
from saccade.models import ConvolutionalClassifierConfig, ImageClassifier, ImageClassifierConfig
from saccade.shapes import Float, Tensor
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
from saccade.tasks._shared.description import Description, LabelOutput
from saccade.tasks._shared.evaluation import Evaluation
from saccade.tasks._shared.images import (
    IMAGE,
    Gallery,
    ImageConfig,
    ImageExample,
    ImageTask,
    Picture,
    Pixels,
    facts_json,
    image_examples,
    images_of,
    new_pixels,
    pixels_of,
    read_facts,
    require_augmentable,
    require_initialised,
    with_encoder,
)
from saccade.tasks._shared.label_baselines import PixelFeatures
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
from saccade.tasks._shared.pointing import point, with_pointing

FORMAT = 1
"""The version of the encoding; it changes when the same row would be encoded differently."""


@dataclass(frozen=True, kw_only=True)
class ImageClassificationConfig(TaskConfig):
    """The options of an image classification recipe.

    model     the encoder of images and its head
    image     the preparation of images
    augment   the random changes of images in training
    labels    the kind of the labels
    loss      the loss of training
    metrics   the metrics of evaluations; the first one selects the best weights
    """

    model: ImageClassifierConfig | ConvolutionalClassifierConfig
    image: ImageConfig = ImageConfig()
    augment: AugmentConfig = AugmentConfig()
    labels: LabelsConfig = LabelsConfig()
    loss: LabelLossConfig = LabelLossConfig()
    metrics: ClassificationMetricsConfig = ClassificationMetricsConfig()

    def __post_init__(self) -> None:
        self.model.sized(self.image.size)
        Pixels(self.image, self.model.channels)
        if self.frozen:
            require_augmentable(self.augment, "model.frozen = false")

    @property
    def frozen(self) -> bool:
        """Whether the encoder is not trained, so that its states are computed once."""
        return isinstance(self.model, ImageClassifierConfig) and self.model.frozen

    def conflicts(self) -> Iterator[Conflict]:
        """Yield options of classes if the labels are numbers."""
        yield from label_conflicts(self.labels, self.loss)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns `image` and `label`."""
        return IMAGE, label_column(self.labels)

    def create(
        self, train: Split, progress: Progress | None = None, vocabulary: Path | None = None
    ) -> ImageClassification:
        """Return a task with new weights and the labels of this data; it has no vocabulary."""
        if self.frozen:
            require_initialised(vocabulary, "model.frozen")
        pixels = new_pixels(self.image, self.model.channels, train, vocabulary)
        labels = learn_labels(train, self.labels)
        about = AboutClassifier(counts=count_labels(train, labels))
        return ImageClassification(self, pixels, labels, about)

    def restore(self, folder: Path) -> ImageClassification:
        """Return the task of a run folder, with new weights."""
        pixels = pixels_of(self.image, self.model.channels, read_facts(folder))
        return ImageClassification(self, pixels, read_labels(folder), read_about(folder))


@dataclass(frozen=True)
class LabelledImages(Batch):
    """Images as bytes or features, and their labels."""

    images: Shaped[Tensor, "b c h w"]
    truth: Tensor


class ImageClassification(ImageTask, Classifier):
    """A classifier with its labels and its view of images.

    Attributes:
        grid: The number of patches or cells (down, across) that an image is read in.
    """

    name = "image_classification"
    config: ImageClassificationConfig
    unit = "images"

    def __init__(
        self,
        config: ImageClassificationConfig,
        pixels: Pixels,
        labels: Labels,
        about: AboutClassifier = NEW,
    ) -> None:
        super().__init__(labels, config.metrics, config.loss, about)
        self.config = config
        sized = config.model.sized(config.image.size)
        self.model: ImageClassifier = sized.build(labels.outputs)
        self.pixels, self.view = pixels, with_encoder(pixels, self.model.encoder)
        self.gallery = Gallery(self.view)
        self.grid = sized.grid(config.image.size)

    def describe(self) -> Description:
        """Return that it reads the pixels of an image and labels them."""
        return Description(
            reads=self.view.describe(),
            writes=LabelOutput(labels=self.labels, temperature=self.temperature),
            model=self.config.model,
        )

    def forward(self, batch: LabelledImages) -> Loss:
        """Return the loss of the labels; in training, of augmented images."""
        images, truth, options = batch.images, batch.truth, self.config.augment
        if not self.training:
            return self.batch_loss(self.logits(images), truth)
        images = augment(images, options)
        if not options.mixup:
            return self.batch_loss(self.logits(images), truth)
        images, partners, fraction = mix(images, options.mixup)
        logits = self.logits(images)
        own, other = (
            self.label_loss(logits, labels) for labels in (truth, truth[partners.to(truth.device)])
        )
        return Loss(float(fraction) * own + (1 - float(fraction)) * other, len(images))

    def logits(self, images: Shaped[Tensor, "b c h w"]) -> Float[Tensor, "b classes"]:
        """Return the logits of each image, in float32."""
        return self.model(self.view.read(images)).float()

    def encode(self, split: Split, folder: Path, progress: Progress | None = None) -> Encoded:
        """Return the pixels of each image, resized, and its label."""

        def truths(rows: list[Row]) -> list[list[int]]:
            return [self.labels.encode(row.values[-1], row.where) for row in rows]

        return self.gallery.encode(
            split,
            truths,
            key=f"image_classification {FORMAT} {self.labels.digest}",
            folder=folder,
            may_be_empty=(LABEL.name,) if self.labels.may_be_empty else (),
            progress=progress,
        )

    def sizes(self, examples: Encoded) -> npt.NDArray[np.int64]:
        """Return the number of patches or cells that each image is read in."""
        return np.full((len(examples), 1), self.grid[0] * self.grid[1])

    def collate(self, examples: Encoded, rows: Rows) -> LabelledImages:
        """Return the images at `rows` as one batch."""
        return LabelledImages(images_of(examples, rows), self.truth(examples, rows))

    def features(self) -> PixelFeatures:
        """Return the pixels of the images."""
        return PixelFeatures(lambda name: self.pixels.array(read_image(name)))

    def check(self, split: Split) -> None:
        """Accept any table of images and labels."""

    def prepare(
        self, inputs: Sequence[Picture], options: Options = NO_OPTIONS, *, first: int = 0
    ) -> list[ImageExample]:
        """Number the images: paths, PIL images, bytes of files or arrays (h, w, 3)."""
        require_no_options(options)
        tokens = self.grid[0] * self.grid[1] + 1  # with a class token
        return image_examples(inputs, first, weights=tokens**2)

    def answer(self, examples: Sequence[ImageExample]) -> list[Classification]:
        """Label a batch."""
        logits = self.logits(self.gallery.examples(examples).to(self.device)).float().cpu()
        return [self.labels.answer(one, self.temperature) for one in logits.unsqueeze(1)]

    def look(
        self, examples: Sequence[ImageExample], answers: Sequence[Answer]
    ) -> list[AttentionRecord]:
        """Return where the queries of the pooling looked.

        Without attention pooling, return where each patch, and a class token if there is one,
        looked in every layer.
        """
        model = self.config.model
        if isinstance(model, ConvolutionalClassifierConfig) and model.pooling != "attention":
            raise WatchError(
                "this model has no attention: a convolution weighs its neighbours always alike; "
                'train it with model.pooling = "attention", or a Vision Transformer'
            )
        shown = [example.image() for example in examples]
        arrays = torch.stack([torch.from_numpy(self.pixels.array(image)) for image in shown])
        encoder = self.model.encoder

        def run() -> None:
            images = self.pixels.read(arrays.to(self.device))
            self.model(encoder.features(images) if isinstance(encoder, FrozenEncoder) else images)

        has_class_token = self.config.model.class_token
        return classifier_attention(
            self.model,
            run,
            [self.pixels.side(image, self.grid, class_token=has_class_token) for image in shown],
        )

    def measure(
        self, items: list[Item], answers: Sequence[Classification], *, quick: bool
    ) -> Evaluation:
        """Return the metrics of labels, and of attention if the boxes of objects are known."""
        evaluation = super().measure(items, answers, quick=quick)
        if quick or not any(isinstance(part, Attend) for part in self.model.modules()):
            return evaluation
        pointing = point(items, self._maps, self.grid)
        if pointing is None:
            return evaluation
        return with_pointing(
            evaluation,
            pointing,
            objects="objects",
            sentence="In {rate} of the images with a known box, the strongest cell lies in it",
            metrics=self.metrics,
        )

    @torch.no_grad()
    def _maps(self, items: Sequence[Item]) -> list[npt.NDArray[np.float32]]:
        """Return the attention of the label of each image to its cells."""
        self.ensure_eval()
        examples = self.prepare([self.input_of(item) for item in items])
        return [attended(record)[None] for record in self.look(examples, ())]

    def force(self, inputs: Sequence[Picture], outputs: Sequence[str]) -> LabelledImages:
        """Return the batch in which each image has the given label."""
        return LabelledImages(self.gallery.arrays(inputs), self.forced(outputs))

    @torch.no_grad()
    def logits_of(self, examples: Encoded) -> Float[Tensor, "n c"]:
        """Return the logits of all examples."""
        self.ensure_eval()
        parts = np.array_split(np.arange(len(examples)), -(-len(examples) // 64))
        images = (images_of(examples, rows).to(self.device) for rows in parts)
        return torch.cat([self.logits(part).float().cpu() for part in images])

    def files(self) -> dict[str, str]:
        """Return the labels, the temperature, and the scale of pixels."""
        return {**self.about(), **facts_json(self.view)}
