"""A throw-away task in one file: count the vowels of a word with an attention model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from saccade.attention import MultiHeadAttention, masks
from saccade.data.batches.collate import pad, pad_rows
from saccade.data.corpus import Item, Row, Split
from saccade.data.sources.columns import Column
from saccade.data.store.cache import Encoded, encode_once
from saccade.lens.record import AttentionRecord, Side
from saccade.metrics import TextMetricsConfig
from saccade.shapes import Tensor
from saccade.tasks import (
    NO_OPTIONS,
    VOCABULARY_FILE,
    Answer,
    Batch,
    Description,
    Evaluation,
    Example,
    LabelOutput,
    Loss,
    Number,
    Options,
    Progress,
    Rows,
    Task,
    TaskConfig,
    TextInput,
    evaluation_of,
    require_no_options,
    self_attention,
    vocabulary_from,
)
from saccade.text import Tokenizer, VocabularyConfig

RECIPE = """
task = "count_vowels"

[model]
dim = 8

[metrics]
names = ["exact_match"]

[training]
max_steps = 100
learning_rate = 0.03
batch_tokens = 400
validate_every = 50
validate_items = 20
checkpoint_every = 100
"""
COUNT = Number(0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class CounterConfig:
    """The model.

    dim         width of the embeddings
    num_heads   number of attention heads
    """

    dim: int = 8
    num_heads: int = 2


@dataclass(frozen=True, kw_only=True)
class CountVowelsConfig(TaskConfig):
    """The options.

    model     the model
    metrics   the metrics
    """

    model: CounterConfig = CounterConfig()
    metrics: TextMetricsConfig = TextMetricsConfig()

    @property
    def columns(self) -> tuple[Column, ...]:
        return Column("word"), Column("vowels", numbers=True)

    def create(
        self, train: Split, progress: Progress | None = None, vocabulary: Path | None = None
    ) -> CountVowels:
        words = (row.values[0] for row in train)
        letters = VocabularyConfig(kind="character", size=60)
        return CountVowels(self, vocabulary_from(vocabulary, words, letters))

    def restore(self, folder: Path) -> CountVowels:
        return CountVowels(self, Tokenizer.load(folder / VOCABULARY_FILE))


class Counter(nn.Module):
    """A number for each letter, after attention to all letters; the count is their sum."""

    def __init__(self, vocabulary: int, config: CounterConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, config.dim)
        self.attention = MultiHeadAttention(config.dim, config.num_heads)
        self.head = nn.Linear(config.dim, 1)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        x = self.embedding(tokens)
        x = x + self.attention(x, mask=masks.padding(mask))
        return (self.head(x) * mask.unsqueeze(-1)).sum(1)


@dataclass(frozen=True)
class Words(Batch):
    """Padded words and their numbers of vowels."""

    tokens: Tensor
    mask: Tensor
    counts: Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class WordExample(Example):
    """A word."""

    word: str
    tokens: list[int]


class CountVowels(Task):
    """Counts the vowels of a word."""

    name = "count_vowels"
    unit = "letters"
    config: CountVowelsConfig

    def __init__(self, config: CountVowelsConfig, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.config, self.tokenizer = config, tokenizer
        self.model: Counter = Counter(len(tokenizer), config.model)
        self.selection_metric = config.metrics.names[0]

    def describe(self) -> Description:
        return Description(
            reads=TextInput(tokenizer=self.tokenizer, max_length=30),
            writes=LabelOutput(labels=COUNT),
            model=self.config.model,
        )

    def forward(self, batch: Words) -> Loss:
        errors = self.model(batch.tokens, batch.mask)[:, 0] - batch.counts
        return Loss((errors**2).sum(), len(batch.counts))

    def encode(self, split: Split, folder: Path, progress: Progress | None = None) -> Encoded:
        def numbers(rows: list[Row]) -> list[tuple[list[int], ...]]:
            words = self.tokenizer.encode_batch([row.values[0] for row in rows])
            counts = [[int(row.values[1])] for row in rows]
            return list(zip(words, counts, strict=True))

        key = f"count_vowels 1 {self.tokenizer.digest}"
        return encode_once(
            split, numbers, key=key, folder=folder, limits=(30, 1), progress=progress
        )

    def sizes(self, examples: Encoded) -> np.ndarray:
        return examples.fields[0].lengths[:, None]

    def collate(self, examples: Encoded, rows: Rows) -> Words:
        counts = [float(examples.fields[1][int(row)][0]) for row in rows]
        return Words(*pad_rows(examples.fields[0], rows), torch.tensor(counts))

    def force(self, inputs: Sequence[str], outputs: Sequence[str]) -> Words:
        tokens = self.tokenizer.encode_batch(list(inputs))
        return Words(*pad(tokens), torch.tensor([float(text) for text in outputs]))

    def prepare(
        self, inputs: Sequence[str], options: Options = NO_OPTIONS, *, first: int = 0
    ) -> list[WordExample]:
        require_no_options(options)
        encoded = self.tokenizer.encode_batch(list(inputs))
        return [
            WordExample(
                number=number,
                length=min(len(ids), 30),
                encoded=len(ids),
                weights=min(len(ids), 30) ** 2,
                blank=not ids,
                word=word,
                tokens=ids[:30],
            )
            for number, (word, ids) in enumerate(zip(inputs, encoded, strict=True), first)
        ]

    def answer(self, examples: Sequence[WordExample]) -> list[Answer]:
        counts = self._run(examples)[:, 0].tolist()
        return [Answer(str(round(count)), 0.0) for count in counts]

    def look(
        self, examples: Sequence[WordExample], answers: Sequence[Answer]
    ) -> list[AttentionRecord]:
        sides = [
            Side(tuple(self.tokenizer.pieces(e.tokens)), (e.word,), (0,) * len(e.tokens))
            for e in examples
        ]
        return self_attention(self.model, lambda: self._run(examples), sides)

    def measure(self, items: list[Item], answers: Sequence[Answer], *, quick: bool) -> Evaluation:
        texts = [answer.text for answer in answers]
        tallies = self.config.metrics.tally(texts, [item.references for item in items])
        return evaluation_of(items, texts, tallies, self.config.metrics, quick=quick)

    def files(self) -> dict[str, str]:
        return self.describe().vocabulary_files()

    def _run(self, examples: Sequence[WordExample]) -> Tensor:
        tokens, mask = pad([example.tokens for example in examples])
        return self.model(tokens.to(self.device), mask.to(self.device))
