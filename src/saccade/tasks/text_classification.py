"""Text classification: a label, several labels or a number for a text or a pair of texts."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from saccade.attention.watch import count_heads
from saccade.cancellation import raise_if_cancelled
from saccade.config import Count, NotNegative
from saccade.data.batches.collate import pad
from saccade.data.corpus import Item, Row, Split
from saccade.data.sources.columns import Column
from saccade.data.store.cache import Encoded, encode_once
from saccade.errors import DataError, DecodingError, RecipeError
from saccade.lens.record import AttentionRecord, Side
from saccade.metrics import ClassificationMetricsConfig
from saccade.models import TextClassifier, TextClassifierConfig
from saccade.shapes import Bool, Float, Int, Tensor
from saccade.tasks._shared.answering import Answer, Example, require_no_options, self_attention
from saccade.tasks._shared.base import Batch, Loss, Progress, TaskConfig, json_kind
from saccade.tasks._shared.classifier import (
    CLASSIFIER_FILE,
    LABEL,
    Classifier,
    LabelLossConfig,
    Rows,
    read_about,
)
from saccade.tasks._shared.description import Description, LabelOutput, TextInput
from saccade.tasks._shared.labels import (
    Classification,
    Labels,
    LabelsConfig,
    learn_labels,
    read_labels,
)
from saccade.text import Tokenizer, VocabularyConfig

__all__ = [
    "CLASSIFIER_FILE",
    "LABEL",
    "PAIR",
    "TEXT",
    "ClassificationTextConfig",
    "TextClassification",
    "TextClassificationConfig",
]
log = logging.getLogger(__name__)

TEXT = Column(
    "text", ("sentence", "sentence1", "text_a", "review", "question", "question1", "premise")
)
PAIR = Column("text_pair", ("sentence2", "text_b", "hypothesis", "question2"), required=False)
AT_ONCE = 64
"""Windows that are read together."""
FORMAT = 1
"""Counts up when the same text would be encoded otherwise, so that no old cache is read."""
Texts = tuple[npt.NDArray[np.int64], ...]
"""The tokens of a text, or of both texts of a pair."""


@dataclass(frozen=True, kw_only=True)
class ClassificationTextConfig:
    """How a text is read.

    vocabulary   how it is cut into tokens
    max_length   the most tokens that are read at once, control tokens included
    long         what of a longer text is read: "cut": its beginning; "slide": all of it, in windows
                 that overlap by half, whose probabilities are averaged (of pairs, the second text)
    """

    vocabulary: VocabularyConfig = VocabularyConfig(lowercase=True)
    max_length: Count = 128
    long: Literal["cut", "slide"] = "cut"


@dataclass(frozen=True, kw_only=True)
class TextLabelLossConfig(LabelLossConfig):
    """What is learned from.

    label_smoothing   the share of the truth that is given to all classes alike
    consistency       what it costs that two readings of a text differ because of their dropout
                      (R-Drop, Liang et al. 2021; half of their alpha); each text is then read twice
    """

    consistency: NotNegative = 0.0


@dataclass(frozen=True, kw_only=True)
class TextClassificationConfig(TaskConfig):
    """The options of a text classification recipe."""

    model: TextClassifierConfig
    text: ClassificationTextConfig = ClassificationTextConfig()
    labels: LabelsConfig = LabelsConfig()
    loss: TextLabelLossConfig = TextLabelLossConfig()
    metrics: ClassificationMetricsConfig = ClassificationMetricsConfig()

    def __post_init__(self) -> None:
        self.model.encoder.position.require_room(self.text.max_length, "text.max_length")

    @property
    def columns(self) -> tuple[Column, ...]:
        """A text, perhaps a second one, and the label."""
        return TEXT, PAIR, LABEL

    def create(
        self, train: Split, progress: Progress | None = None, vocabulary: Path | None = None
    ) -> TextClassification:
        """Labels from this data, the vocabulary too or from a folder, and new weights."""
        labels, pairs = learn_labels(train, self.labels), PAIR.name in train.columns
        if vocabulary is not None:
            tokenizer = Tokenizer.load(vocabulary / "tokenizer.json")
        else:
            texts = (text for row in train.read(progress) for text in row.values[:-1])
            tokenizer = Tokenizer.train(texts, self.text.vocabulary)
        return TextClassification(self, tokenizer, labels, pairs=pairs)

    def restore(self, folder: Path) -> TextClassification:
        """The task of a run folder, with new weights."""
        about = read_about(folder)
        return TextClassification(
            self,
            Tokenizer.load(folder / "tokenizer.json"),
            read_labels(folder),
            pairs=bool(about["pairs"]),
            temperature=about["temperature"],
        )


@dataclass(frozen=True)
class Labelled(Batch):
    """Texts between control tokens, padded, and what is to be said of each."""

    tokens: Int[Tensor, "b s"]
    mask: Bool[Tensor, "b s"]
    segments: Int[Tensor, "b s"] | None
    truth: Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class WindowExample(Example):
    """The texts of an input, how many tokens they have, and what is read of them at once."""

    texts: tuple[str, ...]
    encoded: int
    windows: list[Texts]


class TextClassification(Classifier):
    """A classifier with its vocabulary and its labels."""

    name = "text_classification"
    unit = "texts"

    def __init__(
        self,
        config: TextClassificationConfig,
        tokenizer: Tokenizer,
        labels: Labels,
        *,
        pairs: bool,
        temperature: float = 1.0,
    ) -> None:
        super().__init__(labels, config.metrics, temperature)
        self.config, self.columns = config, config.columns
        self.tokenizer, self.pairs = tokenizer, pairs
        self.model: TextClassifier = config.model.build(len(tokenizer), labels.outputs)
        self.controls = 3 if pairs else 2
        if config.text.max_length < 2 * self.controls:
            raise RecipeError(
                f"text.max_length must be at least {2 * self.controls}: control tokens take "
                f"{self.controls} of it"
            )

    def describe(self) -> Description:
        """Read a text or a pair between control tokens, write a label."""
        return Description(
            reads=TextInput(
                tokenizer=self.tokenizer,
                before=(self.tokenizer.cls,),
                after=(self.tokenizer.sep,),
                max_length=self.config.text.max_length,
                pairs=self.pairs,
                long=self.config.text.long,
                num_segments=self.config.model.num_segments,
            ),
            writes=LabelOutput(labels=self.labels, temperature=self.temperature),
            model=self.config.model,
        )

    def forward(self, batch: Labelled) -> Loss:
        """The loss of each text's label, as its kind has it."""
        if self.training and self.config.loss.consistency:
            return self._loss_of_two(batch)
        logits = self.model(batch.tokens, batch.mask, batch.segments).float()
        smoothing = self.config.loss.label_smoothing if self.training else 0.0
        return Loss(self.labels.loss(logits, batch.truth, smoothing), len(logits))

    def _loss_of_two(self, batch: Labelled) -> Loss:
        """The mean loss of two readings, and how far they are from each other."""
        options, segments = self.config.loss, batch.segments
        twice = None if segments is None else segments.repeat(2, 1)
        logits = self.model(batch.tokens.repeat(2, 1), batch.mask.repeat(2, 1), twice).float()
        each = [
            self.labels.loss(half, batch.truth, options.label_smoothing) for half in logits.chunk(2)
        ]
        apart = self.labels.distance(*logits.chunk(2))
        return Loss(sum(each) / 2 + options.consistency * apart, len(batch.tokens))

    def encode(self, split: Split, folder: Path, progress: Progress | None = None) -> Encoded:
        """The tokens of each text, whole, and the label."""
        self.check(split)

        def numbers(rows: list[Row]) -> list[tuple[list[int], ...]]:
            columns = zip(*(row.values[:-1] for row in rows), strict=True)
            texts = [self.tokenizer.encode_batch(list(column)) for column in columns]
            truths = [self.labels.encode(row.values[-1], row.where) for row in rows]
            return list(zip(*texts, truths, strict=True))

        return encode_once(
            split,
            numbers,
            key=f"text_classification {FORMAT} {self.tokenizer.digest} {self.labels.digest}",
            folder=folder,
            limits=None,
            may_be_empty=(LABEL.name,) if self.labels.may_be_empty else (),
            progress=progress,
        )

    def sizes(self, examples: Encoded) -> npt.NDArray[np.int64]:
        """The tokens that are read of each text, with the control tokens."""
        return np.minimum(self._lengths(examples), self.config.text.max_length)[:, None]

    def remarks(self, examples: Encoded) -> Iterator[str]:
        """Also how many texts are too long to be read whole."""
        yield from super().remarks(examples)
        most = self.config.text.max_length
        if long := int((self._lengths(examples) > most).sum()):
            read = "in windows" if self.config.text.long == "slide" else "in part: their beginning"
            yield (
                f"{long:,} of {len(examples):,} texts have more than the {most} tokens of "
                f"text.max_length and are read {read}"
            )

    def collate(self, examples: Encoded, rows: Rows) -> Labelled:
        """These texts as one batch; of a long text the beginning, or in training any window."""
        pieces = []
        for texts in self._texts(examples, rows):
            windows = self._windows(texts)
            chosen = int(torch.randint(len(windows), ())) if self.training else 0
            pieces.append(windows[chosen])
        return self._batch(pieces, self.truth(examples, rows))

    def parse(self, line: str) -> str | tuple[str, ...]:
        """A text; where pairs are read, two with a tab between them."""
        if not self.pairs:
            return line
        parts = tuple(line.split("\t"))
        if len(parts) != 2:
            raise DataError(
                f"this run reads pairs: two texts with one tab between them, got {line[:60]!r}"
            )
        return parts

    def input_of(self, item: Item) -> tuple[str, ...]:
        """A text, or a pair."""
        return item.inputs

    def from_json(self, value: Any) -> str | tuple[str, ...]:
        """A text; where pairs are read, a list of two."""
        if not self.pairs:
            return str(super().from_json(value))
        if not isinstance(value, list) or [type(each) for each in value] != [str, str]:
            raise DataError(f"an input is a list of two texts, got {json_kind(value)}")
        return tuple(value)

    def attention_size(
        self, inputs: Sequence[str | Sequence[str]], options: Mapping[str, Any]
    ) -> int:
        """The tokens of the first window look at each other."""
        windows = (self._windows(texts)[0] for texts in self._read(inputs, 0))
        lengths = [sum(map(len, window)) + self.controls for window in windows]
        return count_heads(self.model) * sum(length**2 for length in lengths)

    def prepare(
        self, inputs: Sequence[str | Sequence[str]], *, first: int = 0, **options: Any
    ) -> list[WindowExample]:
        """Encode the texts or pairs, and divide those that are too long into windows."""
        require_no_options(options)
        examples = []
        for number, (given, texts) in enumerate(
            zip(inputs, self._read(inputs, first), strict=True)
        ):
            windows = self._windows(texts)
            examples.append(
                WindowExample(
                    number=number,
                    length=len(windows) * (sum(map(len, windows[0])) + self.controls),
                    texts=_texts(given),
                    encoded=sum(map(len, texts)) + self.controls,
                    windows=windows,
                )
            )
        return examples

    def warn(self, examples: Sequence[WindowExample]) -> None:
        """Texts that are read in part."""
        most = self.config.text.max_length
        long = [example.number + 1 for example in examples if example.encoded > most]
        if long and self.config.text.long == "cut":
            log.warning(
                "%d of %d inputs (the first is input %d) have more than the %d tokens of "
                'text.max_length; their beginning is read (text.long = "slide" reads all)',
                len(long),
                len(examples),
                long[0],
                most,
            )

    def answer(self, examples: Sequence[WindowExample]) -> list[Classification]:
        """Label a batch, each text by the logits of all its windows."""
        logits = self._logits([window for example in examples for window in example.windows])
        of_each = logits.split([len(example.windows) for example in examples])
        return [self.labels.answer(each, self.temperature) for each in of_each]

    def look(
        self, examples: Sequence[WindowExample], answers: Sequence[Answer]
    ) -> list[AttentionRecord]:
        """Return where each token of the first window looked, in every layer."""
        pieces = [example.windows[0] for example in examples]
        batch = self._batch(pieces, torch.empty(0)).to(self.device)
        sides = [self._side(piece, e.texts) for piece, e in zip(pieces, examples, strict=True)]
        return self_attention(
            self.model, lambda: self.model(batch.tokens, batch.mask, batch.segments), sides
        )

    def force(self, inputs: Sequence[str | Sequence[str]], outputs: Sequence[str]) -> Labelled:
        """The batch in which each input has the given label."""
        pieces = [self._windows(texts)[0] for texts in self._read(inputs, 0)]
        return self._batch(pieces, self.forced(outputs))

    def lengths(self, items: Sequence[Item]) -> list[str]:
        """What was read."""
        return [" ".join(item.inputs) for item in items]

    def logits_of(self, examples: Encoded) -> Float[Tensor, "n c"]:
        """The logits of all examples, of long texts those of the beginning."""
        rows = np.arange(len(examples))
        pieces = [self._windows(texts)[0] for texts in self._texts(examples, rows)]
        return self._logits(pieces)

    def files(self) -> dict[str, str]:
        """The vocabulary, the labels and the temperature."""
        return {"tokenizer.json": self.tokenizer.to_string(), **self.about({"pairs": self.pairs})}

    def check(self, split: Split) -> None:
        """Pairs or single texts, as the run was trained on."""
        if (PAIR.name in split.columns) != self.pairs:
            trained, given = ("pairs", "single texts") if self.pairs else ("single texts", "pairs")
            raise DataError(
                f"this run reads {trained}, but {split.name} has {given}: its columns are "
                f"{', '.join(split.columns)}"
            )

    def _lengths(self, examples: Encoded) -> npt.NDArray[np.int64]:
        """All tokens of each text or pair, read or not, with the control tokens."""
        return np.sum([field.lengths for field in examples.fields[:-1]], 0) + self.controls

    def _texts(self, examples: Encoded, rows: Rows) -> Iterator[Texts]:
        for row in rows:
            yield tuple(field[int(row)] for field in examples.fields[:-1])

    def _read(self, inputs: Sequence[str | Sequence[str]], first: int) -> list[Texts]:
        """The tokens of the inputs."""
        given = [_texts(each) for each in inputs]
        for number, texts in enumerate(given, first + 1):
            if len(texts) != self.controls - 1:
                said = "a pair of texts" if self.pairs else "one text"
                raise DecodingError(f"input {number} must be {said}, got {len(texts)} texts")
        columns = [self.tokenizer.encode_batch(list(column)) for column in zip(*given, strict=True)]
        return [tuple(np.array(ids, np.int64) for ids in row) for row in zip(*columns, strict=True)]

    def _windows(self, texts: Texts) -> list[Texts]:
        """What is read of a text or pair at once; of a pair, the first text stays in view."""
        room = self.config.text.max_length - self.controls
        if sum(map(len, texts)) <= room:
            return [texts]
        *before, last = texts
        if before:  # the longer one gives way, down to half of the room
            before = [before[0][: max(room // 2, room - len(last))]]
            room -= len(before[0])
        if self.config.text.long == "cut":
            return [(*before, last[:room])]
        step = max(1, room // 2)
        starts = range(0, max(1, len(last) - room + step), step)
        return [(*before, last[start : start + room]) for start in starts]

    def _batch(self, pieces: Sequence[Texts], truth: Tensor) -> Labelled:
        cls, sep = [self.tokenizer.cls], [self.tokenizer.sep]
        joined = [
            np.concatenate([cls, *(part for t in texts for part in (t, sep))]) for texts in pieces
        ]
        tokens, mask = pad(joined, self.tokenizer.pad)
        segments = None
        if self.config.model.num_segments:
            firsts = torch.tensor([len(texts[0]) + 2 for texts in pieces])
            segments = (torch.arange(tokens.shape[1]) >= firsts.unsqueeze(1)) & mask
            segments = segments.long() if self.pairs else torch.zeros_like(tokens)
        return Labelled(tokens, mask, segments, truth)

    @torch.no_grad()
    def _logits(self, pieces: Sequence[Texts]) -> Float[Tensor, "n c"]:
        """Return the logits of each window, on the CPU, a few at a time: a long text has many."""
        self.ensure_eval()
        order = sorted(range(len(pieces)), key=lambda i: sum(map(len, pieces[i])))
        logits = torch.empty(len(pieces), self.labels.outputs)
        for at in range(0, len(order), AT_ONCE):
            raise_if_cancelled()
            rows = order[at : at + AT_ONCE]
            batch = self._batch([pieces[i] for i in rows], torch.empty(0)).to(self.device)
            logits[rows] = self.model(batch.tokens, batch.mask, batch.segments).float().cpu()
        return logits

    def _side(self, read: Texts, texts: tuple[str, ...]) -> Side:
        """The tokens that were read, with the control tokens, and the words of all texts."""
        tokens: list[str] = ["[CLS]"]
        words: list[str] = []
        word_of: list[int | None] = [None]
        for ids, text in zip(read, texts, strict=True):
            pieces = self.tokenizer.split(text)[: len(ids)]
            tokens += [*(piece.text for piece in pieces), "[SEP]"]
            places = (piece.word for piece in pieces)
            word_of += [None if i is None else i + len(words) for i in places] + [None]
            words += self.tokenizer.normal(text).split()
        return Side(tuple(tokens), tuple(words), tuple(word_of))


def _texts(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
