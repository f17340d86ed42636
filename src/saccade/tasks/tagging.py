"""Tagging: one label per word of a text, for named entities, parts of speech or other labels."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float as FloatArray

from saccade.cancellation import raise_if_cancelled
from saccade.config import Count
from saccade.data.batches.collate import pad
from saccade.data.corpus import Item, Row, Split
from saccade.data.sources.columns import Column, join_elements, split_elements
from saccade.data.store.cache import Encoded, encode_once
from saccade.errors import DataError, DecodingError, RecipeError, WatchError
from saccade.lens.record import AttentionRecord, Side
from saccade.metrics import TaggingMetricsConfig, span_scores
from saccade.metrics.tagging import WordSpan
from saccade.models import Tagger, TaggerConfig
from saccade.shapes import Bool, Float, Int, Tensor
from saccade.tasks._shared.answering import NO_OPTIONS, Answer, Example, Options, require_no_options
from saccade.tasks._shared.attention_records import self_attention
from saccade.tasks._shared.base import Batch, Loss, Progress, Rows, TaskConfig, vocabulary_from
from saccade.tasks._shared.baselines import BaselineMethod
from saccade.tasks._shared.classifier import NEW, AboutClassifier, LabelTask, read_about
from saccade.tasks._shared.description import (
    VOCABULARY_FILE,
    Description,
    TagOutput,
    TextInput,
)
from saccade.tasks._shared.evaluation import Evaluation, TableRows, evaluation_of
from saccade.tasks._shared.labels import SHOWN, LabelLossConfig, percent, score_table
from saccade.tasks._shared.scoring import TokenScore, score_tokens
from saccade.tasks._shared.tags import (
    BrokenTags,
    Tagging,
    Tags,
    TagsConfig,
    TagSpan,
    inline,
    learn_tags,
    read_tags,
)
from saccade.text import Tokenizer, VocabularyConfig

WORDS = Column("words", ("tokens", "word", "form"), sequence=True)
TAGS = Column(
    "tags",
    ("ner_tags", "pos_tags", "labels", "tag", "ner", "pos", "upos"),
    numbers=True,
    sequence=True,
)
CONTROLS = 2
"""Number of control tokens of an input: one before and one after the text."""
AT_ONCE = 64
"""Maximum number of sentences per batch."""
NOT_FIRST = -100
"""The tag of every token of a word after its first."""
FORMAT = 1
"""Version of the encoding; raise it when the same row is encoded differently."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TaggingTextConfig:
    """How texts are read.

    vocabulary   the vocabulary
    max_length   maximum number of tokens of a text, including control tokens; words beyond it get
                 no tag, and Saccade reports how many
    """

    vocabulary: VocabularyConfig = VocabularyConfig()
    max_length: Count = 128


@dataclass(frozen=True, kw_only=True)
class TaggingConfig(TaskConfig):
    """The options of a tagging recipe.

    model     the encoder of texts and its head
    text      the vocabulary and how texts are read
    tags      the scheme of the tags
    loss      the loss of training
    metrics   the metrics of evaluations; the first one selects the best weights
    """

    model: TaggerConfig
    text: TaggingTextConfig = TaggingTextConfig()
    tags: TagsConfig = TagsConfig()
    loss: LabelLossConfig = LabelLossConfig()
    metrics: TaggingMetricsConfig = TaggingMetricsConfig()

    def __post_init__(self) -> None:
        self.model.encoder.position.require_room(self.text.max_length, "text.max_length")

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns `words` and `tags`."""
        return WORDS, TAGS

    def create(
        self, train: Split, progress: Progress | None = None, vocabulary: Path | None = None
    ) -> WordTagging:
        """Return an untrained task with the tags and the vocabulary of this data."""
        tags, counts, broken = learn_tags(train, self.tags)
        texts = (row.values[0] for row in train.read(progress))
        tokenizer = vocabulary_from(vocabulary, texts, self.text.vocabulary)
        return WordTagging(self, tokenizer, tags, AboutClassifier(counts=counts), broken)

    def restore(self, folder: Path) -> WordTagging:
        """Return the untrained task of a run folder."""
        tokenizer = Tokenizer.load(folder / VOCABULARY_FILE)
        return WordTagging(self, tokenizer, read_tags(folder), read_about(folder))


@dataclass(frozen=True)
class Tagged(Batch):
    """Padded texts between control tokens, and the tag of each word at its first token."""

    tokens: Int[Tensor, "b s"]
    mask: Bool[Tensor, "b s"]
    segments: Int[Tensor, "b s"] | None
    tags: Int[Tensor, "b s"]


@dataclass(frozen=True, kw_only=True, eq=False)
class WordsExample(Example):
    """A text divided into words.

    Attributes:
        text: The text.
        places: The (start, end) characters of each word.
        ids: The token ids.
        starts: The index of the first token of each word.

    Words and tokens beyond the maximum length are left out.
    """

    text: str
    places: list[tuple[int, int]]
    ids: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]

    @property
    def words(self) -> tuple[str, ...]:
        """The words."""
        return tuple(self.text[start:end] for start, end in self.places)


class WordTagging(LabelTask):
    """A tagger with its vocabulary and its tags.

    Args:
        config: The options.
        tokenizer: The vocabulary.
        tags: The tags.
        about: Facts from a run folder.
        broken: Tags of the training data that break the scheme.
    """

    name = "tagging"
    config: TaggingConfig
    labels: Tags
    unit = "words"

    def __init__(
        self,
        config: TaggingConfig,
        tokenizer: Tokenizer,
        tags: Tags,
        about: AboutClassifier = NEW,
        broken: BrokenTags | None = None,
    ) -> None:
        super().__init__(tags, config.loss, about)
        self.config, self.tokenizer, self.broken = config, tokenizer, broken
        self.selection_metric = config.metrics.of(tags.scheme)[0]
        self.model: Tagger = config.model.build(len(tokenizer), tags.outputs)
        if config.text.max_length <= CONTROLS:
            raise RecipeError(
                f"text.max_length must be at least {CONTROLS + 1}, since {CONTROLS} of it are "
                f"control tokens; got {config.text.max_length}"
            )

    @property
    def room(self) -> int:
        """Maximum number of tokens of a text, without control tokens."""
        return self.config.text.max_length - CONTROLS

    def describe(self) -> Description:
        """Describe the task: text between control tokens in, one label per word out."""
        return Description(
            reads=TextInput(
                tokenizer=self.tokenizer,
                before=(self.tokenizer.cls,),
                after=(self.tokenizer.sep,),
                max_length=self.config.text.max_length,
                num_segments=self.config.model.num_segments,
            ),
            writes=TagOutput(labels=self.labels, temperature=self.temperature),
            model=self.config.model,
        )

    def forward(self, batch: Tagged) -> Loss:
        """Return the loss of the tags."""
        logits = self.model(batch.tokens, batch.mask, batch.segments).float()
        first = batch.tags != NOT_FIRST
        truth = batch.tags[first]
        return Loss(self.label_loss(logits[first], truth), len(truth))

    def encode(self, split: Split, folder: Path, progress: Progress | None = None) -> Encoded:
        """Encode complete texts: token ids, and the first token and the tag of each word."""
        broken = BrokenTags()
        known: dict[str, list[int]] = {}

        def numbers(rows: list[Row]) -> list[tuple[list[int], ...]]:
            pairs = [self.labels.read(row, broken, self.config.tags.broken) for row in rows]
            tagged = [pair for pair in pairs if pair is not None]
            return [
                (*self._pieces(pair.words, known), list(map(self.labels.number, pair.tags)))
                for pair in tagged
            ]

        return encode_once(
            split,
            numbers,
            key=f"tagging {FORMAT} {self.tokenizer.digest} {self.labels.digest}",
            folder=folder,
            limits=None,
            progress=progress,
        )

    def sizes(self, examples: Encoded) -> npt.NDArray[np.int64]:
        """Return the number of tokens of each text, control tokens included."""
        return np.minimum(examples.fields[0].lengths + CONTROLS, self.config.text.max_length)[
            :, None
        ]

    def remarks(self, examples: Encoded) -> Iterator[str]:
        """Also yield the number of cut words and, once, the repaired training tags."""
        yield from super().remarks(examples)
        if self.broken is not None and self.broken.count:
            yield str(self.broken)
            self.broken = None
        words = int(examples.fields[1].lengths.sum())
        long = np.flatnonzero(examples.fields[0].lengths > self.room)
        starts = (np.asarray(examples.fields[1][row]) for row in long.tolist())
        cut = sum(int((places >= self.room).sum()) for places in starts)
        if cut:
            yield self._about_cut(cut, words, len(long), len(examples))

    def _about_cut(self, cut: int, words: int, texts: int, of: int) -> str:
        return (
            f"{cut:,} of {words:,} words are cut off, in {texts:,} of {of:,} texts with more than "
            f"{self.config.text.max_length} tokens (text.max_length)"
        )

    def collate(self, examples: Encoded, rows: Rows) -> Tagged:
        """Return the texts at `rows` as one batch."""
        return self._batch([self._example(examples, int(row)) for row in rows])

    def _example(self, examples: Encoded, row: int) -> tuple[npt.NDArray[np.int64], ...]:
        """Return token ids, first tokens and tags of an example, cut to the maximum length."""
        ids, starts, tags = (np.asarray(field[row], dtype=np.int64) for field in examples.fields)
        count = int(np.searchsorted(starts, self.room))
        return ids[: self.room], starts[:count], tags[:count]

    def items(self, split: Split) -> Iterator[Item]:
        """Yield one item per row with tags."""
        broken = BrokenTags()
        for row in split:
            pair = self.labels.read(row, broken, self.config.tags.broken)
            if pair is not None:
                yield Item((join_elements(pair.words),), (join_elements(pair.tags),), row.line)
        if broken.count:
            log.warning("%s", broken)

    def input_of(self, item: Item) -> tuple[str, ...]:
        """Return the words of an item."""
        return tuple(split_elements(item.inputs[0]))

    def from_json(self, value: object) -> str | tuple[str, ...]:
        """Return a JSON text, or a JSON list of words."""
        if not isinstance(value, list):
            return str(super().from_json(value))
        if not all(isinstance(word, str) for word in value):
            raise DataError("an input is a text or a list of words; each word must be a text")
        return tuple(value)

    def prepare(
        self,
        inputs: Sequence[str | Sequence[str]],
        options: Options = NO_OPTIONS,
        *,
        first: int = 0,
    ) -> list[WordsExample]:
        """Divide texts into words and encode them; lists of words are encoded unchanged."""
        require_no_options(options)
        known: dict[str, list[int]] = {}
        return [self._prepared(one, number, known) for number, one in enumerate(inputs, first)]

    def _prepared(
        self, value: str | Sequence[str], number: int, known: dict[str, list[int]]
    ) -> WordsExample:
        text, places = self._places(value, number)
        ids, starts = self._pieces([text[start:end] for start, end in places], known)
        count = int(np.searchsorted(starts, self.room))
        length = min(len(ids), self.room) + CONTROLS
        return WordsExample(
            number=number,
            length=length,
            encoded=len(ids) + CONTROLS,
            weights=length**2,
            text=text,
            places=places[:count],
            ids=np.array(ids[: self.room], dtype=np.int64),
            starts=np.array(starts[:count], dtype=np.int64),
        )

    def _places(self, value: str | Sequence[str], number: int) -> tuple[str, list[tuple[int, int]]]:
        """Return the text of an input, and the place of each word."""
        if isinstance(value, str):
            return value, self.labels.splitter.split(value)
        if not all(isinstance(word, str) and word.strip() for word in value):
            raise DecodingError(
                f"input {number + 1} must be a text or a list of words, none of them empty; "
                "remove empty words"
            )
        ends = np.cumsum([len(word) + 1 for word in value], dtype=np.int64).tolist()
        pairs = zip(value, ends, strict=True)
        return " ".join(value), [(end - 1 - len(word), end - 1) for word, end in pairs]

    @torch.no_grad()
    def answer(self, examples: Sequence[WordsExample]) -> list[Tagging]:
        """Tag a batch: return the most likely valid sequence of tags for each text."""
        self.ensure_eval()
        logits = self._word_logits([(x.ids, x.starts) for x in examples])
        return [
            self._answer(example, rows.double() / self.temperature)
            for example, rows in zip(examples, logits, strict=True)
        ]

    def token_scores(
        self, examples: Sequence[WordsExample], outputs: Sequence[str]
    ) -> list[list[TokenScore]]:
        """Return the score of the given tag of each word."""
        logits = self._word_logits([(x.ids, x.starts) for x in examples])
        scores = []
        for example, output, rows in zip(examples, outputs, logits, strict=True):
            numbers = torch.from_numpy(self._given_tags(example, output))
            of_words = score_tokens(
                rows / self.temperature,
                numbers,
                [len(numbers)],
                lambda ids: [self.labels.names[i] for i in ids],
            )
            scores += of_words
        return scores

    def _answer(self, example: WordsExample, logits: Float[Tensor, "n c"]) -> Tagging:
        log_p = logits.log_softmax(-1).numpy()
        decided = self.labels.decide(log_p) if len(log_p) else []
        return self._tagging(
            example.text,
            example.places,
            [self.labels.names[tag] for tag in decided],
            log_p[np.arange(len(decided)), decided] if decided else np.empty(0),
        )

    def _tagging(
        self,
        text: str,
        places: Sequence[tuple[int, int]],
        tags: Sequence[str],
        log_p: FloatArray[np.ndarray, " n"],
    ) -> Tagging:
        """Return an answer with these tags and their log-probabilities."""

        def located(span: WordSpan) -> TagSpan:
            start, end = places[span.start][0], places[span.end - 1][1]
            probability = math.exp(float(log_p[span.start : span.end].sum()))
            words = (span.start, span.end)
            return TagSpan(start, end, span.label, text[start:end], probability, words)

        spans = tuple(map(located, self.labels.spans(tags)))
        score = float(log_p.mean()) if len(log_p) else 0.0
        return Tagging(
            inline(text, spans),
            score,
            confidence=math.exp(score) if len(log_p) else None,
            spans=spans,
            words=tuple(text[start:end] for start, end in places),
            tags=tuple(tags),
            probabilities=tuple(np.exp(log_p).tolist()),
            source=text,
        )

    def look(
        self, examples: Sequence[WordsExample], answers: Sequence[Answer]
    ) -> list[AttentionRecord]:
        """Return the self-attention of every layer.

        Raises:
            WatchError: if the encoder is recurrent and has no attention.
        """
        if self.config.model.encoder.kind == "recurrent":
            raise WatchError(
                "this model has no attention: a recurrent encoder reads one word after another; "
                "train a Transformer, such as the recipe transformer-tagger"
            )
        batch = self._batch([(x.ids, x.starts) for x in examples]).to(self.device)
        return self_attention(
            self.model,
            lambda: self.model(batch.tokens, batch.mask, batch.segments),
            [self._side(example) for example in examples],
        )

    def force(self, inputs: Sequence[str | Sequence[str]], outputs: Sequence[str]) -> Tagged:
        """Return the batch in which each input has the given tags, separated by spaces."""
        pairs = zip(self.prepare(inputs), outputs, strict=True)
        return self._batch([(x.ids, x.starts, self._given_tags(x, tags)) for x, tags in pairs])

    def _given_tags(self, example: WordsExample, output: str) -> npt.NDArray[np.int64]:
        """Return the numbers of the tags of an output, one per word that is read."""
        tags = [self.labels.number(tag) for tag in split_elements(output)]
        if len(tags) < len(example.starts):
            raise DecodingError(
                f"output {example.number + 1} has {len(tags)} tags for {len(example.starts)} words;"
                " give one tag per word"
            )
        return np.array(tags[: len(example.starts)], dtype=np.int64)

    def truth(self, examples: Encoded, rows: Rows) -> Tensor:
        """Return the tags of all words of these examples."""
        tags = [self._example(examples, int(row))[2] for row in rows]
        return torch.from_numpy(np.concatenate([np.empty(0, np.int64), *tags]))

    def logits_of(self, examples: Encoded) -> Float[Tensor, "n c"]:
        """Return the logits of all words."""
        self.ensure_eval()
        parts = [self._example(examples, row) for row in range(len(examples))]
        return torch.cat(self._word_logits([(ids, starts) for ids, starts, _ in parts]))

    def measure(self, items: list[Item], answers: Sequence[Tagging], *, quick: bool) -> Evaluation:
        """Return the metrics of the tags; a word that was cut off counts as outside any span."""
        truths = [split_elements(item.references[0]) for item in items]
        missing = [len(truth) - len(x.tags) for truth, x in zip(truths, answers, strict=True)]
        tags = [
            [*x.tags, *[self.labels.missing()] * count]
            for x, count in zip(answers, missing, strict=True)
        ]
        scores = span_scores(tags, truths, self.labels.scheme)
        evaluation = evaluation_of(
            items,
            [" ".join(one) for one in tags],
            self.config.metrics.tally(tags, truths, self.labels.scheme),
            self.config.metrics,
            quick=quick,
            texts=[item.inputs[0] for item in items],
            tables={
                "Precision and recall": score_table(scores),
                **self._confusions(tags, truths),
                "The most confident mistakes": self._mistakes(items, answers, truths),
            },
        )
        cut, missing_as = sum(missing), self.labels.missing() or "wrong"
        words = sum(map(len, truths))
        about = self._about_cut(cut, words, sum(map(bool, missing)), len(items)) if cut else ""
        return replace(
            evaluation,
            per_class=[score._asdict() for score in scores],
            remarks=[f"{about}; they count as {missing_as}"] if cut else [],
        )

    def _confusions(
        self, tags: Sequence[Sequence[str]], truths: Sequence[Sequence[str]]
    ) -> dict[str, TableRows]:
        """Return the confusion matrix of the most frequent types."""
        pairs = Counter(
            (self.labels.bare(right), self.labels.bare(tag))
            for of_text, truth in zip(tags, truths, strict=True)
            for tag, right in zip(of_text, truth, strict=True)
        )
        totals = Counter[str]()
        for (right, _), count in pairs.items():
            totals[right] += count
        names = [name for name, _ in totals.most_common(SHOWN)]
        return {
            "Confusions of words": [
                {"right": right, **{f"answered {name}": pairs[right, name] for name in names}}
                for right in names
            ]
        }

    def _mistakes(
        self,
        items: Sequence[Item],
        answers: Sequence[Tagging],
        truths: Sequence[Sequence[str]],
    ) -> TableRows:
        """Return the most confident wrong spans."""
        wrong: list[tuple[float, Mapping[str, object]]] = []
        for item, answer, truth in zip(items, answers, truths, strict=True):
            gold = self.labels.spans(truth)
            right = set(gold)
            for span in answer.spans:
                if WordSpan(*span.words, span.label) in right:
                    continue
                start, end = span.words
                there = [one for one in gold if one.start < end and start < one.end]
                texts = [f"{' '.join(answer.words[a:b])} ({label})" for a, b, label in there]
                row = {
                    "input": item.inputs[0],
                    "span": span.text,
                    "answer": span.label,
                    "confidence": percent(span.probability),
                    "right": ", ".join(texts) or "no span",
                }
                wrong.append((span.probability, row))
        wrong.sort(key=lambda mistake: -mistake[0])
        return [row for _, row in wrong[:SHOWN]]

    def baselines(self, train: Split) -> Iterator[BaselineMethod]:
        """Yield two baselines: the most frequent tag overall, and the most frequent per word."""
        broken, overall = BrokenTags(), Counter[str]()
        by_word: dict[str, Counter[str]] = {}
        for row in train:
            if (pair := self.labels.read(row, broken, "repair")) is None:
                continue
            overall.update(pair.tags)
            for word, tag in zip(pair.words, pair.tags, strict=True):
                by_word.setdefault(word, Counter())[tag] += 1
        if not overall:
            return

        def method(name: str, table: Mapping[str, Counter[str]], *, simple: bool) -> BaselineMethod:
            def answer(item: Item) -> Tagging:
                text, places = self._places(self.input_of(item), 0)
                counts = [table.get(text[start:end], overall) for start, end in places]
                best = [counter.most_common(1)[0] for counter in counts]
                log_p = [
                    math.log(number / counter.total())
                    for (_, number), counter in zip(best, counts, strict=True)
                ]
                return self._tagging(text, places, [tag for tag, _ in best], np.array(log_p))

            return BaselineMethod(
                name=name,
                kind="simple" if simple else "trivial",
                evaluate=lambda items: self.measure(items, list(map(answer, items)), quick=False),
            )

        yield method("most frequent tag", {}, simple=False)
        yield method("most frequent tag of each word", by_word, simple=True)

    def files(self) -> dict[str, str]:
        """Return the files of the vocabulary, the tags and the temperature."""
        return {**self.describe().vocabulary_files(), **self.about()}

    def _pieces(
        self, words: Sequence[str], known: dict[str, list[int]]
    ) -> tuple[list[int], list[int]]:
        """Return the token ids of words, and the first token of each.

        Args:
            words: The words.
            known: Cache of the token ids of words; new words are added to it.
        """
        new = [word for word in dict.fromkeys(words) if word not in known]
        unknown = self.tokenizer.controls.unknown
        nothing = [self.tokenizer.sep if unknown is None else unknown]
        for word, ids in zip(new, self.tokenizer.encode_batch(new) if new else [], strict=True):
            known[word] = ids or nothing
        pieces = [known[word] for word in words]
        starts = np.cumsum([0, *map(len, pieces)])[:-1].tolist()
        return [id for ids in pieces for id in ids], starts

    def _batch(self, parts: Sequence[tuple[npt.NDArray[np.int64], ...]]) -> Tagged:
        """Return texts as one batch, from their token ids, first tokens and, if known, tags."""
        before, after = [self.tokenizer.cls], [self.tokenizer.sep]
        texts = [np.concatenate([before, ids, after]) for ids, *_ in parts]
        tokens, mask = pad(texts, self.tokenizer.pad)
        tags = torch.full_like(tokens, NOT_FIRST)
        for row, (_, starts, *truth) in enumerate(parts):
            numbers = truth[0] if truth else np.zeros_like(starts)
            tags[row, torch.from_numpy(starts + 1)] = torch.from_numpy(numbers)
        segments = torch.zeros_like(tokens) if self.config.model.num_segments else None
        return Tagged(tokens, mask, segments, tags)

    @torch.no_grad()
    def _word_logits(
        self, parts: Sequence[tuple[npt.NDArray[np.int64], ...]]
    ) -> list[Float[Tensor, "n c"]]:
        """Return the logits of the words of each text on the CPU, computed batch by batch."""
        logits: list[Tensor] = [torch.empty(0)] * len(parts)
        order = sorted(range(len(parts)), key=lambda i: len(parts[i][0]))
        for at in range(0, len(order), AT_ONCE):
            raise_if_cancelled()
            rows = order[at : at + AT_ONCE]
            batch = self._batch([parts[i] for i in rows]).to(self.device)
            outputs = self.model(batch.tokens, batch.mask, batch.segments).float()
            first = batch.tags != NOT_FIRST
            counts = first.sum(1).tolist()
            for i, of_text in zip(rows, outputs[first].cpu().split(counts), strict=True):
                logits[i] = of_text
        return logits

    def _side(self, example: WordsExample) -> Side:
        """Return the tokens of an example, including control tokens, with their words."""
        word_of = np.searchsorted(example.starts, np.arange(len(example.ids)), side="right") - 1
        pieces = self.tokenizer.pieces(example.ids.tolist())
        return Side(("[CLS]", *pieces, "[SEP]"), example.words, (None, *word_of.tolist(), None))
