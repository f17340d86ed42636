"""Text to text: translation, pronunciation, normalisation, and other text pairs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import torch

from saccade.config import Conflict, Count
from saccade.data.batches.collate import pad, pad_rows
from saccade.data.corpus import Row, Split
from saccade.data.sources.columns import Column, counted
from saccade.data.store.cache import Encoded, encode_once
from saccade.data.store.ragged import Integers, sizes_of
from saccade.decoders.recurrent import RecurrentDecoderConfig
from saccade.decoding import DecodingStart, Eager, GenerationConfig, TextEngine
from saccade.errors import RunError, brief
from saccade.files import read_json
from saccade.lens.alignment.align_by import AlignBy
from saccade.lens.alignment.selection import candidates
from saccade.lens.record import AttentionRecord, Side
from saccade.metrics import TextMetricsConfig
from saccade.models import Translator, TranslatorConfig
from saccade.shapes import Bool, Float, Int, Tensor
from saccade.tasks._shared.answering import Answer
from saccade.tasks._shared.base import Batch, Loss, Progress, Rows, TaskConfig
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
from saccade.tasks._shared.translating import SourceExample, TranslatingPredictor
from saccade.text import Tokenizer, VocabularyConfig

SOURCE = Column("source", ("src", "input", "sentence1", "word", "question"), in_order=True)
TARGET = Column(
    "target", ("tgt", "trg", "output", "sentence2", "pronunciation", "answer"), in_order=True
)
TWO_FILES = ("tokenizer.source.json", "tokenizer.target.json")
"""The files of two vocabularies; one for both is in `VOCABULARY_FILE`."""
ALIGNMENT = "alignment.json"
"""The file of a run folder that names the attention words are aligned by."""
SOURCES = "sources.json"
"""The file of a run folder that is written if sources of its training data have several lines."""
MANY = 0.01
"""The fraction of sources with several lines from which a text of several lines is not split."""
ALIGNED, SHORT = 100, 64
"""The number of validation pairs that this attention is chosen by, and their maximum length."""
FORMAT = 1
"""The version of the encoding; it changes when the same text would be encoded differently."""


@dataclass(frozen=True, kw_only=True)
class TranslationTextConfig:
    """The vocabularies.

    source       the vocabulary of the source
    target       the vocabulary of the target; if left out, both sides share one that is made from
                 both
    max_length   tokens; longer pairs are left out of training and counted, longer inputs are split
                 when they are answered (see `generation.split`)
    """

    source: VocabularyConfig = VocabularyConfig()
    target: VocabularyConfig | None = None
    max_length: Count = 256


@dataclass(frozen=True, kw_only=True)
class TextToTextConfig(TaskConfig):
    """The options of a text-to-text recipe.

    model        the encoder and the decoder
    text         the vocabularies
    loss         the loss of training
    generation   the default options of generation
    metrics      the metrics of evaluations; the first one selects the best weights
    """

    model: TranslatorConfig
    text: TranslationTextConfig = TranslationTextConfig()
    loss: SequenceLossConfig = SequenceLossConfig()
    generation: GenerationConfig = GenerationConfig(beam=5)
    metrics: TextMetricsConfig = TextMetricsConfig()

    def conflicts(self) -> Iterator[Conflict]:
        """Yield texts that are longer than a table of positions."""
        room = self.text.max_length + 1
        for name, side in (("encoder", self.model.encoder), ("decoder", self.model.decoder)):
            if not isinstance(side, RecurrentDecoderConfig):
                key = f"model.{name}.position"
                yield from side.position.room_conflict(key, room, "text.max_length")

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns `source` and `target`."""
        return SOURCE, TARGET

    def create(
        self, train: Split, progress: Progress | None = None, vocabulary: Path | None = None
    ) -> TextToText:
        """Return a task with new weights, and with vocabularies of this data or of a folder."""
        if vocabulary is not None:
            self._require_sides(vocabulary)
            task = self.restore(vocabulary)
            task.align_by = AlignBy()  # chosen again after training
            return task
        seen = _LineCount()
        rows = (seen.add(row.values) for row in train.read(progress))
        if self.text.target is None:
            both = chain.from_iterable(rows)
            source = target = Tokenizer.train(both, self.text.source)
        else:
            source = Tokenizer.train((values[0] for values in rows), self.text.source)
            targets = (row.values[1] for row in train)
            target = Tokenizer.train(targets, self.text.target)
        return TextToText(self, source, target, reads_lines=seen.several > MANY * seen.rows)

    def _require_sides(self, folder: Path) -> None:
        """Raise unless a folder has as many vocabularies as the recipe."""
        is_shared = (folder / VOCABULARY_FILE).is_file()
        if is_shared and self.text.target is not None:
            raise RunError(
                "the model to start from has one vocabulary for both sides, and the recipe two; "
                "leave text.target out of the recipe"
            )
        if not is_shared and self.text.target is None:
            raise RunError(
                "the model to start from has two vocabularies, and the recipe one for both sides; "
                "add --set 'text.target={ kind = \"bpe\" }'"
            )

    def restore(self, folder: Path) -> TextToText:
        """Return the task of a run folder, with new weights."""
        if self.text.target is None:
            source = target = Tokenizer.load(folder / VOCABULARY_FILE)
        else:
            source, target = (Tokenizer.load(folder / name) for name in TWO_FILES)
        lines = (folder / SOURCES).exists()
        return TextToText(self, source, target, _read_align_by(folder), reads_lines=lines)


@dataclass(frozen=True)
class Pairs(Batch):
    """Padded pairs: sources with their stop token, targets with start and stop token."""

    source: Int[Tensor, "b s"]
    source_mask: Bool[Tensor, "b s"]
    target: Int[Tensor, "b t"]
    places: Int[Tensor, " n"]
    """The places of the flattened target[:, 1:] that are predicted."""


class TextToText(TranslatingPredictor, WritingTask):
    """A translator with the vocabularies of its two sides.

    Attributes:
        align_by: The attention that aligns words best; it is chosen on validation data after
            training.
    """

    config: TextToTextConfig

    def __init__(
        self,
        config: TextToTextConfig,
        source: Tokenizer,
        target: Tokenizer,
        align_by: AlignBy | None = None,
        *,
        reads_lines: bool = False,
    ) -> None:
        super().__init__()
        self.reads_lines = reads_lines
        self.align_by = align_by or AlignBy()
        self.config = config
        self.source, self.target, self.metrics = source, target, config.metrics
        self.model: Translator = config.model.build(len(source), len(target))
        self.engine: TextEngine = Eager(self._begin)
        self.selection_metric = config.metrics.names[0]

    @property
    def max_length(self) -> int:
        """The maximum number of tokens of an input that is answered at once."""
        return self.config.text.max_length

    def describe(self) -> Description:
        """Return that it reads a text with a stop token and generates a text."""
        return Description(
            reads=TextInput(
                tokenizer=self.source,
                file=VOCABULARY_FILE if self.source is self.target else TWO_FILES[0],
                after=(self.source.stop,),
                max_length=self.config.text.max_length + 1,
                places=places_of(self.config.model.encoder),
            ),
            writes=self.writes,
            model=self.config.model,
        )

    @property
    def writes(self) -> GeneratedText:
        """The description of the target."""
        return GeneratedText(
            tokenizer=self.target,
            file=VOCABULARY_FILE if self.source is self.target else TWO_FILES[1],
            start=self.target.start,
            options=self.config.generation,
            places=places_of(self.config.model.decoder),
        )

    def forward(self, batch: Pairs) -> Loss:
        """Return the cross-entropy of each target token, given those before it and the source."""
        x = self.states(batch)
        return self.written_loss(x, batch.target, batch.places, self.config.loss.label_smoothing)

    def states(self, batch: Pairs) -> Float[Tensor, "b t d"]:
        """Return the states from which the target tokens are predicted."""
        return self.model.hidden(batch.source, batch.target[:, :-1], batch.source_mask)

    def forced(self, examples: Sequence[SourceExample], targets: Sequence[list[int]]) -> Pairs:
        """Return the batch in which each source has the given target."""
        return self._forced([example.tokens for example in examples], list(targets))

    def encode(self, split: Split, folder: Path, progress: Progress | None = None) -> Encoded:
        """Return the token ids of both sides, without start and stop."""

        def both(rows: list[Row]) -> list[tuple[list[int], ...]]:
            sources = self.source.encode_batch([row.values[0] for row in rows])
            targets = self.target.encode_batch([row.values[1] for row in rows])
            return list(zip(sources, targets, strict=True))

        limit = self.config.text.max_length
        key = f"text_to_text {FORMAT} {self.source.digest} {self.target.digest} {limit}"
        return encode_once(
            split, both, key=key, folder=folder, limits=(limit, limit), progress=progress
        )

    def sizes(self, examples: Encoded) -> Integers:
        """Return the numbers of tokens of both sides, with their stop tokens."""
        return sizes_of(examples.fields, more=1)

    def collate(self, examples: Encoded, rows: Rows) -> Pairs:
        """Return the pairs at `rows` as one batch."""
        sources, targets = examples.fields
        source = pad_rows(sources, rows, end=self.source.stop)
        target = pad_rows(targets, rows, start=self.target.start, end=self.target.stop)
        return _pairs(*source, *target)

    def force(self, inputs: Sequence[str], outputs: Sequence[str]) -> Pairs:
        """Return the batch in which each source has the given target."""
        sources = self.source.encode_batch(list(inputs))
        return self._forced(sources, self.target.encode_batch(list(outputs)))

    def finish(self, examples: Encoded) -> str:
        """Choose the attention that aligns words best, without gold alignments."""
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
            f"words are aligned by {best.by}: {best.agreement:.0%} of its links in "
            f"{counted(len(rows), 'validation pair')} are the same in both directions"
        )

    def look(
        self, examples: Sequence[SourceExample], answers: Sequence[Answer]
    ) -> list[AttentionRecord]:
        """Return where each written token looked at its source, in one watched pass."""
        sources = [example.tokens for example in examples]
        targets = self.tokens_of(answers)
        read = sides_read(self.source, [example.text for example in examples], sources)
        return self._look(sources, targets, read, self.sides_written(answers, targets))

    def files(self) -> dict[str, str]:
        """Return the vocabularies and, once it is chosen, the attention words are aligned by."""
        chosen = asdict(self.align_by)
        known = {} if self.align_by == AlignBy() else {ALIGNMENT: json.dumps(chosen, indent=1)}
        if self.reads_lines:
            known[SOURCES] = json.dumps({"lines": True})
        return {**self.describe().vocabulary_files(), **known}

    def _begin(self, tokens: Sequence[list[int]]) -> DecodingStart:
        """Return the model after reading these sources."""
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
        """Return where each written token looked, in one watched pass over finished answers."""
        batch = self._forced(sources, targets).to(self.device)
        records = self.cross_records(
            lambda: self.states(batch),
            read,
            wrote,
        )
        return [replace(record, align_by=self.align_by) for record in records]


class _LineCount:
    """Counts the sources that have several lines, while they are read for a vocabulary."""

    def __init__(self) -> None:
        self.rows = self.several = 0

    def add(self, values: tuple[str, ...]) -> tuple[str, ...]:
        """Return the values of a row after counting it."""
        self.rows += 1
        self.several += "\n" in values[0].strip()
        return values


def _read_align_by(folder: Path) -> AlignBy:
    """Return the attention that words are aligned by, if a run folder names it."""
    path = folder / ALIGNMENT
    try:
        return AlignBy.of(read_json(path))
    except FileNotFoundError:
        return AlignBy()
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise RunError(
            f"{path} cannot be read ({brief(error)}). Delete it to align words by the mean of all "
            "attention, or restore the run from a backup."
        ) from None


def _pairs(source: Tensor, source_mask: Tensor, target: Tensor, target_mask: Tensor) -> Pairs:
    return Pairs(source, source_mask, target, predicted_places(target_mask))
