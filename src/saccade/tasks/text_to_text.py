"""Text to text: translation, pronunciation, normalisation, and whatever else comes in pairs."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from saccade.attention.watch import count_heads
from saccade.config import Conflict, Count
from saccade.data.batches.collate import pad, pad_rows
from saccade.data.corpus import Row, Split
from saccade.data.sources.columns import Column
from saccade.data.store.cache import Encoded, encode_once
from saccade.decoders.recurrent import RecurrentDecoderConfig
from saccade.decoding import DecodingStart, Eager, GenerationConfig, GenerationRequest, TextEngine
from saccade.errors import RunError, brief
from saccade.files import read_json
from saccade.lens.alignment.extraction import AlignBy
from saccade.lens.alignment.selection import candidates
from saccade.lens.record import AttentionRecord, Side
from saccade.metrics import TextMetricsConfig
from saccade.models import Translator, TranslatorConfig
from saccade.shapes import Bool, Int, Tensor
from saccade.tasks._shared.answering import Answer, Example
from saccade.tasks._shared.base import Batch, Loss, Progress, TaskConfig
from saccade.tasks._shared.description import (
    VOCABULARY_FILE,
    Description,
    GeneratedText,
    TextInput,
    places_of,
)
from saccade.tasks._shared.seq2seq import (
    SequenceLossConfig,
    WritingTask,
    predicted_places,
    side_of,
    sides_read,
)
from saccade.text import Tokenizer, VocabularyConfig

log = logging.getLogger(__name__)

SOURCE = Column("source", ("src", "input", "sentence1", "word", "question"))
TARGET = Column("target", ("tgt", "trg", "output", "sentence2", "pronunciation", "answer"))
ALIGNMENT = "alignment.json"
ALIGNED, SHORT = 100, 64
"""Validation pairs by which it is found out what words are aligned by, and their tokens at most."""
FORMAT = 1
"""Counts up when the same text would be encoded otherwise, so that no old cache is read."""


@dataclass(frozen=True, kw_only=True)
class TranslationTextConfig:
    """The vocabularies.

    source       how the source is cut into tokens
    target       how the target is; left out, both share one vocabulary, made from both
    max_length   pairs with more tokens on a side are left out of training, and counted
    """

    source: VocabularyConfig = VocabularyConfig()
    target: VocabularyConfig | None = None
    max_length: Count = 256


@dataclass(frozen=True, kw_only=True)
class TextToTextConfig(TaskConfig):
    """The options of a text-to-text recipe."""

    model: TranslatorConfig
    text: TranslationTextConfig = TranslationTextConfig()
    loss: SequenceLossConfig = SequenceLossConfig()
    generation: GenerationConfig = GenerationConfig(beam=5)
    metrics: TextMetricsConfig = TextMetricsConfig()

    def conflicts(self) -> Iterator[Conflict]:
        """Texts that are longer than a table of positions."""
        room = self.text.max_length + 1
        for name, side in (("encoder", self.model.encoder), ("decoder", self.model.decoder)):
            if not isinstance(side, RecurrentDecoderConfig):
                key = f"model.{name}.position"
                yield from side.position.room_conflict(key, room, "text.max_length")

    @property
    def columns(self) -> tuple[Column, ...]:
        """Pairs."""
        return SOURCE, TARGET

    def create(
        self, train: Split, progress: Progress | None = None, vocabulary: Path | None = None
    ) -> TextToText:
        """Vocabularies made from this data or taken from a folder, and new weights."""
        if vocabulary is not None:
            task = self.restore(vocabulary)
            task.align_by = AlignBy()  # its own is found out when it is trained
            return task
        rows = (row.values for row in train.read(progress))
        if self.text.target is None:
            both = chain.from_iterable(rows)
            shared = Tokenizer.train(both, self.text.source)
            return TextToText(self, shared, shared)
        sources = (values[0] for values in rows)
        source = Tokenizer.train(sources, self.text.source)
        targets = (row.values[1] for row in train)
        return TextToText(self, source, Tokenizer.train(targets, self.text.target))

    def restore(self, folder: Path) -> TextToText:
        """The task of a run folder, with new weights."""
        if self.text.target is None:
            shared = Tokenizer.load(folder / "tokenizer.json")
            return TextToText(self, shared, shared, _read_align_by(folder))
        return TextToText(
            self,
            Tokenizer.load(folder / "tokenizer.source.json"),
            Tokenizer.load(folder / "tokenizer.target.json"),
            _read_align_by(folder),
        )


@dataclass(frozen=True)
class Pairs(Batch):
    """Sources with their stop, targets with start and stop, padded."""

    source: Int[Tensor, "b s"]
    source_mask: Bool[Tensor, "b s"]
    target: Int[Tensor, "b t"]
    places: Int[Tensor, " n"]
    """Where in the flattened target[:, 1:] there is something to predict."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SourceExample(Example):
    """A source: its text, the tokens that are read of the `encoded` ones, and how to answer it."""

    text: str
    tokens: list[int]
    encoded: int
    limit: int
    settings: GenerationConfig


class TextToText(WritingTask):
    """A translator with the vocabularies of its two sides.

    `align_by` says which of its attention tells best which words belong together; it is found on
    validation data when training ends.
    """

    name = "text_to_text"

    def __init__(
        self,
        config: TextToTextConfig,
        source: Tokenizer,
        target: Tokenizer,
        align_by: AlignBy | None = None,
    ) -> None:
        super().__init__()
        self.align_by = align_by or AlignBy()
        self.config, self.columns = config, config.columns
        self.source, self.target, self.metrics = source, target, config.metrics
        self.model: Translator = config.model.build(len(source), len(target))
        self.engine: TextEngine = Eager(self._begun)
        self.selection_metric = config.metrics.names[0]

    def describe(self) -> Description:
        """Read a text that ends with the stop token, write one that begins with the start token."""
        read, written = self._files
        return Description(
            reads=TextInput(
                tokenizer=self.source,
                file=read,
                after=(self.source.stop,),
                max_length=self.config.text.max_length + 1,
                places=places_of(self.config.model.encoder),
            ),
            writes=GeneratedText(
                tokenizer=self.target,
                file=written,
                start=self.target.start,
                options=self.config.generation,
                places=places_of(self.config.model.decoder),
            ),
            model=self.config.model,
        )

    @property
    def _files(self) -> tuple[str, str]:
        """The files of both vocabularies, which may be one."""
        if self.source is self.target:
            return VOCABULARY_FILE, VOCABULARY_FILE
        return "tokenizer.source.json", "tokenizer.target.json"

    def forward(self, batch: Pairs) -> Loss:
        """Cross entropy of each target token, given those before it and the source."""
        x = self.model.hidden(batch.source, batch.target[:, :-1], batch.source_mask)
        return self.written_loss(x, batch.target, batch.places, self.config.loss.label_smoothing)

    def encode(self, split: Split, folder: Path, progress: Progress | None = None) -> Encoded:
        """The token numbers of both sides, without start and stop."""

        def both(rows: list[Row]) -> list[tuple[list[int], ...]]:
            sources = self.source.encode_batch([row.values[0] for row in rows])
            targets = self.target.encode_batch([row.values[1] for row in rows])
            return list(zip(sources, targets, strict=True))

        limit = self.config.text.max_length
        key = f"text_to_text {FORMAT} {self.source.digest} {self.target.digest} {limit}"
        return encode_once(
            split, both, key=key, folder=folder, limits=(limit, limit), progress=progress
        )

    def sizes(self, examples: Encoded) -> npt.NDArray[np.int64]:
        """Both sides with their stop."""
        return np.stack([field.lengths for field in examples.fields], 1) + 1

    def collate(self, examples: Encoded, rows: Sequence[int] | npt.NDArray[np.int64]) -> Pairs:
        """These pairs as one batch."""
        sources, targets = examples.fields
        source = pad_rows(sources, rows, end=self.source.stop)
        target = pad_rows(targets, rows, start=self.target.start, end=self.target.stop)
        return _pairs(*source, *target)

    def force(self, inputs: Sequence[str], outputs: Sequence[str]) -> Pairs:
        """The batch in which each input is answered by the given output."""
        sources = self.source.encode_batch(list(inputs))
        return self._forced(sources, self.target.encode_batch(list(outputs)))

    def finish(self, examples: Encoded) -> str:
        """Find out which attention aligns words best, without gold alignments."""
        if not self.model.cross_attentions():
            return ""
        self.ensure_eval()
        lengths = self.sizes(examples).max(1)
        short = np.flatnonzero(lengths <= max(SHORT, lengths.min()))
        rows = short[np.unique(np.linspace(0, len(short) - 1, ALIGNED, dtype=np.int64))]
        sources, targets = ([field[int(row)].tolist() for row in rows] for field in examples.fields)
        read = [side_of(self.source, ids) for ids in sources]
        wrote = [side_of(self.target, ids) for ids in targets]
        best, *_ = candidates(self._look(sources, targets, read, wrote))
        self.align_by = best.by
        return (
            f"words are aligned by {best.by}: there, {best.agreement:.0%} of the links of "
            f"{len(rows)} validation pairs are the same from both sides"
        )

    def attention_size(self, inputs: Sequence[str], options: Mapping[str, Any]) -> int:
        """Each written token looks at each token of its input, the stops included."""
        settings, most = self.config.generation.changed(options), self.config.text.max_length
        lengths = [min(len(ids), most) for ids in self.source.encode_batch(list(inputs))]
        pairs = sum((settings.longest(length) + 1) * (length + 1) for length in lengths)
        return count_heads(self.model, self.model.cross_attentions()) * pairs

    def prepare(
        self, inputs: Sequence[str], *, first: int = 0, **options: Any
    ) -> list[SourceExample]:
        """Encode the sources; `options` are those of `[generation]`."""
        settings, most = self.config.generation.changed(options), self.config.text.max_length
        encoded = self.source.encode_batch(list(inputs))
        examples = []
        for number, (text, ids) in enumerate(zip(inputs, encoded, strict=True), first):
            limit = settings.longest(min(len(ids), most))
            examples.append(
                SourceExample(
                    number=number,
                    length=min(len(ids), most),
                    group=(limit, self.engine.length_group(min(len(ids), most))),
                    blank=not ids or not text.strip(),
                    text=text,
                    tokens=ids[:most],
                    encoded=len(ids),
                    limit=limit,
                    settings=settings,
                )
            )
        return examples

    def warn(self, examples: Sequence[SourceExample]) -> None:
        """Sources that were cut."""
        for example in examples:
            if example.encoded > example.length:
                log.warning(
                    "input %d has %d tokens; it was cut to the %d that text.max_length allows",
                    example.number + 1,
                    example.encoded,
                    example.length,
                )

    def answer(self, examples: Sequence[SourceExample]) -> list[Answer]:
        """Translate a batch with the engine."""
        request = GenerationRequest(
            limits=self.limits(examples[0].limit),
            options=examples[0].settings,
            rows=[example.number for example in examples],
        )
        found = self.engine.generate([example.tokens for example in examples], request)
        return [self.written(hypotheses) for hypotheses in found]

    def look(
        self, examples: Sequence[SourceExample], answers: Sequence[Answer]
    ) -> list[AttentionRecord]:
        """Return where each written token looked at its source: one watched pass over all."""
        sources = [example.tokens for example in examples]
        targets = self.tokens_of(answers)
        read = sides_read(self.source, [example.text for example in examples], sources)
        return self._look(sources, targets, read, self.sides_written(answers, targets))

    def files(self) -> dict[str, str]:
        """The vocabularies, and what words are aligned by, once it is known."""
        chosen = asdict(self.align_by)
        known = {} if self.align_by == AlignBy() else {ALIGNMENT: json.dumps(chosen, indent=1)}
        return {**self.vocabularies(), **known}

    def vocabularies(self) -> dict[str, str]:
        """One for both, or the source's and the target's."""
        if self.source is self.target:
            return {"tokenizer.json": self.source.to_string()}
        return {
            "tokenizer.source.json": self.source.to_string(),
            "tokenizer.target.json": self.target.to_string(),
        }

    def _begun(self, tokens: Sequence[list[int]]) -> DecodingStart:
        """The model after reading these sources."""
        source, mask = pad(tokens, end=self.source.stop)
        state = self.model.start(source.to(self.device), mask.to(self.device))
        first = torch.full((len(tokens),), self.target.start, device=self.device)
        return DecodingStart(self.model, state, first)

    def _forced(self, sources: list[list[int]], targets: list[list[int]]) -> Pairs:
        source = pad(sources, end=self.source.stop)
        target = pad(targets, start=self.target.start, end=self.target.stop)
        return _pairs(*source, *target)

    def _look(
        self,
        sources: list[list[int]],
        targets: list[list[int]],
        read: list[Side],
        wrote: list[Side],
    ) -> list[AttentionRecord]:
        """Where each written token looked: one pass over the finished answers, watched."""
        batch = self._forced(sources, targets).to(self.device)
        weights = self.looks(
            lambda: self.model.hidden(batch.source, batch.target[:, :-1], batch.source_mask)
        )
        return [
            AttentionRecord(
                read=from_,
                wrote=to,
                weights={
                    name: part[i, :, : len(to.tokens), : len(from_.tokens)].numpy()
                    for name, part in weights.items()
                },
                align_by=self.align_by,
            )
            for i, (from_, to) in enumerate(zip(read, wrote, strict=True))
        ]


def _read_align_by(folder: Path) -> AlignBy:
    """What a run folder says that words are aligned by, if it was found out."""
    path = folder / ALIGNMENT
    try:
        return AlignBy.of(read_json(path))
    except FileNotFoundError:
        return AlignBy()
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise RunError(f"{path} cannot be read: {brief(error)}") from None


def _pairs(source: Tensor, source_mask: Tensor, target: Tensor, target_mask: Tensor) -> Pairs:
    return Pairs(source, source_mask, target, predicted_places(target_mask))
