"""Language modeling: a model of plain text, which continues a prompt."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from saccade.config import Conflict, Count
from saccade.data.batches.blocks import Blocks, in_stream, packed
from saccade.data.batches.collate import mask_of, pad
from saccade.data.corpus import Item, Row, Split
from saccade.data.sources.columns import Column
from saccade.data.store.cache import Encode, Encoded, encode_once
from saccade.decoding import DecodingStart, Eager, GenerationConfig, TextEngine, Windowed, stream
from saccade.errors import DataError, RecipeError
from saccade.layers.cross_entropy import cross_entropy
from saccade.lens.record import AttentionRecord, Side
from saccade.metrics import language_scores
from saccade.metrics.score import IntervalsConfig, MetricScore
from saccade.models import LanguageModel
from saccade.models.language_models import LanguageModelConfig
from saccade.shapes import Int, Tensor
from saccade.tasks._shared.answering import Answer, OnBatch
from saccade.tasks._shared.attention_records import self_attention
from saccade.tasks._shared.base import (
    Batch,
    Loss,
    Progress,
    Rows,
    TaskConfig,
    vocabulary_from,
)
from saccade.tasks._shared.baselines import BaselineMethod
from saccade.tasks._shared.continuing import ContextExample, ContinuingPredictor
from saccade.tasks._shared.description import (
    VOCABULARY_FILE,
    Description,
    GeneratedText,
    TextInput,
)
from saccade.tasks._shared.evaluation import Evaluation
from saccade.tasks._shared.ngrams import NgramModel
from saccade.tasks._shared.scoring import TokenScore, score_tokens
from saccade.tasks._shared.seq2seq import GeneratingTask
from saccade.text import Tokenizer, VocabularyConfig

TEXT = Column("text", ("sentence", "content", "document", "article", "body"), running=True)
FORMAT = 1
"""The version of the encoding; it changes when the same text would be encoded differently."""
LONGEST_ITEM = 16 * 1024
"""The maximum number of characters of running text in one item."""
QUICK, SHORTEST = 16 * 1024, 256
"""The characters of all items, and at least of each, that a quick evaluation measures: validations
already have the loss of all text."""
CONTINUED = 20
"""The maximum number of items for which an evaluation also shows a continuation."""
CONTINUATION = 40
"""The maximum number of tokens of this continuation."""
READ_AT_ONCE = 8192
"""The number of tokens of a batch in which texts are measured."""
COUNTED = 1_000_000
"""The number of training tokens after which no more are read for the n-gram baseline."""
TOGETHER = 256
"""The number of rows that are encoded together for it."""
CHARACTERS = 1_000
"""Vocabularies below this size are read as characters: the n-grams of the baseline are longer."""
HALF = "\N{REPLACEMENT CHARACTER}"
"""The text of an incomplete character."""


@dataclass(frozen=True, kw_only=True)
class LanguageTextConfig:
    """The reading of text.

    vocabulary   the vocabulary
    block        maximum number of tokens that the model sees at once
    layout       "stream": all text is one sequence, which is cut anywhere, in each epoch at other
                 places; "packed": a block holds complete documents or pieces of long ones, which do
                 not see each other (positions count from the beginning of the block)
    opening      for "stream": the text before every prompt, such as a line break if prompts begin
                 as lines do; without it an empty prompt continues the stop token
    """

    vocabulary: VocabularyConfig = VocabularyConfig()
    block: Count = 256
    layout: Literal["stream", "packed"] = "stream"
    opening: str = ""

    def __post_init__(self) -> None:
        if self.opening and self.layout == "packed":
            raise RecipeError(
                'text.opening is for layout = "stream"; a packed document begins with the start '
                "token, and so does a prompt. Leave it out."
            )


@dataclass(frozen=True, kw_only=True)
class LanguageModelingConfig(TaskConfig):
    """The options of a language modeling recipe.

    model        the decoder
    text         the vocabulary and the reading of text
    generation   the default options of generation
    metrics      the confidence intervals of evaluations
    """

    model: LanguageModelConfig
    text: LanguageTextConfig = LanguageTextConfig()
    generation: GenerationConfig = GenerationConfig(sample=True, temperature=0.8)
    metrics: IntervalsConfig = IntervalsConfig()

    def __post_init__(self) -> None:
        self.model.decoder.position.require_room(self.text.block, "text.block")

    def conflicts(self) -> Iterator[Conflict]:
        """Yield a limit relative to the input."""
        yield from self.generation.ratio_conflict("because an input is continued, not answered")

    @property
    def columns(self) -> tuple[Column, ...]:
        """The column `text`."""
        return (TEXT,)

    def create(
        self, train: Split, progress: Progress | None = None, vocabulary: Path | None = None
    ) -> LanguageModeling:
        """Return a task with new weights, and with the vocabulary of this data or of a folder."""
        texts = (row.values[0] for row in train.read(progress))
        tokenizer = vocabulary_from(vocabulary, texts, self.text.vocabulary)
        return LanguageModeling(self, tokenizer)

    def restore(self, folder: Path) -> LanguageModeling:
        """Return the task of a run folder, with new weights."""
        return LanguageModeling(self, Tokenizer.load(folder / VOCABULARY_FILE))


@dataclass(frozen=True)
class Passages(Batch):
    """Padded tokens, and the token that follows each of them.

    `documents` are the numbers of documents if a row holds several; that of padding is -1.
    """

    tokens: Int[Tensor, "b t"]
    following: Int[Tensor, "b t"]
    documents: Int[Tensor, "b t"] | None
    places: Int[Tensor, " n"]
    """The places of the flattened `following` that are predicted."""


class LanguageModeling(ContinuingPredictor, GeneratingTask):
    """A language model with its vocabulary.

    Its examples are blocks of text, not rows: `sizes` and `collate` count blocks.
    """

    config: LanguageModelingConfig
    selection_metric = "perplexity"

    def __init__(self, config: LanguageModelingConfig, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.config = config
        self.tokenizer = tokenizer
        self.model: LanguageModel = config.model.build(len(tokenizer))
        self.engine: TextEngine = Eager(self._start)
        self._begin = self.before_texts()
        self._blocks: dict[str, Blocks] = {}

    def describe(self) -> Description:
        """Return that it reads the beginning of a text and continues it."""
        return Description(reads=self.text_input, writes=self.writes, model=self.config.model)

    @property
    def text_input(self) -> TextInput:
        """The description of the beginning of a text."""
        text, begin = self.config.text, tuple(self._begin)
        anywhere = text.layout == "stream" and not text.opening
        return TextInput(
            tokenizer=self.tokenizer,
            before=() if anywhere else begin,
            empty=begin,
            opening=text.opening,
            max_length=text.block,
            long="end",
        )

    @property
    def writes(self) -> GeneratedText:
        """The description of the continuation."""
        return GeneratedText(
            tokenizer=self.tokenizer,
            start=None,
            options=self.config.generation,
            window=self.config.text.block,
        )

    def forward(self, batch: Passages) -> Loss:
        """Return the cross-entropy of each token, given those before it."""
        x = self.model.hidden(batch.tokens, batch.documents)
        entropy = cross_entropy(
            x.flatten(0, 1).index_select(0, batch.places),
            self.model.output,
            batch.following.flatten().index_select(0, batch.places),
        )
        return Loss(entropy.total, len(batch.places))

    def encode(self, split: Split, folder: Path, progress: Progress | None = None) -> Encoded:
        """Return the token ids of all text, with a stop token between documents."""
        key = f"language_modeling {FORMAT} {self.tokenizer.digest} {self.tokenizer.stop}"
        return encode_once(
            split,
            self._encode_running() if split.running else self._encode_documents,
            key=f"{key} {'running' if split.running else 'documents'}",
            folder=folder,
            limits=None,
            may_be_empty=split.columns if split.running else (),  # blank parts count, too
            progress=progress,
        )

    def sizes(self, examples: Encoded) -> npt.NDArray[np.int64]:
        """Return the number of tokens of each block."""
        return self._cut(examples).sizes[:, None]

    def collate(self, examples: Encoded, rows: Rows) -> Passages:
        """Return the blocks at `rows` as one batch; in training, blocks of a stream are shifted."""
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
        """Yield one item per document or, of running text, per some neighbouring parts."""
        if not split.running:
            yield from (Item(row.values, (), row.line) for row in split if row.values[0].strip())
            return
        for _, rows in groupby(split, key=lambda row: row.file):
            yield from _joined(rows)

    @property
    def comparison_metric(self) -> str:
        """The metric that does not depend on the vocabulary."""
        return "bits_per_character"

    def look(
        self, examples: Sequence[ContextExample], answers: Sequence[Answer]
    ) -> list[AttentionRecord]:
        """Return where each token looked, in one watched pass over each finished text."""
        records = []
        for example, answer in zip(examples, answers, strict=True):
            written = answer.tokens
            if written is None:
                written = tuple(self.tokenizer.encode_part(answer.text))
            records.append(self._look([*example.tokens, *written]))
        return records

    def stream(self, prompt: str, **options: Any) -> Generator[str, None, bool]:
        """Yield the text of `predict`'s answer in pieces, as they are generated.

        A piece never ends inside a character. The text of a beam comes as one piece. The generator
        returns whether the text is finished.
        """
        examples = self.prepare([prompt], options)
        if examples[0].options.beam > 1:
            return _at_once(self.predict([prompt], **options)[0])
        self.warn(examples)
        context, generation = examples[0].tokens, examples[0].options
        limits = self.writes.limits(generation.max_length)
        self.ensure_eval()
        read = torch.tensor([context], device=self.device)
        window = Windowed(self.model, self._size)
        with torch.no_grad():
            state = window.start(read)
        tokens = stream(window, state, read[:, -1], limits, options=generation)
        return self._pieces(context, tokens)

    def force(self, inputs: Sequence[str], outputs: Sequence[str]) -> Passages:
        """Return the batch in which each input continues with the output, which alone is predicted.

        A text that is longer than a block is read from its end.
        """
        return self._forced(self.contexts(inputs), outputs)

    def token_scores(
        self, examples: Sequence[ContextExample], outputs: Sequence[str]
    ) -> list[list[TokenScore]]:
        """Return the score of each token of the continuations."""
        contexts = [example.tokens for example in examples]
        batch = self._forced(contexts, outputs).to(self.device)
        states = self.model.hidden(batch.tokens, batch.documents).flatten(0, 1)
        given = batch.following.flatten().index_select(0, batch.places)
        rows = batch.places // batch.tokens.shape[1]
        return score_tokens(
            self.model.output(states.index_select(0, batch.places)),
            given,
            rows.bincount(minlength=len(examples)).tolist(),
            self.tokenizer.pieces,
            self.writes.never,
        )

    def _forced(self, contexts: Sequence[list[int]], outputs: Sequence[str]) -> Passages:
        texts, given = [], []
        for context, output in zip(contexts, outputs, strict=True):
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
        """Measure the negative log-likelihood of each item's text; continue the texts of few items.

        A text is read in blocks that overlap by half, so that a token is predicted from at least
        half a block, if there are so many tokens before it. A quick evaluation measures the
        beginnings of long texts. See `Task.evaluate` for the arguments.
        """
        items, generation = list(items), self.config.generation.changed(options)
        scores = self._scores(items, partial(self._nlls, on_batch=on_batch), quick=quick)
        answers = [""] * len(items)
        if not quick and len(items) <= CONTINUED:
            prompts = [self.input_of(item) for item in items]
            shorter = {"max_length": min(CONTINUATION, generation.max_length), **options}
            continued = self.predict(prompts, on_batch=on_batch, batch_size=batch_size, **shorter)
            answers = [answer.text for answer in continued]
        return Evaluation(scores, answers, items)

    def baselines(self, train: Split) -> Iterator[BaselineMethod]:
        """Yield an n-gram model of the same tokens."""
        size = len(self.tokenizer)
        order = 5 if size < CHARACTERS else 3
        encode = self._encode_running() if train.running else self._encode_documents
        rows, stream = iter(train), [*self._begin]
        while len(stream) < COUNTED and (some := list(islice(rows, TOGETHER))):
            stream += chain.from_iterable(ids for (ids,) in encode(some))
        cut = next(rows, None) is not None
        model = NgramModel(stream, size, order)

        def nlls(texts: list[list[int]]) -> list[float]:
            return [self._ngram_nll(model, ids) for ids in texts]

        yield BaselineMethod(
            name=f"{order}-gram model",
            kind="trivial",
            evaluate=lambda items: Evaluation(
                self._scores(items, nlls, quick=False), [""] * len(items), items
            ),
            note=f"fitted to the first {len(stream):,} tokens" if cut else "",
        )

    def _ngram_nll(self, model: NgramModel, ids: list[int]) -> float:
        p = model.probabilities([*self._begin, *ids])[len(self._begin) :]
        return float(-np.log(p).sum())

    def _scores(
        self, items: list[Item], nlls: Callable[[list[list[int]]], list[float]], *, quick: bool
    ) -> dict[str, MetricScore]:
        """Return the metrics of the negative log-likelihoods that `nlls` gives the items' texts."""
        longest = max(SHORTEST, QUICK // max(1, len(items))) if quick else None
        texts = [item.inputs[0][:longest] for item in items]
        tokens = [self.encoded(text) for text in texts]
        return language_scores(
            nlls(tokens),
            [len(ids) for ids in tokens],
            [len(text) for text in texts],
            samples=0 if quick else self.config.metrics.samples,
            seed=self.config.metrics.seed,
        )

    def files(self) -> dict[str, str]:
        """Return the vocabulary."""
        return self.describe().vocabulary_files()

    @property
    def _size(self) -> int:
        return self.config.text.block

    def before_texts(self) -> list[int]:
        """Return the token ids that the first token of a text is predicted from."""
        text, stop = self.config.text, self.tokenizer.stop
        if text.layout == "packed":
            return [self.tokenizer.start]
        return self.tokenizer.encode_part(text.opening) or [stop]

    def _encode_running(self) -> Encode:
        """Return an encoder of the parts of running text, with a stop token between files."""
        before: str | None = None

        def encode(rows: list[Row]) -> list[tuple[list[int], ...]]:
            nonlocal before
            encoded: list[tuple[list[int], ...]] = []
            for row in rows:
                if row.file == before:
                    encoded.append((self.tokenizer.encode_part(row.values[0]),))
                else:
                    between = [] if before is None else [self.tokenizer.stop]
                    encoded.append(([*between, *self.tokenizer.encode(row.values[0])],))
                before = row.file
            return encoded

        return encode

    def _encode_documents(self, rows: list[Row]) -> list[tuple[list[int], ...]]:
        """Encode documents with their stop tokens; a document without tokens stays empty."""
        encoded = self.tokenizer.encode_batch([row.values[0] for row in rows])
        return [([*ids, self.tokenizer.stop] if ids else [],) for ids in encoded]

    def _cut(self, examples: Encoded) -> Blocks:
        """Return the blocks of the text, which are kept for the next call."""
        if examples.key not in self._blocks:
            tokens = examples.fields[0].tokens
            if self.config.text.layout == "packed":
                start, stop = self.tokenizer.start, self.tokenizer.stop
                blocks = packed(tokens, self._size, start=start, stop=stop)
            else:
                blocks = in_stream(tokens, self._size)
            if not len(blocks):
                raise DataError(
                    f"the training text has {len(tokens)} token, and at least 2 are needed; give "
                    "more text"
                )
            self._blocks[examples.key] = blocks
        return self._blocks[examples.key]

    def _start(self, contexts: Sequence[list[int]]) -> DecodingStart:
        """Return the model after reading these contexts, which have one length."""
        window = Windowed(self.model, self._size)
        read = torch.tensor([ids[-self._size :] for ids in contexts], device=self.device)
        return DecodingStart(window, window.start(read), read[:, -1])

    def _pieces(
        self, context: list[int], tokens: Generator[int, None, bool]
    ) -> Generator[str, None, bool]:
        """Yield the text as it grows; an incomplete character waits for the rest of it."""
        known, new = context, list[int]()
        while True:
            try:
                new.append(next(tokens))
            except StopIteration as end:
                finished: bool = end.value
                break
            text = self.continuation(known, new)
            if text and not text.endswith(HALF):
                yield text
                known, new = new, []
        if text := self.continuation(known, new):
            yield text
        return finished

    def _look(self, ids: list[int]) -> AttentionRecord:
        """Return where each token looked, in one pass over the last block of a finished text."""
        ids = ids[-self._size :]
        words, word_of = self.tokenizer.words(ids)
        side = Side(tuple(self.tokenizer.pieces(ids)), tuple(words), tuple(word_of))
        read = torch.tensor([ids], device=self.device)
        [record] = self_attention(self.model, lambda: self.model.hidden(read), [side])
        return record

    @torch.no_grad()
    def _nlls(self, texts: list[list[int]], on_batch: OnBatch | None) -> list[float]:
        """Return -Σ ln p of the tokens of each text."""
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
                entropy = cross_entropy(states[end - new : end], self.model.output, labels)
                totals[number] += float(entropy.total)
            if on_batch is not None:
                on_batch(len(batch))
        return totals


def _at_once(answer: Answer) -> Generator[str, None, bool]:
    yield answer.text
    return answer.finished


def _windows(ids: list[int], known: int, size: int) -> Iterator[tuple[list[int], int]]:
    """Yield parts of a sequence, and how many tokens at the end of each part are new.

    All tokens after the first `known` are new once, with at least half a block before them.
    """
    start, done = 0, known
    while done < len(ids):
        end = min(start + size + 1, len(ids))
        if end > done:
            yield ids[start:end], end - done
            done = end
        start += max(1, size // 2)


def _joined(rows: Iterable[Row]) -> Iterator[Item]:
    """Yield neighbouring parts of a text as items."""
    text, line = "", 0
    for row in rows:
        [part] = row.values
        if text and len(text) + len(part) > LONGEST_ITEM:
            yield Item((text,), (), line)
            text = ""
        text, line = text + part, line if text else row.line
    if text:
        yield Item((text,), (), line)
