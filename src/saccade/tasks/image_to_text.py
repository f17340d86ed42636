"""Image to text: captions, written by a model that looks at an image."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Shaped

from saccade.attention.watch import count_heads, watch
from saccade.config import Conflict, Count, NotNegative
from saccade.data import builtin
from saccade.data.batches.collate import pad, pad_rows
from saccade.data.corpus import Item, Row, Split
from saccade.data.sources.columns import Column
from saccade.data.store.cache import Encoded
from saccade.data.transforms.augment import AugmentConfig, augment
from saccade.decoding import DecodingStart, Eager, GenerationConfig, GenerationRequest, Hypothesis
from saccade.encoders.efficientnet import EfficientNetConfig
from saccade.errors import RecipeError, RunError
from saccade.interfaces import Engine
from saccade.lens.faithfulness.pointing import Pointing, pointing_game
from saccade.lens.record import AttentionRecord
from saccade.metrics import TextMetricsConfig
from saccade.metrics.captions import pointing_tally
from saccade.models import Captioner, CaptionerConfig
from saccade.shapes import Bool, Float, Int, Tensor
from saccade.tasks._shared.answering import Answer, OnBatch
from saccade.tasks._shared.base import Batch, Evaluation, Loss, Progress, TaskConfig
from saccade.tasks._shared.description import Description, GeneratedText, places_of
from saccade.tasks._shared.images import (
    FILE,
    IMAGE,
    PRETRAINED,
    EncodedImages,
    Features,
    Gallery,
    ImageConfig,
    ImageExample,
    Picture,
    Pixels,
    Rows,
    Scale,
    View,
    as_image,
    facts_json,
    fresh_pixels,
    picture_from_json,
    pixels_of,
    read_facts,
    require_weights,
)
from saccade.tasks._shared.seq2seq import SequenceLossConfig, WritingTask, predicted_places, side_of
from saccade.text import Tokenizer, VocabularyConfig

TEXT = Column("text", ("caption", "captions", "sentence", "description"))
VOCABULARY = "tokenizer.json"
FORMAT = 1
"""Counts up when the same caption would be encoded otherwise, so that no old cache is read."""


@dataclass(frozen=True, kw_only=True)
class CaptionTextConfig:
    """The captions.

    vocabulary   how they are cut into tokens
    max_length   captions with more tokens are left out of training, and counted
    """

    vocabulary: VocabularyConfig = VocabularyConfig(kind="word", lowercase=True)
    max_length: Count = 64


@dataclass(frozen=True, kw_only=True)
class CaptionLossConfig(SequenceLossConfig):
    """What is learned from.

    doubly_stochastic   λ: how much it costs to look at some cells more than at others over a whole
                        caption (Xu et al. 2015, eq. 14); for models with attention
    """

    doubly_stochastic: NotNegative = 0.0


@dataclass(frozen=True, kw_only=True)
class ImageToTextConfig(TaskConfig):
    """The options of a captioning recipe."""

    model: CaptionerConfig
    image: ImageConfig = ImageConfig(size=64)
    augment: AugmentConfig = AugmentConfig()
    text: CaptionTextConfig = CaptionTextConfig()
    loss: CaptionLossConfig = CaptionLossConfig()
    generation: GenerationConfig = GenerationConfig(beam=3, max_length=64)
    metrics: TextMetricsConfig = TextMetricsConfig(
        names=("bleu_4", "bleu_1", "bleu_2", "bleu_3", "cider", "rouge_l", "chrf")
    )

    def __post_init__(self) -> None:
        reader = self.model.encoder
        reader.sized(self.image.size)
        Pixels(self.image, reader.channels)
        if isinstance(reader, EfficientNetConfig) and self.image.scale == "data":
            raise RecipeError(
                'image.scale = "data" does not fit EfficientNet, whose weights are of pixels that '
                "were scaled in their own way; leave it out"
            )
        if self.augment.mixup:
            raise RecipeError("augment.mixup is for labels: two captions cannot be mixed")
        if self.frozen and self.augment != AugmentConfig():
            raise RecipeError(
                "features are computed once for each image, so images cannot be changed in "
                "training: leave augment out, or set model.encoder.fine_tune = true"
            )

    def conflicts(self) -> Iterator[Conflict]:
        """A limit in relation to an input, and a loss on attention where there is none."""
        yield from self.generation.ratio_conflict("because an image has no length")
        writer = self.model.decoder
        if (
            self.loss.doubly_stochastic
            and writer.kind == "recurrent"
            and writer.attention == "none"
        ):
            yield Conflict("loss.doubly_stochastic", "needs a decoder with attention")
        if writer.kind == "transformer":
            yield from writer.position.room_conflict(
                "model.decoder.position", self.text.max_length + 1, "text.max_length"
            )

    @property
    def frozen(self) -> bool:
        """Whether the model reads features of a network that is not trained."""
        return isinstance(self.model.encoder, EfficientNetConfig) and not (
            self.model.encoder.fine_tune
        )

    @property
    def columns(self) -> tuple[Column, ...]:
        """An image and its caption."""
        return IMAGE, TEXT

    def create(
        self, train: Split, progress: Progress | None = None, vocabulary: Path | None = None
    ) -> ImageToText:
        """A vocabulary made from this data or taken from a folder, and new weights."""
        if isinstance(self.model.encoder, EfficientNetConfig):
            require_weights(self.model.encoder.weights)
        if vocabulary is not None:
            tokenizer = Tokenizer.load(vocabulary / VOCABULARY)
        else:
            texts = (row.values[1] for row in train)
            tokenizer = Tokenizer.train(texts, self.text.vocabulary, progress=progress)
        return ImageToText(self, self._fresh_view(train), tokenizer)

    def restore(self, folder: Path) -> ImageToText:
        """The task of a run folder, with new weights."""
        facts, reader = read_facts(folder), self.model.encoder
        if isinstance(reader, EfficientNetConfig) and self.frozen:
            if "weights" not in facts:
                raise RunError(f"{folder / FILE} lacks the SHA-256 of the weights of the reader")
            view: View = Features(self.image, reader.weights, facts["weights"])
        else:
            view = pixels_of(self.image, reader.channels, facts)
        return ImageToText(self, view, Tokenizer.load(folder / VOCABULARY))

    def _fresh_view(self, train: Split) -> View:
        reader = self.model.encoder
        if not isinstance(reader, EfficientNetConfig):
            return fresh_pixels(self.image, reader.channels, train)
        if self.frozen:
            return Features(self.image, reader.weights)
        return Pixels(self.image, reader.channels, Scale.even(reader.channels, *PRETRAINED))


@dataclass(frozen=True)
class Captioned(Batch):
    """Images as bytes, or features of them, and captions with start and stop, padded."""

    images: Shaped[Tensor, "b c h w"]
    target: Int[Tensor, "b u"]
    target_mask: Bool[Tensor, "b u"]
    places: Int[Tensor, " n"]
    """Where in the flattened target[:, 1:] there is something to predict."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CaptionExample(ImageExample):
    """An image, and how to write its caption."""

    settings: GenerationConfig


class ImageToText(WritingTask):
    """A captioner with its vocabulary, and with what it reads of an image."""

    name = "image_to_text"

    def __init__(self, config: ImageToTextConfig, view: View, target: Tokenizer) -> None:
        super().__init__()
        self.config, self.columns = config, config.columns
        self.view, self.gallery = view, Gallery(view)
        self.target, self.metrics = target, config.metrics
        self.selection_metric = config.metrics.names[0]
        reader = config.model.encoder.sized(config.image.size)
        self.model: Captioner = replace(config.model, encoder=reader).build(len(target))
        self.grid = reader.grid(config.image.size)
        self.engine: Engine[Tensor, GenerationRequest, Hypothesis] = Eager(self._begun)

    def describe(self) -> Description:
        """Read an image, write a caption."""
        return Description(
            reads=self.view.describe(),
            writes=GeneratedText(
                tokenizer=self.target,
                start=self.target.start,
                options=self.config.generation,
                places=places_of(self.config.model.decoder),
            ),
            model=self.config.model,
        )

    def forward(self, batch: Captioned) -> Loss:
        """Cross entropy of each token of a caption, given those before it and the image."""
        options, images, before = self.config.loss, batch.images, batch.target[:, :-1]
        if self.training:
            images = augment(images, self.config.augment)
        if not (self.training and options.doubly_stochastic):
            hidden = self.model.hidden(self.view.read(images), before)
            return self.written_loss(hidden, batch.target, batch.places, options.label_smoothing)
        with watch(self.model, detach=False, layers=self.model.cross_attentions()) as seen:
            hidden = self.model.hidden(self.view.read(images), before)
        loss = self.written_loss(hidden, batch.target, batch.places, options.label_smoothing)
        looks = torch.stack([each.weights.mean(1) for each in seen.values()]).mean(0)
        uneven = unevenness(looks, batch.target_mask[:, 1:])
        return replace(
            loss,
            total=loss.total + options.doubly_stochastic * uneven,
            metrics={**loss.metrics, "unevenness": uneven.detach()},
        )

    def encode(self, split: Split, folder: Path, progress: Progress | None = None) -> Encoded:
        """What is read of each image, once, and the token numbers of its captions."""

        def captions(rows: list[Row]) -> list[list[int]]:
            return self.target.encode_batch([row.values[1] for row in rows])

        return self.gallery.encode(
            split,
            captions,
            key=f"image_to_text {FORMAT} {self.target.digest}",
            folder=folder,
            limits=(1, self.config.text.max_length),
            progress=progress,
        )

    def sizes(self, examples: Encoded) -> npt.NDArray[np.int64]:
        """The cells of the image, and the caption with its stop."""
        cells = np.full(len(examples), self.grid[0] * self.grid[1])
        return np.stack([cells, examples.fields[1].lengths + 1], 1)

    def collate(self, examples: Encoded, rows: Rows) -> Captioned:
        """These captions with their images as one batch."""
        assert isinstance(examples, EncodedImages)
        target = pad_rows(examples.fields[1], rows, start=self.target.start, end=self.target.stop)
        return Captioned(examples.images(rows), *target, predicted_places(target[1]))

    def force(self, inputs: Sequence[Picture], outputs: Sequence[str]) -> Captioned:
        """The batch in which each image has the given caption."""
        return self._forced(self.gallery.arrays(inputs), self.target.encode_batch(list(outputs)))

    def from_json(self, value: Any) -> bytes:
        """An image as base64."""
        return picture_from_json(value)

    def attention_size(self, inputs: Sequence[Picture], options: Mapping[str, Any]) -> int:
        """Each written token, the stop included, looks at each cell of the image."""
        written = self.config.generation.changed(options).max_length + 1
        heads = count_heads(self.model, self.model.cross_attentions())
        return heads * len(inputs) * written * self.grid[0] * self.grid[1]

    def prepare(
        self, inputs: Sequence[Picture], *, first: int = 0, **options: Any
    ) -> list[CaptionExample]:
        """Number the images: paths, PIL images, bytes of files or arrays (h, w, 3).

        `options` are those of `[generation]`.
        """
        settings = self.config.generation.changed(options)
        return [
            CaptionExample(number=number, given=given, settings=settings)
            for number, given in enumerate(inputs, first)
        ]

    def answer(self, examples: Sequence[CaptionExample]) -> list[Answer]:
        """Write the captions of a batch with the engine."""
        settings = examples[0].settings
        request = GenerationRequest(
            limits=self.limits(settings.max_length),
            options=settings,
            rows=[example.number for example in examples],
        )
        found = self.engine.generate(self.gallery.examples(examples), request)
        return [self.written(hypotheses) for hypotheses in found]

    def look(
        self, examples: Sequence[ImageExample], answers: Sequence[Answer]
    ) -> list[AttentionRecord]:
        """Return where each token of the captions looked: one watched pass over all."""
        texts = self.tokens_of(answers)
        batch = self._forced(self.gallery.examples(examples), texts).to(self.device)
        looks = self.looks(
            lambda: self.model.hidden(self.view.read(batch.images), batch.target[:, :-1])
        )
        return [
            AttentionRecord(
                self.view.side(as_image(example.given, example.number + 1), self.grid),
                side_of(self.target, ids),
                {name: part[i, :, : len(ids) + 1].numpy() for name, part in looks.items()},
            )
            for i, (example, ids) in enumerate(zip(examples, texts, strict=True))
        ]

    def _begun(self, images: Tensor) -> DecodingStart:
        """The model after reading these images."""
        state = self.model.start(self.view.read(images.to(self.device)))
        first = torch.full((len(images),), self.target.start, device=self.device)
        return DecodingStart(self.model, state, first)

    def evaluate(
        self,
        items: Iterable[Item],
        *,
        quick: bool = False,
        on_batch: OnBatch | None = None,
        batch_size: int = 64,
        **options: Any,
    ) -> Evaluation:
        """Also plays the pointing game, where the boxes of objects are known."""
        items = list(items)
        found = super().evaluate(
            items, quick=quick, on_batch=on_batch, batch_size=batch_size, **options
        )
        played = None if quick else self.point(items, batch_size, on_batch)
        if played is None:
            return found
        score = pointing_tally(played.counts).score(
            samples=self.metrics.samples, seed=self.metrics.seed
        )
        told = f"{score.signature}|chance:{played.chance:.4f}"
        return replace(
            found,
            scores={**found.scores, score.name: replace(score, signature=told)},
            meanings={
                **found.meanings,
                score.name: f"Of the words that name an object, {score.value:.1%} look at it most; "
                f"without any aim it would be {played.chance:.1%}.",
            },
            tables={
                **found.tables,
                "The pointing game": [
                    {
                        "object words": played.count,
                        "looked at their object": played.rate,
                        "by chance": played.chance,
                    }
                ],
            },
        )

    def lengths(self, items: Sequence[Item]) -> list[str]:
        """The first caption of each image."""
        return [item.references[0] for item in items]

    def files(self) -> dict[str, str]:
        """The vocabulary, and how images are read."""
        return {VOCABULARY: self.target.to_string(), **facts_json(self.view)}

    def point(
        self,
        items: Sequence[Item],
        batch_size: int = 64,
        on_batch: OnBatch | None = None,
    ) -> Pointing | None:
        """How often object words look at their object, while the right caption is written.

        None where the images have no boxes, or the model has no attention.
        """
        boxes = [builtin.boxes(item.inputs[0]) for item in items]
        if not self.model.cross_attentions() or not any(boxes):
            return None
        maps = []
        for at in range(0, len(items), batch_size):
            some = items[at : at + batch_size]
            inputs, captions = zip(*((i.inputs[0], i.references[0]) for i in some), strict=True)
            maps += [record.by_words() for record in self.records(inputs, captions)]
            if on_batch is not None:
                on_batch(len(some))
        size = as_image(items[0].inputs[0], 1).size[::-1]
        return pointing_game(maps, boxes, self.grid, size)

    def _forced(self, arrays: Tensor, texts: Sequence[list[int]]) -> Captioned:
        target = pad(texts, start=self.target.start, end=self.target.stop)
        return Captioned(arrays, *target, predicted_places(target[1]))


def unevenness(looks: Float[Tensor, "b t n"], written: Bool[Tensor, "b t"]) -> Float[Tensor, ""]:
    """Σ_i (1 - Σ_t α_ti)² over the cells i and the written tokens t, summed over the batch."""
    seen = (looks * written.unsqueeze(-1)).sum(1)
    return ((1 - seen) ** 2).sum()
