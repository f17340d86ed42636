"""Vectors to text: generate captions or transcripts for sequences of vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from saccade.config import Conflict
from saccade.data.batches.collate import pad, pad_rows
from saccade.data.corpus import Item, Row, Split
from saccade.data.sources.columns import Column
from saccade.data.sources.vectors import Vectors
from saccade.data.store.cache import Encoded
from saccade.data.transforms.vector_augment import VectorAugmentConfig
from saccade.decoding import DecodingStart, Eager, GenerationConfig, GenerationRequest, Hypothesis
from saccade.interfaces import Engine
from saccade.lens.record import AttentionRecord
from saccade.metrics import TextMetricsConfig
from saccade.models import VectorCaptioner, VectorCaptionerConfig
from saccade.shapes import Bool, Float, Int, Tensor
from saccade.tasks._shared.answering import NO_OPTIONS, Answer, Options
from saccade.tasks._shared.base import Batch, Loss, Progress, Rows, TaskConfig, vocabulary_from
from saccade.tasks._shared.description import (
    VOCABULARY_FILE,
    Description,
    GeneratedText,
    places_of,
)
from saccade.tasks._shared.generating import GenerationExample, answer_of
from saccade.tasks._shared.seq2seq import (
    CaptionTextConfig,
    SequenceLossConfig,
    WritingTask,
    predicted_places,
    side_of,
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
from saccade.text import Tokenizer

TEXT = Column("text", ("caption", "transcript", "sentence", "description"))
FORMAT = 1
"""Version of the encoding; raise it when the same text is encoded differently."""


@dataclass(frozen=True, kw_only=True)
class VectorToTextConfig(TaskConfig):
    """The options of a recipe that generates texts from sequences of vectors.

    model        the encoder of vectors and the decoder
    vectors      how vectors are read
    augment      augmentation: random changes of vectors in training
    text         the texts
    loss         the loss of training
    generation   the default options of generation
    metrics      the metrics of evaluations; the first one selects the best weights
    """

    model: VectorCaptionerConfig
    vectors: VectorsConfig = VectorsConfig()
    augment: VectorAugmentConfig = VectorAugmentConfig()
    text: CaptionTextConfig = CaptionTextConfig()
    loss: SequenceLossConfig = SequenceLossConfig()
    generation: GenerationConfig = GenerationConfig(beam=3, max_length=64)
    metrics: TextMetricsConfig = TextMetricsConfig(names=("chrf", "bleu", "exact_match"))

    def __post_init__(self) -> None:
        self.model.encoder.position.require_room(self.vectors.max_length, "vectors.max_length")

    def conflicts(self) -> Iterator[Conflict]:
        """Yield a limit relative to the input, and texts that are longer than the positions."""
        yield from self.generation.ratio_conflict("because steps are not tokens")
        writer = self.model.decoder
        if writer.kind == "transformer":
            yield from writer.position.room_conflict(
                "model.decoder.position", self.text.max_length + 1, "text.max_length"
            )

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns `vectors` and `text`."""
        return VECTORS, TEXT

    def create(
        self, train: Split, progress: Progress | None = None, vocabulary: Path | None = None
    ) -> VectorToText:
        """Return an untrained task with the vocabulary of this data or of a folder."""
        texts = (row.values[1] for row in train.read(progress))
        tokenizer = vocabulary_from(vocabulary, texts, self.text.vocabulary)
        return VectorToText(self, new_scale(self.vectors, train), tokenizer)

    def restore(self, folder: Path) -> VectorToText:
        """Return the untrained task of a run folder."""
        tokenizer = Tokenizer.load(folder / VOCABULARY_FILE)
        return VectorToText(self, read_scale(folder), tokenizer)


@dataclass(frozen=True)
class Transcribed(Batch):
    """Padded sequences of vectors, and padded texts with start and stop token."""

    vectors: Float[Tensor, "b n w"]
    mask: Bool[Tensor, "b n"]
    target: Int[Tensor, "b u"]
    target_mask: Bool[Tensor, "b u"]
    places: Int[Tensor, " p"]
    """The places of the flattened target[:, 1:] that are predicted."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TranscriptExample(VectorExample, GenerationExample):
    """A sequence of vectors to generate a text for."""


class VectorToText(VectorTask, WritingTask):
    """A captioner of vectors with its vocabulary and the scale of its vectors."""

    name = "vector_to_text"
    config: VectorToTextConfig
    model: VectorCaptioner

    def __init__(self, config: VectorToTextConfig, scale: VectorScale, target: Tokenizer) -> None:
        super().__init__()
        self.config, self.augmentation = config, config.augment
        self.vectors = VectorFiles(config.vectors, scale)
        self.target, self.metrics = target, config.metrics
        self.selection_metric = config.metrics.names[0]
        self.model = config.model.build(scale.width, len(target))
        self.engine: Engine[list[Vectors], GenerationRequest, Hypothesis] = Eager(self._begin)

    def describe(self) -> Description:
        """Describe the task: vectors in, a generated text out."""
        reads = self.vector_input(places_of(self.config.model.encoder))
        return Description(reads=reads, writes=self.writes, model=self.config.model)

    @property
    def writes(self) -> GeneratedText:
        """The description of the text."""
        return GeneratedText(
            tokenizer=self.target,
            start=self.target.start,
            options=self.config.generation,
            places=places_of(self.config.model.decoder),
        )

    def forward(self, batch: Transcribed) -> Loss:
        """Return the cross-entropy of each token of a text, given those before and the vectors."""
        smoothing = self.config.loss.label_smoothing
        return self.written_loss(self.states(batch), batch.target, batch.places, smoothing)

    def states(self, batch: Transcribed) -> Float[Tensor, "b t d"]:
        """Return the states from which the tokens of the texts are predicted."""
        vectors = self.scaled(batch.vectors, batch.mask)
        return self.model.hidden(vectors, batch.target[:, :-1], batch.mask)

    def forced(
        self, examples: Sequence[VectorExample], targets: Sequence[list[int]]
    ) -> Transcribed:
        """Return the batch in which each sequence has the given text."""
        return self._forced(self.arrays(examples), targets)

    def encode(self, split: Split, folder: Path, progress: Progress | None = None) -> Encoded:
        """Return the vectors of each sequence, and the token ids of its text."""

        def texts(rows: list[Row]) -> list[list[int]]:
            return self.target.encode_batch([row.values[1] for row in rows])

        return self.vectors.encode(
            split,
            texts,
            key=f"vector_to_text {FORMAT} {self.target.digest}",
            folder=folder,
            limits=(1, self.config.text.max_length),
            progress=progress,
        )

    def sizes(self, examples: Encoded) -> npt.NDArray[np.int64]:
        """Return the number of steps, and of tokens of the text with its stop token."""
        steps = np.minimum(self.steps(examples), self.config.vectors.max_length)
        return np.stack([steps, examples.fields[1].lengths + 1], 1)

    def collate(self, examples: Encoded, rows: Rows) -> Transcribed:
        """Return the sequences at `rows` with their texts as one batch."""
        target = pad_rows(examples.fields[1], rows, start=self.target.start, end=self.target.stop)
        vectors = padded(self.sequences(examples, rows))
        return Transcribed(*vectors, *target, predicted_places(target[1]))

    def force(self, inputs: Sequence[SequenceInput], outputs: Sequence[str]) -> Transcribed:
        """Return the batch in which each sequence has the given text."""
        arrays = self.arrays(self.examples_of(inputs))
        return self._forced(arrays, self.target.encode_batch(list(outputs)))

    def prepare(
        self, inputs: Sequence[SequenceInput], options: Options = NO_OPTIONS, *, first: int = 0
    ) -> list[TranscriptExample]:
        """Number the inputs: paths, bytes of files, arrays (steps, width) or lists of numbers.

        `options` are those of `[generation]`.
        """
        generation = self.config.generation.changed(options)
        limit = generation.max_length
        return [
            TranscriptExample(
                number=example.number,
                length=example.length,
                encoded=example.encoded,
                weights=(limit + 1) * example.length,
                source=example.source,
                limit=limit,
                options=generation,
            )
            for example in self.examples_of(inputs, first)
        ]

    def answer(self, examples: Sequence[TranscriptExample]) -> list[Answer]:
        """Generate the texts of a batch with the engine."""
        rows = self.generate(self.arrays(examples), examples)
        return [answer_of(hypotheses, self.target.decode) for hypotheses in rows]

    def look(
        self, examples: Sequence[VectorExample], answers: Sequence[Answer]
    ) -> list[AttentionRecord]:
        """Return the attention over time of each generated token, from one watched pass."""
        texts, arrays = self.tokens_of(answers), self.arrays(examples)
        batch = self._forced(arrays, texts).to(self.device)
        return self.cross_records(
            lambda: self.states(batch),
            [self.vectors.side(array) for array in arrays],
            [side_of(self.target, ids) for ids in texts],
        )

    def _begin(self, arrays: list[Vectors]) -> DecodingStart:
        """Return the model after reading these vectors."""
        vectors, mask = (x.to(self.device) for x in padded(arrays))
        state = self.model.start(self.scaled(vectors, mask), mask)
        first = torch.full((len(arrays),), self.target.start, device=self.device)
        return DecodingStart(self.model, state, first)

    def lengths(self, items: Sequence[Item]) -> list[str]:
        """Return the first text of each sequence."""
        return [item.references[0] for item in items]

    def files(self) -> dict[str, str]:
        """Return the vocabulary, and the scale of the vectors."""
        return {**self.describe().vocabulary_files(), **self.scale_file()}

    def _forced(self, arrays: Sequence[Vectors], texts: Sequence[list[int]]) -> Transcribed:
        target = pad(texts, start=self.target.start, end=self.target.stop)
        return Transcribed(*padded(arrays), *target, predicted_places(target[1]))
