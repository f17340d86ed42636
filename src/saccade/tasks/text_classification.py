"""Text classification: a label, several labels or a number for a text or a pair of texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from saccade.cancellation import raise_if_cancelled
from saccade.config import Conflict, Count, NotNegative
from saccade.data.batches.collate import pad
from saccade.data.corpus import Item, Row, Split
from saccade.data.sources.columns import Column
from saccade.data.store.cache import Encoded, encode_once
from saccade.errors import DataError, DecodingError, RecipeError
from saccade.lens.record import AttentionRecord, Side
from saccade.metrics import ClassificationMetricsConfig
from saccade.models import TextClassifier, TextClassifierConfig
from saccade.shapes import Bool, Float, Int, Tensor
from saccade.tasks._shared.answering import NO_OPTIONS, Answer, Example, Options, require_no_options
from saccade.tasks._shared.attention_records import classifier_attention
from saccade.tasks._shared.base import (
    Batch,
    Loss,
    Progress,
    Rows,
    TaskConfig,
    vocabulary_from,
)
from saccade.tasks._shared.classifier import (
    LABEL,
    NEW,
    AboutClassifier,
    Classifier,
    label_column,
    read_about,
)
from saccade.tasks._shared.description import (
    VOCABULARY_FILE,
    Description,
    LabelOutput,
    TextInput,
)
from saccade.tasks._shared.label_baselines import TextFeatures
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
from saccade.tasks._shared.predictor import json_kind
from saccade.text import Tokenizer, VocabularyConfig

TEXT = Column(
    "text",
    (
        *("sentence", "sentence1", "text_a", "review", "question", "question1", "premise"),
        *("content", "document", "article", "body", "comment", "message", "tweet", "utterance"),
        *("description", "headline", "title"),
    ),
)
PAIR = Column("text_pair", ("sentence2", "text_b", "hypothesis", "question2"), required=False)
AT_ONCE = 64
"""The number of windows that are read together."""
FORMAT = 1
"""The version of the encoding; it changes when the same text would be encoded differently."""
Texts = tuple[npt.NDArray[np.int64], ...]
"""The token ids of a text, or of both texts of a pair."""


@dataclass(frozen=True, kw_only=True)
class ClassificationTextConfig:
    """The reading of texts.

    vocabulary   the vocabulary
    max_length   maximum number of tokens that are read at once, control tokens included
    long         the part of a longer text that is read: "cut": its beginning; "slide": all of it,
                 in windows that overlap by half, whose probabilities are averaged (of a pair, the
                 second text)
    """

    vocabulary: VocabularyConfig = VocabularyConfig(lowercase=True)
    max_length: Count = 128
    long: Literal["cut", "slide"] = "cut"


@dataclass(frozen=True, kw_only=True)
class TextLabelLossConfig(LabelLossConfig):
    """The loss of labels.

    consistency   the weight of the difference between two readings of a text with different dropout
                  (R-Drop, Liang et al. 2021; half of their alpha); 0 for none; each text is read
                  twice, which doubles the cost and helps on small data
    """

    consistency: NotNegative = 0.0


@dataclass(frozen=True, kw_only=True)
class TextClassificationConfig(TaskConfig):
    """The options of a text classification recipe.

    model     the encoder of texts and its head
    text      the vocabulary and the reading of texts
    labels    the kind of the labels
    loss      the loss of training
    metrics   the metrics of evaluations; the first one selects the best weights
    """

    model: TextClassifierConfig
    text: ClassificationTextConfig = ClassificationTextConfig()
    labels: LabelsConfig = LabelsConfig()
    loss: TextLabelLossConfig = TextLabelLossConfig()
    metrics: ClassificationMetricsConfig = ClassificationMetricsConfig()

    def __post_init__(self) -> None:
        self.model.encoder.position.require_room(self.text.max_length, "text.max_length")

    def conflicts(self) -> Iterator[Conflict]:
        """Yield options of classes if the labels are numbers."""
        yield from label_conflicts(self.labels, self.loss)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns `text`, `text_pair` (optional) and `label`."""
        return TEXT, PAIR, label_column(self.labels)

    def create(
        self, train: Split, progress: Progress | None = None, vocabulary: Path | None = None
    ) -> TextClassification:
        """Return a task with new weights, with the labels and the vocabulary of this data."""
        labels, pairs = learn_labels(train, self.labels), PAIR.name in train.columns
        texts = (text for row in train.read(progress) for text in row.values[:-1])
        tokenizer = vocabulary_from(vocabulary, texts, self.text.vocabulary)
        about = AboutClassifier(pairs=pairs, counts=count_labels(train, labels))
        return TextClassification(self, tokenizer, labels, about)

    def restore(self, folder: Path) -> TextClassification:
        """Return the task of a run folder, with new weights."""
        tokenizer = Tokenizer.load(folder / VOCABULARY_FILE)
        return TextClassification(self, tokenizer, read_labels(folder), read_about(folder))


@dataclass(frozen=True)
class Labelled(Batch):
    """Padded texts between control tokens, and their labels."""

    tokens: Int[Tensor, "b s"]
    mask: Bool[Tensor, "b s"]
    segments: Int[Tensor, "b s"] | None
    truth: Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class WindowExample(Example):
    """A text or a pair.

    Attributes:
        texts: The texts.
        windows: The token ids that are read at once.
    """

    texts: tuple[str, ...]
    windows: list[Texts]


class TextClassification(Classifier):
    """A classifier with its vocabulary and its labels.

    Attributes:
        pairs: Whether it reads pairs of texts.
        controls: The number of control tokens of an input.
    """

    name = "text_classification"
    config: TextClassificationConfig
    unit = "texts"

    def __init__(
        self,
        config: TextClassificationConfig,
        tokenizer: Tokenizer,
        labels: Labels,
        about: AboutClassifier = NEW,
    ) -> None:
        super().__init__(labels, config.metrics, config.loss, about)
        self.config = config
        self.tokenizer, self.pairs = tokenizer, about.pairs
        self.model: TextClassifier = config.model.build(len(tokenizer), labels.outputs)
        self.controls = 3 if self.pairs else 2
        if config.text.max_length < 2 * self.controls:
            raise RecipeError(
                f"text.max_length must be at least {2 * self.controls}, since "
                f"{self.controls} of it are control tokens; got {config.text.max_length}"
            )

    def describe(self) -> Description:
        """Return that it reads a text or a pair between control tokens and labels it."""
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
        """Return the loss of the labels."""
        if self.training and self.config.loss.consistency:
            return self._loss_of_two(batch)
        logits = self.model(batch.tokens, batch.mask, batch.segments).float()
        return self.batch_loss(logits, batch.truth)

    def _loss_of_two(self, batch: Labelled) -> Loss:
        """Return the mean loss of two readings, and the distance between them."""
        segments = batch.segments
        twice = None if segments is None else segments.repeat(2, 1)
        logits = self.model(batch.tokens.repeat(2, 1), batch.mask.repeat(2, 1), twice).float()
        first, second = (self.label_loss(half, batch.truth) for half in logits.chunk(2))
        apart = self.config.loss.consistency * self.labels.distance(*logits.chunk(2))
        return Loss((first + second) / 2 + apart, len(batch.tokens))

    def encode(self, split: Split, folder: Path, progress: Progress | None = None) -> Encoded:
        """Return the token ids of each complete text, and the label."""
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
        """Return the number of tokens that are read of each text, with the control tokens."""
        return np.minimum(self._lengths(examples), self.config.text.max_length)[:, None]

    def remarks(self, examples: Encoded) -> Iterator[str]:
        """Also yield how many texts are too long to be read at once."""
        yield from super().remarks(examples)
        most = self.config.text.max_length
        if long := int((self._lengths(examples) > most).sum()):
            slides = self.config.text.long == "slide"
            cut = 'only their beginning is read (text.long = "slide" reads all)'
            part = "they are read in windows" if slides else cut
            yield (
                f"{long:,} of {len(examples):,} texts have more than the {most} tokens of "
                f"text.max_length; {part}"
            )

    def collate(self, examples: Encoded, rows: Rows) -> Labelled:
        """Return the texts at `rows` as one batch; in training, any window of a long text."""
        pieces = []
        for texts in self._texts(examples, rows):
            windows = self._windows(texts)
            chosen = int(torch.randint(len(windows), ())) if self.training else 0
            pieces.append(windows[chosen])
        return self._batch(pieces, self.truth(examples, rows))

    def parse(self, line: str) -> str | tuple[str, ...]:
        """Return a line as a text, or as a pair of two texts with a tab between them."""
        if not self.pairs:
            return line
        parts = tuple(line.split("\t"))
        if len(parts) != 2:
            raise DataError(
                f"this run reads pairs: two texts with one tab between them, got {line[:60]!r}; "
                "write a tab between the two texts"
            )
        return parts

    def input_of(self, item: Item) -> tuple[str, ...]:
        """Return the text or the pair of an item."""
        return item.inputs

    def from_json(self, value: object) -> str | tuple[str, ...]:
        """Return a JSON text, or a JSON list of two texts as a pair."""
        if not self.pairs:
            return str(super().from_json(value))
        if not isinstance(value, list) or [type(text) for text in value] != [str, str]:
            raise DataError(
                f"an input is a list of two texts, got {json_kind(value)}; "
                'send a list such as ["first", "second"]'
            )
        return tuple(value)

    def prepare(
        self,
        inputs: Sequence[str | Sequence[str]],
        options: Options = NO_OPTIONS,
        *,
        first: int = 0,
    ) -> list[WindowExample]:
        """Encode the texts or pairs, and divide those that are too long into windows."""
        require_no_options(options)
        examples = []
        for number, (given, texts) in enumerate(
            zip(inputs, self._read(inputs, first), strict=True), first
        ):
            windows = self._windows(texts)
            length = sum(map(len, windows[0])) + self.controls
            examples.append(
                WindowExample(
                    number=number,
                    length=len(windows) * length,
                    encoded=sum(map(len, texts)) + self.controls,
                    weights=length**2,
                    texts=_texts(given),
                    windows=windows,
                )
            )
        return examples

    def answer(self, examples: Sequence[WindowExample]) -> list[Classification]:
        """Label a batch; the probabilities of the windows of a text are averaged."""
        logits = self._logits([window for example in examples for window in example.windows])
        of_texts = logits.split([len(example.windows) for example in examples])
        return [self.labels.answer(windows, self.temperature) for windows in of_texts]

    def look(
        self, examples: Sequence[WindowExample], answers: Sequence[Answer]
    ) -> list[AttentionRecord]:
        """Return where the queries of the pooling, or else all tokens, of a first window looked."""
        pieces = [example.windows[0] for example in examples]
        batch = self._batch(pieces, torch.empty(0)).to(self.device)
        sides = [self._side(piece, e.texts) for piece, e in zip(pieces, examples, strict=True)]
        return classifier_attention(
            self.model, lambda: self.model(batch.tokens, batch.mask, batch.segments), sides
        )

    def force(self, inputs: Sequence[str | Sequence[str]], outputs: Sequence[str]) -> Labelled:
        """Return the batch in which each input has the given label."""
        pieces = [self._windows(texts)[0] for texts in self._read(inputs, 0)]
        return self._batch(pieces, self.forced(outputs))

    def features(self) -> TextFeatures:
        """Return the words of the texts."""
        return TextFeatures()

    def lengths(self, items: Sequence[Item]) -> list[str]:
        """Return the texts that were read."""
        return [" ".join(item.inputs) for item in items]

    def logits_of(self, examples: Encoded) -> Float[Tensor, "n c"]:
        """Return the logits of all examples; of a long text, those of its beginning."""
        rows = np.arange(len(examples))
        pieces = [self._windows(texts)[0] for texts in self._texts(examples, rows)]
        return self._logits(pieces)

    def files(self) -> dict[str, str]:
        """Return the vocabulary, the labels and the temperature."""
        return {**self.describe().vocabulary_files(), **self.about(pairs=self.pairs)}

    def check(self, split: Split) -> None:
        """Raise unless data has pairs or single texts, as the data of training had."""
        if (PAIR.name in split.columns) != self.pairs:
            trained, other = ("pairs", "single texts") if self.pairs else ("single texts", "pairs")
            raise DataError(
                f"this run reads {trained}, but {split.name} has {other}: its columns are "
                f"{', '.join(split.columns)}; "
                "choose the columns with --columns"
            )

    def _lengths(self, examples: Encoded) -> npt.NDArray[np.int64]:
        """Return the number of all tokens of each text or pair, with the control tokens."""
        return np.sum([field.lengths for field in examples.fields[:-1]], 0) + self.controls

    def _texts(self, examples: Encoded, rows: Rows) -> Iterator[Texts]:
        for row in rows:
            yield tuple(field[int(row)] for field in examples.fields[:-1])

    def _read(self, inputs: Sequence[str | Sequence[str]], first: int) -> list[Texts]:
        """Return the token ids of inputs."""
        given = [_texts(one) for one in inputs]
        for number, texts in enumerate(given, first + 1):
            if len(texts) != self.controls - 1:
                kind = "a pair of texts" if self.pairs else "one text"
                raise DecodingError(
                    f"input {number} must be {kind}, got {len(texts)} texts; "
                    "pass as many texts as in training"
                )
        columns = [self.tokenizer.encode_batch(list(column)) for column in zip(*given, strict=True)]
        return [tuple(np.array(ids, np.int64) for ids in row) for row in zip(*columns, strict=True)]

    def _windows(self, texts: Texts) -> list[Texts]:
        """Return what is read at once of an input; all windows of a pair have its first text."""
        room = self.config.text.max_length - self.controls
        if sum(map(len, texts)) <= room:
            return [texts]
        *before, last = texts
        if before:  # the longer text is shortened, down to half of the room
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
        """Return the logits of windows, on the CPU, computed a few at a time."""
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
        """Return the tokens that were read, with control tokens, and the words of all texts."""
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
