"""Language modeling: plain text in, a model that says how a text goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from saccade.attention.watch import count_heads
from saccade.config import Conflict, Count
from saccade.data.batches.blocks import Blocks, in_stream, packed
from saccade.data.batches.collate import mask_of, pad
from saccade.data.corpus import Item, Row, Split
from saccade.data.sources.columns import Column
from saccade.data.store.cache import Encoded, encode_once
from saccade.decoding import (
    DecodingStart,
    Eager,
    GenerationConfig,
    GenerationLimits,
    GenerationRequest,
    Hypothesis,
    TextEngine,
    Windowed,
    stream,
)
from saccade.errors import DataError, RecipeError
from saccade.layers.cross_entropy import cross_entropy
from saccade.lens.record import AttentionRecord, Side
from saccade.metrics import language_scores
from saccade.metrics.score import IntervalsConfig
from saccade.models import LanguageModel
from saccade.models.language_models import LanguageModelConfig
from saccade.shapes import Int, Tensor
from saccade.tasks._shared.answering import Answer, Example, OnBatch, self_attention
from saccade.tasks._shared.base import Batch, Evaluation, Loss, Progress, Task, TaskConfig
from saccade.tasks._shared.description import Description, GeneratedText, TextInput
from saccade.text import Tokenizer, VocabularyConfig

log = logging.getLogger(__name__)

TEXT = Column("text", ("sentence", "content", "document", "article", "body"), running=True)
FORMAT = 1
"""Counts up when the same text would be encoded otherwise, so that no old cache is read."""
LONGEST_ITEM = 16 * 1024
"""Characters of running text that are measured together."""
CONTINUED = 20
"""Items at most of which an evaluation also shows how the model would go on."""
PROMPT, CONTINUATION = 80, 40
"""The characters of an item that it goes on from then, and the tokens it writes."""
READ_AT_ONCE = 8192
"""Tokens of a batch in which texts are measured."""
HALF = "\N{REPLACEMENT CHARACTER}"
"""How half a character shows."""


@dataclass(frozen=True, kw_only=True)
class LanguageTextConfig:
    """How text is read.

    vocabulary   how it is cut into tokens
    block        the most tokens that the model sees at once
    layout       "stream": all text is one, cut anywhere, in training at other places each time;
                 "packed": a block holds whole documents or pieces of long ones, and none of them
                 sees another. Positions are not restarted, they count from the block's beginning
    opening      for "stream": what stands before every prompt, such as a line end where prompts
                 begin as lines do; without it an empty prompt goes on from the stop token
    """

    vocabulary: VocabularyConfig = VocabularyConfig()
    block: Count = 256
    layout: Literal["stream", "packed"] = "stream"
    opening: str = ""

    def __post_init__(self) -> None:
        if self.opening and self.layout == "packed":
            raise RecipeError(
                'text.opening is for layout = "stream"; a packed document begins with the start '
                "token, and so does a prompt"
            )


@dataclass(frozen=True, kw_only=True)
class LanguageModelingConfig(TaskConfig):
    """The options of a language modeling recipe."""

    model: LanguageModelConfig
    text: LanguageTextConfig = LanguageTextConfig()
    generation: GenerationConfig = GenerationConfig(sample=True, temperature=0.8)
    metrics: IntervalsConfig = IntervalsConfig()

    def __post_init__(self) -> None:
        self.model.decoder.position.require_room(self.text.block, "text.block")

    def conflicts(self) -> Iterator[Conflict]:
        """A limit in relation to an input."""
        yield from self.generation.ratio_conflict("because an input is continued, not answered")

    @property
    def columns(self) -> tuple[Column, ...]:
        """Texts."""
        return (TEXT,)

    def create(
        self, train: Split, progress: Progress | None = None, vocabulary: Path | None = None
    ) -> LanguageModeling:
        """A vocabulary made from this data or taken from a folder, and new weights."""
        if vocabulary is not None:
            return self.restore(vocabulary)
        texts = (row.values[0] for row in train)
        return LanguageModeling(
            self, Tokenizer.train(texts, self.text.vocabulary, progress=progress)
        )

    def restore(self, folder: Path) -> LanguageModeling:
        """The task of a run folder, with new weights."""
        return LanguageModeling(self, Tokenizer.load(folder / "tokenizer.json"))


@dataclass(frozen=True)
class Passages(Batch):
    """Tokens and what follows each of them, padded.

    `documents` tells them apart where a row holds several; padding is of document -1.
    """

    tokens: Int[Tensor, "b t"]
    following: Int[Tensor, "b t"]
    documents: Int[Tensor, "b t"] | None
    places: Int[Tensor, " n"]
    """Where in the flattened `following` there is something to predict."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ContextExample(Example):
    """The tokens that an answer continues, and how to write it."""

    tokens: list[int]
    settings: GenerationConfig


class LanguageModeling(Task):
    """A language model with its vocabulary.

    Its examples are blocks of text, not rows: `sizes` and `collate` count blocks.
    """

    name = "language_modeling"
    selection_metric = "perplexity"

    def __init__(self, config: LanguageModelingConfig, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.config, self.columns = config, config.columns
        self.tokenizer = tokenizer
        self.model: LanguageModel = config.model.build(len(tokenizer))
        self.engine: TextEngine = Eager(self._begun)
        self._begin = self.before_texts()
        self._blocks: dict[str, Blocks] = {}

    def describe(self) -> Description:
        """Read the beginning of a text, write its continuation."""
        text, begin = self.config.text, tuple(self.before_texts())
        anywhere = text.layout == "stream" and not text.opening
        return Description(
            reads=TextInput(
                tokenizer=self.tokenizer,
                before=() if anywhere else begin,
                empty=begin,
                opening=text.opening,
                max_length=text.block,
                long="end",
            ),
            writes=GeneratedText(
                tokenizer=self.tokenizer,
                start=None,
                options=self.config.generation,
                window=text.block,
            ),
            model=self.config.model,
        )

    def forward(self, batch: Passages) -> Loss:
        """Cross entropy of each token, given those before it."""
        x = self.model.hidden(batch.tokens, batch.documents)
        found = cross_entropy(
            x.flatten(0, 1).index_select(0, batch.places),
            self.model.output,
            batch.following.flatten().index_select(0, batch.places),
        )
        return Loss(found.total, len(batch.places))

    def encode(self, split: Split, folder: Path, progress: Progress | None = None) -> Encoded:
        """The tokens of all text, with a stop between documents."""
        key = f"language_modeling {FORMAT} {self.tokenizer.digest} {self.tokenizer.stop}"
        return encode_once(
            split,
            self._running() if split.running else self._rows,
            key=f"{key} {'running' if split.running else 'documents'}",
            folder=folder,
            limits=None,
            may_be_empty=split.columns if split.running else (),  # a blank part is text, too
            progress=progress,
        )

    def sizes(self, examples: Encoded) -> npt.NDArray[np.int64]:
        """The tokens of each block."""
        return self._cut(examples).sizes[:, None]

    def collate(self, examples: Encoded, rows: Sequence[int] | npt.NDArray[np.int64]) -> Passages:
        """These blocks as one batch; in training, windows of a stream move on by chance."""
        blocks, text = self._cut(examples), self.config.text
        moving = self.training and text.layout == "stream"
        taken = blocks.take(rows, torch.randint(text.block, (len(rows),)).numpy() if moving else 0)
        real = mask_of(taken.sizes)
        tokens, following, documents = torch.zeros((3, *real.shape), dtype=torch.long)
        tokens[real] = torch.from_numpy(taken.tokens)
        following[real] = torch.from_numpy(taken.following)
        documents[real] = torch.from_numpy(taken.document)
        several = bool(documents.any())
        return Passages(
            tokens,
            following,
            documents.masked_fill(~real, -1) if several else None,
            real.flatten().nonzero().squeeze(1),
        )

    def items(self, split: Split) -> Iterator[Item]:
        """A document is a question without an answer; of running text, some parts together are."""
        if not split.running:
            yield from (Item(row.values, (), row.line) for row in split if row.values[0].strip())
            return
        for _, rows in groupby(split, key=lambda row: row.file):
            yield from _joined(rows)

    @property
    def comparison_metric(self) -> str:
        """The one that does not depend on the vocabulary."""
        return "bits_per_character"

    def input_of(self, item: Item) -> str:
        """How a text begins."""
        return item.inputs[0][:PROMPT]

    def attention_size(self, inputs: Sequence[str], options: Mapping[str, Any]) -> int:
        """The tokens of prompt and answer look at each other, in the last block."""
        written = self.config.generation.changed(options).max_length
        lengths = [min(len(ids) + written, self._size) for ids in self._contexts(inputs)]
        return count_heads(self.model) * sum(length**2 for length in lengths)

    def prepare(
        self, inputs: Sequence[str], *, first: int = 0, **options: Any
    ) -> list[ContextExample]:
        """Encode the prompts; `options` are those of `[generation]`.

        Prompts of equal length are answered together. When prompt and answer fill the block, the
        last half of it is read again and writing continues.
        """
        settings = self.config.generation.changed(options)
        return [
            ContextExample(
                number=number,
                length=min(len(ids), self._size),
                group=min(len(ids), self._size),
                tokens=ids,
                settings=settings,
            )
            for number, ids in enumerate(self._contexts(inputs), first)
        ]

    def warn(self, examples: Sequence[ContextExample]) -> None:
        """Prompts that are longer than a block."""
        for example in examples:
            if len(example.tokens) > self._size:
                log.warning(
                    "input %d has %d tokens; the model sees the last %d (text.block)",
                    example.number + 1,
                    len(example.tokens),
                    self._size,
                )

    def answer(self, examples: Sequence[ContextExample]) -> list[Answer]:
        """Continue a batch of prompts with the engine."""
        settings = examples[0].settings
        request = GenerationRequest(
            limits=self.limits(settings.max_length),
            options=settings,
            rows=[example.number for example in examples],
        )
        found = self.engine.generate([example.tokens for example in examples], request)
        return [
            self._written(example.tokens, hypotheses)
            for example, hypotheses in zip(examples, found, strict=True)
        ]

    def look(
        self, examples: Sequence[ContextExample], answers: Sequence[Answer]
    ) -> list[AttentionRecord]:
        """Return where each token looked: one watched pass over each finished text."""
        records = []
        for example, answer in zip(examples, answers, strict=True):
            written = answer.tokens
            if written is None:
                written = tuple(self.tokenizer.encode_part(answer.text))
            records.append(self._look([*example.tokens, *written]))
        return records

    def stream(self, prompt: str, **options: Any) -> Generator[str, None, bool]:
        """The text of `predict`'s answer in pieces, as they are written.

        A piece is never half a character. What a beam writes comes as one piece. The generator's
        own value is whether the text is finished.
        """
        settings = self.config.generation.changed(options)
        if settings.beam > 1:
            return _at_once(self.predict([prompt], **options)[0])
        examples = self.prepare([prompt], **options)
        self.warn(examples)
        context = examples[0].tokens
        limits = self.limits(settings.max_length)
        self.ensure_eval()
        read = torch.tensor([context], device=self.device)
        window = Windowed(self.model, self._size)
        with torch.no_grad():
            state = window.start(read)
        return self._spoken(context, stream(window, state, read[:, -1], limits, options=settings))

    def force(self, inputs: Sequence[str], outputs: Sequence[str]) -> Passages:
        """The batch in which each input goes on with the given output, which alone is predicted.

        Of what is longer than a block, the end.
        """
        texts, given = [], []
        for context, output in zip(self._contexts(inputs), outputs, strict=True):
            written = self.tokenizer.encode_part(output)
            texts.append([*context, *written][-self._size - 1 :])
            given.append(max(0, len(texts[-1]) - 1 - len(written)))
        tokens, real = pad([ids[:-1] for ids in texts])
        following, _ = pad([ids[1:] for ids in texts])
        new = real & (torch.arange(real.shape[1]) >= torch.tensor(given).unsqueeze(1))
        return Passages(tokens, following, None, new.flatten().nonzero().squeeze(1))

    def evaluate(
        self,
        items: Iterable[Item],
        *,
        quick: bool = False,
        on_batch: OnBatch | None = None,
        batch_size: int = 64,
        **options: Any,
    ) -> Evaluation:
        """How surprised the model is by each item's text; of few items also how it would go on.

        Each text is read in blocks that overlap by half, so that a token is predicted from at least
        half a block, if so much is before it.
        """
        items, settings = list(items), self.config.generation.changed(options)
        texts = [item.inputs[0] for item in items]
        tokens = [self._encoded(text) for text in texts]
        scores = language_scores(
            self._nlls(tokens, on_batch),
            [len(ids) for ids in tokens],
            [len(text) for text in texts],
            samples=0 if quick else self.config.metrics.samples,
            seed=self.config.metrics.seed,
        )
        answers = [""] * len(items)
        if not quick and len(items) <= CONTINUED:
            prompts = [self.input_of(item) for item in items]
            shorter = {"max_length": min(CONTINUATION, settings.max_length), **options}
            found = self.predict(prompts, on_batch=on_batch, batch_size=batch_size, **shorter)
            answers = [answer.text for answer in found]
        return Evaluation(scores, answers, items)

    def limits(self, longest: int) -> GenerationLimits:
        """Answers of `longest` tokens at most, among which no control token but the stop is."""
        controls = self.tokenizer.controls
        unwritten = controls.ids if controls.unknown is None else {*controls.ids, controls.unknown}
        return GenerationLimits(
            stop=self.tokenizer.stop,
            max_length=longest,
            forbidden=tuple(sorted(unwritten - {self.tokenizer.stop})),
        )

    def files(self) -> dict[str, str]:
        """The vocabulary."""
        return self.vocabularies()

    def vocabularies(self) -> dict[str, str]:
        """The one it reads and writes in."""
        return {"tokenizer.json": self.tokenizer.to_string()}

    @property
    def _size(self) -> int:
        return self.config.text.block

    def before_texts(self) -> list[int]:
        """What the first token of a text is predicted from."""
        text, stop = self.config.text, self.tokenizer.stop  # which no text can do without
        if text.layout == "packed":
            return [self.tokenizer.start]
        return self.tokenizer.encode_part(text.opening) or [stop]

    def _encoded(self, text: str) -> list[int]:
        after_text = bool(self.config.text.opening)
        return self.tokenizer.encode_part(text) if after_text else self.tokenizer.encode(text)

    def _contexts(self, prompts: Sequence[str]) -> list[list[int]]:
        """What the answer to each prompt goes on from."""
        found = [self._encoded(text) for text in prompts]
        if self.config.text.layout == "stream" and not self.config.text.opening:
            return [ids or self._begin for ids in found]  # in a stream, a prompt may stand anywhere
        return [[*self._begin, *ids] for ids in found]

    def _running(self) -> Callable[[list[Row]], list[tuple[list[int], ...]]]:
        """Encodes parts of running text: joined they are the text, with a stop between files."""
        before: str | None = None

        def parts(rows: list[Row]) -> list[tuple[list[int], ...]]:
            nonlocal before
            found: list[tuple[list[int], ...]] = []
            for row in rows:
                if row.file == before:
                    found.append((self.tokenizer.encode_part(row.values[0]),))
                else:
                    between = [] if before is None else [self.tokenizer.stop]
                    found.append(([*between, *self.tokenizer.encode(row.values[0])],))
                before = row.file
            return found

        return parts

    def _rows(self, rows: list[Row]) -> list[tuple[list[int], ...]]:
        """Encodes documents, each with a stop; one without tokens stays empty."""
        found = self.tokenizer.encode_batch([row.values[0] for row in rows])
        return [([*ids, self.tokenizer.stop] if ids else [],) for ids in found]

    def _cut(self, examples: Encoded) -> Blocks:
        """The blocks of the text, kept for the next time."""
        if examples.key not in self._blocks:
            tokens = examples.fields[0].tokens
            if self.config.text.layout == "packed":
                start, stop = self.tokenizer.start, self.tokenizer.stop
                blocks = packed(tokens, self._size, start=start, stop=stop)
            else:
                blocks = in_stream(tokens, self._size)
            if not len(blocks):
                raise DataError(
                    f"a text of {len(tokens)} token has nothing to predict; give more text"
                )
            self._blocks[examples.key] = blocks
        return self._blocks[examples.key]

    def _begun(self, contexts: Sequence[list[int]]) -> DecodingStart:
        """The model after reading these contexts, which are of one length."""
        window = Windowed(self.model, self._size)
        read = torch.tensor([ids[-self._size :] for ids in contexts], device=self.device)
        return DecodingStart(window, window.start(read), read[:, -1])

    def _written(self, context: list[int], found: Sequence[Hypothesis]) -> Answer:
        chosen, *others = (
            Answer(
                self._said(context, list(each.tokens)),
                each.score,
                finished=each.finished,
                tokens=each.tokens,
            )
            for each in found
        )
        return replace(chosen, alternatives=tuple(others))

    def _said(self, context: list[int], written: list[int]) -> str:
        """The text that was written; the whole is decoded, or the space at a seam would be lost."""
        decode = self.tokenizer.decode
        return decode([*context, *written])[len(decode(context)) :]

    def _spoken(
        self, context: list[int], tokens: Generator[int, None, bool]
    ) -> Generator[str, None, bool]:
        """The text as it grows; what may be half a character waits for the rest of it."""
        known, new = context, list[int]()
        while True:
            try:
                new.append(next(tokens))
            except StopIteration as end:
                finished: bool = end.value
                break
            text = self._said(known, new)
            if text and not text.endswith(HALF):
                yield text
                known, new = new, []
        if text := self._said(known, new):
            yield text
        return finished

    def _look(self, ids: list[int]) -> AttentionRecord:
        """Where each token looked: one pass over the finished text, of which the last block."""
        ids = ids[-self._size :]
        words, word_of = self.tokenizer.words(ids)
        side = Side(tuple(self.tokenizer.pieces(ids)), tuple(words), tuple(word_of))
        read = torch.tensor([ids], device=self.device)
        [record] = self_attention(self.model, lambda: self.model.hidden(read), [side])
        return record

    @torch.no_grad()
    def _nlls(self, texts: list[list[int]], on_batch: OnBatch | None) -> list[float]:
        """-Σ ln p of the tokens of each text."""
        self.ensure_eval()
        windows = [
            (number, *window)
            for number, ids in enumerate(texts)
            for window in _windows([*self._begin, *ids], len(self._begin), self._size)
        ]
        windows.sort(key=lambda window: len(window[1]))
        totals = [0.0] * len(texts)
        together = max(1, READ_AT_ONCE // self._size)
        for at in range(0, len(windows), together):
            batch = windows[at : at + together]
            tokens, _ = pad([ids[:-1] for _, ids, _ in batch])
            x = self.model.hidden(tokens.to(self.device))
            for states, (number, ids, new) in zip(x, batch, strict=True):
                labels = torch.tensor(ids[-new:], device=self.device)
                end = len(ids) - 1
                found = cross_entropy(states[end - new : end], self.model.output, labels)
                totals[number] += float(found.total)
            if on_batch is not None:
                on_batch(len(batch))
        return totals


def _at_once(answer: Answer) -> Generator[str, None, bool]:
    yield answer.text
    return answer.finished


def _windows(ids: list[int], known: int, size: int) -> Iterator[tuple[list[int], int]]:
    """Parts of a sequence whose first `known` tokens are given, and how many tokens at the end of
    each part are new: all others, each once, with at least half a block before them.
    """
    start, done = 0, known
    while done < len(ids):
        end = min(start + size + 1, len(ids))
        if end > done:
            yield ids[start:end], end - done
            done = end
        start += max(1, size // 2)


def _joined(rows: Iterable[Row]) -> Iterator[Item]:
    """Neighbouring parts of a text as items."""
    text, line = "", 0
    for row in rows:
        [part] = row.values
        if text and len(text) + len(part) > LONGEST_ITEM:
            yield Item((text,), (), line)
            text = ""
        text, line = text + part, line if text else row.line
    if text:
        yield Item((text,), (), line)
