"""Masked language modeling: fill the holes of a text (Devlin et al. 2019)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import chain, islice
from operator import eq
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from saccade.cancellation import raise_if_cancelled
from saccade.config import Count
from saccade.data.batches.collate import pad, pad_rows
from saccade.data.corpus import Item, Row, Split
from saccade.data.sources.columns import Column
from saccade.data.store.cache import Encoded, encode_once
from saccade.data.store.ragged import Ragged
from saccade.data.transforms.masking import Masked, MaskingConfig
from saccade.errors import DecodingError, RecipeError
from saccade.layers.cross_entropy import NUMBERS_AT_ONCE, cross_entropy
from saccade.lens.record import AttentionRecord, Side
from saccade.metrics.language import loss_tally, perplexity_tally
from saccade.metrics.score import IntervalsConfig, Tally, ratio, signature_of
from saccade.models import MaskedLanguageModel, MaskedLanguageModelConfig
from saccade.shapes import Bool, Float, Int, Tensor
from saccade.tasks._shared.answering import (
    NO_OPTIONS,
    Answer,
    Example,
    OnBatch,
    Options,
    require_batch_size,
    require_no_options,
)
from saccade.tasks._shared.attention_records import self_attention
from saccade.tasks._shared.base import (
    Batch,
    Loss,
    Progress,
    Rows,
    Task,
    TaskConfig,
    vocabulary_from,
)
from saccade.tasks._shared.baselines import BaselineMethod, Kind
from saccade.tasks._shared.description import (
    VOCABULARY_FILE,
    Description,
    TextInput,
    TokenOutput,
)
from saccade.tasks._shared.evaluation import Evaluation, evaluation_of
from saccade.tasks._shared.ngrams import NgramModel
from saccade.tasks._shared.scoring import TokenScore, score_tokens
from saccade.text import Tokenizer, VocabularyConfig
from saccade.text.counting import require_text

TEXT = Column("text", ("sentence", "document", "content", "article", "review"), running=True)
HOLE = "[MASK]"
"""The text of a hole in an input."""
INPUT_WORDS = 24
"""The number of words of a text that become an input."""
WORD = "▁"
"""The mark of a vocabulary for the space before a word."""
CONTROLS = 2
"""The number of control tokens around a text: [CLS] and [SEP]."""
MASK_SEED = 1
"""The seed of the masks of an evaluation, which are the same every time."""
MASKED_TOGETHER = 64
"""The number of pieces that are masked together in an evaluation, whatever the batch size."""
COUNTED = 500_000
"""The number of training tokens after which no more are read for baselines."""
Probabilities = npt.NDArray[np.float64]
"""The probability of each token of the vocabulary."""
NeighbourGuess = Callable[[int, int], Probabilities]
"""Guesses a token from the token before it and the token after it."""
SHOWN = 8
"""The number of guesses that the answer to an item shows."""
FORMAT = 1
"""The version of the encoding; it changes when the same text would be encoded differently."""


@dataclass(frozen=True, kw_only=True)
class MaskedTextConfig:
    """The reading of texts.

    vocabulary   the vocabulary
    max_length   maximum number of tokens that are read at once, control tokens included; a longer
                 text is read in pieces of about equal length
    """

    vocabulary: VocabularyConfig = VocabularyConfig(lowercase=True)
    max_length: Count = 128

    def __post_init__(self) -> None:
        if self.max_length <= CONTROLS:
            raise RecipeError(
                f"max_length must be above {CONTROLS}, the number of control tokens; "
                f"got {self.max_length}"
            )


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelingConfig(TaskConfig):
    """The options of a masked language modeling recipe.

    model     the encoder of texts and its head
    text      the vocabulary and the reading of texts
    masking   the choice of masked tokens
    metrics   the confidence intervals of evaluations
    """

    model: MaskedLanguageModelConfig
    text: MaskedTextConfig = MaskedTextConfig()
    masking: MaskingConfig = MaskingConfig()
    metrics: IntervalsConfig = IntervalsConfig()

    def __post_init__(self) -> None:
        self.model.encoder.position.require_room(self.text.max_length, "text.max_length")

    @property
    def columns(self) -> tuple[Column, ...]:
        """The column `text`."""
        return (TEXT,)

    def create(
        self, train: Split, progress: Progress | None = None, vocabulary: Path | None = None
    ) -> MaskedLanguageModeling:
        """Return a task with new weights, and with the vocabulary of this data or of a folder."""
        texts = (row.values[0] for row in train.read(progress))
        tokenizer = vocabulary_from(vocabulary, texts, self.text.vocabulary)
        return MaskedLanguageModeling(self, tokenizer)

    def restore(self, folder: Path) -> MaskedLanguageModeling:
        """Return the task of a run folder, with new weights."""
        return MaskedLanguageModeling(self, Tokenizer.load(folder / VOCABULARY_FILE))


@dataclass(frozen=True)
class MaskedTexts(Batch):
    """Padded texts between control tokens, with masks, and the tokens that are predicted."""

    tokens: Int[Tensor, "b s"]
    mask: Bool[Tensor, "b s"]
    places: Int[Tensor, " n"]
    """The places of the flattened tokens that are predicted."""
    targets: Int[Tensor, " n"]


@dataclass(frozen=True)
class MaskedText:
    """A text between control tokens, the places that are predicted, and their right tokens."""

    ids: Sequence[int]
    places: Sequence[int]
    targets: Sequence[int]


@dataclass(frozen=True)
class Guesses:
    """The negative log-likelihood of each target of a text, and the most likely tokens."""

    nll: Sequence[float]
    tokens: Sequence[int]


@dataclass(frozen=True, kw_only=True, eq=False)
class HoleExample(Example):
    """A text with holes.

    Attributes:
        ids: Its token ids, with a mask token in each hole.
        holes: The places of the holes.
        apart: Whether there is a space before each hole; the first word has one, too.
        window: The part that is read.
        num_best: The number of fillings to return.
    """

    ids: list[int]
    holes: list[int]
    apart: list[bool]
    window: slice
    num_best: int = 1

    def filled(self, pieces: Sequence[int]) -> list[int]:
        """Return the token ids with these in the holes."""
        ids = list(self.ids)
        for hole, piece in zip(self.holes, pieces, strict=True):
            ids[hole] = piece
        return ids


class MaskedLanguageModeling(Task):
    """A model that predicts missing tokens, with its vocabulary.

    Attributes:
        masking: The choice of masked tokens.
        spaced: Whether the space before a word is part of its first token.
    """

    name = "masked_language_modeling"
    config: MaskedLanguageModelingConfig
    selection_metric = "loss"

    def __init__(self, config: MaskedLanguageModelingConfig, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.config = config
        self.tokenizer, self.masking = tokenizer, config.masking.build(tokenizer)
        self.around = {"start": tokenizer.cls, "end": tokenizer.sep}
        self.model: MaskedLanguageModel = config.model.build(len(tokenizer))
        pieces = tokenizer.pieces(tokenizer.ordinary.tolist())
        self._with_space = torch.tensor([piece.startswith(WORD) for piece in pieces])
        self.spaced = any(piece.startswith(WORD) and piece != WORD for piece in pieces)
        self._cut_before: dict[str, Ragged] = {}

    def describe(self) -> Description:
        """Return that it reads a text with masks and predicts the tokens in their places."""
        return Description(
            reads=TextInput(
                tokenizer=self.tokenizer,
                before=(self.tokenizer.cls,),
                after=(self.tokenizer.sep,),
                max_length=self.config.text.max_length,
                long="masks",
                num_segments=self.config.model.num_segments,
                masks=True,
            ),
            writes=TokenOutput(tokenizer=self.tokenizer),
            model=self.config.model,
        )

    def forward(self, batch: MaskedTexts) -> Loss:
        """Return the cross-entropy of the masked tokens, given all others."""
        entropy = cross_entropy(self._hidden(batch), self.model.output, batch.targets)
        return Loss(entropy.total, len(batch.places))

    def encode(self, split: Split, folder: Path, progress: Progress | None = None) -> Encoded:
        """Return the token ids of each complete row, without control tokens."""

        def numbers(rows: list[Row]) -> list[tuple[list[int], ...]]:
            return [(ids,) for ids in self.tokenizer.encode_batch([row.values[0] for row in rows])]

        key = f"masked_language_modeling {FORMAT} {self.tokenizer.digest}"
        return encode_once(split, numbers, key=key, folder=folder, limits=None, progress=progress)

    def sizes(self, examples: Encoded) -> npt.NDArray[np.int64]:
        """Return the number of tokens of each piece, with the control tokens."""
        return self._pieces(examples).lengths[:, None] + CONTROLS

    def collate(self, examples: Encoded, rows: Rows) -> MaskedTexts:
        """Return the pieces at `rows` as one batch, in training with new masks each time."""
        generator = None
        if not self.training:
            generator = torch.Generator().manual_seed(MASK_SEED + int(rows[0]))
        masked, real = self._masked(self._pieces(examples), rows, generator)
        return MaskedTexts(masked.tokens, real, masked.places, masked.targets)

    def items(self, split: Split) -> Iterator[Item]:
        """Yield one item per row that is not blank."""
        for row in split:
            if row.values[0].strip():
                yield Item(row.values[:1], (), row.line)

    def input_of(self, item: Item) -> str:
        """Return the beginning of a text, with a hole in place of its middle word."""
        words = item.inputs[0].split()[:INPUT_WORDS]
        words[len(words) // 2 : len(words) // 2 + 1] = [HOLE]
        return " ".join(words)

    def prepare(
        self, inputs: Sequence[str], options: Options = NO_OPTIONS, *, first: int = 0
    ) -> list[HoleExample]:
        """Find the holes of each input, which are written [MASK].

        A hole is one token of the vocabulary, with the space before it. Several holes are filled
        independently of each other. The option `num_best` is the number of fillings; they are
        sorted by the sum of their log-probabilities, the best first. If an input is too
        long, only the tokens around its holes are read.
        """
        others = {name: value for name, value in options.items() if name != "num_best"}
        require_no_options(others, ("num_best",))
        num_best = int(options.get("num_best", 1))
        if num_best < 1:
            raise DecodingError(
                f"num_best must be at least 1, got {num_best}; 1 returns the best filling only"
            )
        return [self._open(text, number, num_best) for number, text in enumerate(inputs, first)]

    def answer(self, examples: Sequence[HoleExample]) -> list[Answer]:
        """Fill the holes of a batch."""
        texts = [self._masked_text(example, example.ids) for example in examples]
        log_p = self.model.output(self._hidden(self._batch(texts))).log_softmax(-1).cpu()
        answers = []
        of_texts = log_p.split([len(text.places) for text in texts])
        for example, of_holes in zip(examples, of_texts, strict=True):
            raise_if_cancelled()
            best, *others = (
                Answer(
                    self.tokenizer.decode(example.filled(pieces)),
                    score,
                    tokens=pieces,
                    confidence=math.exp(score / max(1, len(pieces))),
                )
                for score, pieces in self._fill(of_holes, example.apart, example.num_best)
            )
            answers.append(replace(best, alternatives=tuple(others)))
        return answers

    def look(
        self, examples: Sequence[HoleExample], answers: Sequence[Answer]
    ) -> list[AttentionRecord]:
        """Return where each token looked while the holes were open."""
        batch = self._batch([self._masked_text(example, example.ids) for example in examples])
        sides = [
            self._side(example, self._pieces_in(example, answer))
            for example, answer in zip(examples, answers, strict=True)
        ]
        return self_attention(self.model, lambda: self._hidden(batch), sides)

    def _pieces_in(self, example: HoleExample, answer: Answer) -> Sequence[int]:
        """Return the token ids that an answer puts into the holes."""
        if answer.tokens is not None:
            return answer.tokens
        ids = self._fitting(example, answer.text)
        return [ids[hole] for hole in example.holes]

    def force(self, inputs: Sequence[str], outputs: Sequence[str]) -> MaskedTexts:
        """Return the batch in which each input has holes that the output fills."""
        return self._forced(self.prepare(inputs), outputs)

    def token_scores(
        self, examples: Sequence[HoleExample], outputs: Sequence[str]
    ) -> list[list[TokenScore]]:
        """Return the score of the token in each hole."""
        batch = self._forced(examples, outputs)
        return score_tokens(
            self.model.output(self._hidden(batch)),
            batch.targets,
            [len(example.holes) for example in examples],
            self.tokenizer.pieces,
        )

    def _forced(self, examples: Sequence[HoleExample], outputs: Sequence[str]) -> MaskedTexts:
        return self._batch(
            [
                self._masked_text(example, self._fitting(example, output))
                for example, output in zip(examples, outputs, strict=True)
            ]
        )

    def _fitting(self, example: HoleExample, output: str) -> list[int]:
        """Return the token ids of an output, which must be the input with its holes filled."""
        ids = self.tokenizer.encode(output)
        fits = len(ids) == len(example.ids)
        if not fits or example.filled([ids[hole] for hole in example.holes]) != ids:
            number = example.number + 1
            raise DecodingError(
                f"output {number} must be input {number} with one token of the vocabulary in each "
                f"{HOLE}; got {output[:60]!r} for {self.tokenizer.decode(example.ids)[:60]!r}"
            )
        return ids

    def evaluate(
        self,
        items: Iterable[Item],
        *,
        quick: bool = False,
        on_batch: OnBatch | None = None,
        batch_size: int = 64,
        **options: Any,
    ) -> Evaluation:
        """Mask the items, always at the same places, and measure the guesses.

        An answer shows the first guesses, with the right tokens beside those that are wrong. See
        `Task.evaluate` for the arguments.
        """
        require_no_options(options)
        require_batch_size(batch_size)
        items = list(items)
        texts = [item.inputs[0] for item in items]
        pieces, of_item = self._pieces_of(texts)
        masked = list(self._mask_all(pieces))
        guesses: dict[int, Guesses] = {}
        self.ensure_eval()
        order = sorted(range(len(masked)), key=lambda i: len(masked[i].ids))
        for at in range(0, len(order), batch_size):
            raise_if_cancelled()
            rows = order[at : at + batch_size]
            batch = self._batch([masked[i] for i in rows])
            nll, guessed = self._guess(batch)
            counts = [len(masked[i].places) for i in rows]
            parts = zip(rows, nll.split(counts), guessed.split(counts), strict=True)
            guesses |= {i: Guesses(of_piece.tolist(), ids.tolist()) for i, of_piece, ids in parts}
            if on_batch is not None:
                on_batch(len(rows))
        in_order = [guesses[i] for i in range(len(masked))]
        return self._measured(items, masked, of_item, in_order, quick=quick)

    def baselines(self, train: Split) -> Iterator[BaselineMethod]:
        """Yield the frequencies of tokens, and of tokens beside their two neighbours."""
        rows, stream = iter(train), list[int]()
        while len(stream) < COUNTED and (some := list(islice(rows, MASKED_TOGETHER))):
            for ids in self.tokenizer.encode_batch([row.values[0] for row in some]):
                stream += [self.tokenizer.cls, *ids, self.tokenizer.sep]
        if not stream:
            return
        cut = next(rows, None) is not None
        size = len(self.tokenizer)
        ordinary = [token for token in stream if token not in self.around.values()]
        alone = NgramModel(ordinary, size, 1)
        after, before = NgramModel(stream, size, 2), NgramModel(stream[::-1], size, 2)

        def method(name: str, kind: Kind, guess: NeighbourGuess) -> BaselineMethod:
            return BaselineMethod(
                name=name,
                kind=kind,
                evaluate=lambda items: self._guessed(items, guess),
                note=f"fitted to the first {len(stream):,} tokens" if cut else "",
            )

        yield method("most frequent token", "trivial", lambda left, right: alone.following(None))
        yield method(
            "neighbouring tokens",
            "simple",
            lambda left, right: (after.following(left) + before.following(right)) / 2,
        )

    def _guessed(self, items: list[Item], guess: NeighbourGuess) -> Evaluation:
        """Return the metrics of a method that guesses a token from its left and right one."""
        pieces, of_item = self._pieces_of([item.inputs[0] for item in items])
        masked, guesses = list(self._mask_all(pieces)), []
        for text in masked:
            distributions = [guess(text.ids[at - 1], text.ids[at + 1]) for at in text.places]
            targets = zip(distributions, text.targets, strict=True)
            guesses.append(
                Guesses(
                    [-math.log(p[target]) for p, target in targets],
                    [int(p.argmax()) for p in distributions],
                )
            )
        return self._measured(items, masked, of_item, guesses, quick=False)

    def _measured(
        self,
        items: list[Item],
        masked: Sequence[MaskedText],
        of_item: npt.NDArray[np.int64],
        guesses: Sequence[Guesses],
        *,
        quick: bool,
    ) -> Evaluation:
        """Return the metrics of guesses for masked pieces, `of_item[i]` being the item of one."""
        nats, tokens, right = np.zeros((3, len(items)))
        for text, item, guess in zip(masked, of_item, guesses, strict=True):
            nats[item] += sum(guess.nll)
            tokens[item] += len(text.targets)
            right[item] += sum(map(eq, guess.tokens, text.targets))
        answers = [""] * len(items)
        for i in reversed(range(len(masked))):  # of several pieces of a text, show the first
            answers[of_item[i]] = self._shown(guesses[i].tokens, masked[i].targets)
        tallies = self._tallies(nats, tokens.astype(np.int64), right)
        texts = [item.inputs[0] for item in items]
        return evaluation_of(items, answers, tallies, self.config.metrics, quick=quick, texts=texts)

    def files(self) -> dict[str, str]:
        """Return the vocabulary."""
        return self.describe().vocabulary_files()

    def _hidden(self, batch: MaskedTexts) -> Float[Tensor, "n d"]:
        """Return what the output turns into logits, at the predicted places only."""
        states = self.model.read(batch.tokens, batch.mask).states
        return self.model.transform(states.flatten(0, 1).index_select(0, batch.places))

    def _batch(self, texts: Sequence[MaskedText]) -> MaskedTexts:
        """Return texts as one batch, on the device of the model."""
        tokens, real = pad([text.ids for text in texts])
        width = tokens.shape[1]
        places = [row * width + at for row, text in enumerate(texts) for at in text.places]
        targets = [target for text in texts for target in text.targets]
        batch = MaskedTexts(
            tokens, real, torch.tensor(places, dtype=torch.long), torch.tensor(targets).long()
        )
        return batch.to(self.device)

    def _pieces(self, examples: Encoded) -> Ragged:
        """Return what is read at once: rows, and the parts of those that are too long."""
        if examples.key not in self._cut_before:
            self._cut_before[examples.key] = self._cut(examples.fields[0])
        return self._cut_before[examples.key]

    def _pieces_of(self, texts: list[str]) -> tuple[Ragged, npt.NDArray[np.int64]]:
        """Return the pieces of texts, and the number of the text of each piece."""
        rows = self.tokenizer.encode_batch(texts)
        ends = np.cumsum([0, *map(len, rows)])
        pieces = self._cut(Ragged(np.fromiter(chain.from_iterable(rows), np.uint32), ends))
        return pieces, np.searchsorted(ends, pieces.offsets[:-1], side="right") - 1

    def _cut(self, rows: Ragged) -> Ragged:
        """Return the rows with long ones cut into as few pieces of similar length as possible."""
        lengths = rows.lengths
        counts = -(-lengths // (self.config.text.max_length - CONTROLS))
        row = np.repeat(np.arange(len(rows)), counts)
        number = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = rows.offsets[row] + number * lengths[row] // counts[row]
        return Ragged(rows.tokens, np.append(starts, rows.offsets[-1]))

    def _masked(
        self, pieces: Ragged, rows: npt.ArrayLike, generator: torch.Generator | None
    ) -> tuple[Masked, Bool[Tensor, "b s"]]:
        """Return masked pieces between control tokens, and the mask of real tokens."""
        tokens, real = pad_rows(pieces, rows, **self.around)
        return self.masking(tokens, real, generator), real

    def _mask_all(self, pieces: Ragged) -> Iterator[MaskedText]:
        """Yield all pieces with masks that depend on nothing but them."""
        generator = torch.Generator().manual_seed(MASK_SEED)
        for start in range(0, len(pieces), MASKED_TOGETHER):
            rows = np.arange(start, min(start + MASKED_TOGETHER, len(pieces)))
            masked, real = self._masked(pieces, rows, generator)
            row, at = np.divmod(masked.places.numpy(), real.shape[1])
            for i, length in enumerate(real.sum(1).tolist()):
                yield MaskedText(
                    masked.tokens[i, :length].tolist(),
                    at[row == i].tolist(),
                    masked.targets.numpy()[row == i].tolist(),
                )

    def _guess(self, batch: MaskedTexts) -> tuple[Float[Tensor, " n"], Int[Tensor, " n"]]:
        """Return the negative log-likelihood of each target, and the most likely token."""
        nll, guessed = [], []
        with torch.no_grad():
            x = self._hidden(batch)
            rows = max(1, NUMBERS_AT_ONCE // len(self.tokenizer))
            for part, targets in zip(x.split(rows), batch.targets.split(rows), strict=True):
                log_p = self.model.output(part).log_softmax(-1)
                nll.append(-log_p.gather(1, targets.unsqueeze(1)).squeeze(1))
                guessed.append(log_p.argmax(-1))
        return torch.cat(nll).cpu(), torch.cat(guessed).cpu()

    def _shown(self, guesses: Sequence[int], targets: Sequence[int]) -> str:
        """Return the first guesses, as in "▁cat, ▁on, ▁dog (▁mat)"."""
        pairs = zip(
            self.tokenizer.pieces(guesses[:SHOWN]),
            self.tokenizer.pieces(targets[:SHOWN]),
            strict=True,
        )
        shown = [guess if guess == right else f"{guess} ({right})" for guess, right in pairs]
        return ", ".join([*shown, "…"] if len(targets) > SHOWN else shown)

    def _tallies(
        self,
        nats: npt.NDArray[np.float64],
        tokens: npt.NDArray[np.int64],
        right: npt.NDArray[np.float64],
    ) -> dict[str, Tally]:
        """Return what each metric counted for each item."""
        masking = self.config.masking
        options = f"per:masked_token|share:{masking.share:g}|whole:{masking.whole}|draw:{MASK_SEED}"
        nll = loss_tally(nats.tolist(), tokens.tolist())
        tallies = (
            nll,
            perplexity_tally(nats.tolist(), tokens.tolist()),
            replace(
                nll,
                name="accuracy",
                counts=np.stack((right, tokens.astype(np.float64)), 1),
                value=ratio,
                higher_is_better=True,
            ),
        )
        return {t.name: replace(t, signature=signature_of(options)) for t in tallies}

    def _open(self, text: str, number: int, num_best: int) -> HoleExample:
        """Find the holes of an input, the `number`th, from 0."""
        require_text(text, f"input {number + 1}")
        if not text.strip():
            return HoleExample(
                number=number, blank=True, ids=[], holes=[], apart=[], window=slice(0)
            )
        *before, last = text.split(HOLE)
        if not before:
            raise DecodingError(
                f"input {number + 1} has no hole to fill: write {HOLE} where a token is missing, "
                f'as in "the cat sat on the {HOLE}."; got {text[:60]!r}'
            )
        ids: list[int] = []
        holes: list[int] = []
        apart: list[bool] = []
        for part in before:
            apart.append(part.endswith(" ") or not (part or ids))
            encode = self.tokenizer.encode_part if holes else self.tokenizer.encode
            ids += encode(part.removesuffix(" ") if self.spaced else part)
            holes.append(len(ids))
            ids.append(self.tokenizer.mask)
        ids += self.tokenizer.encode_part(last)
        window = self._window(len(ids), holes, number + 1)
        return HoleExample(
            number=number,
            length=window.stop - window.start,
            encoded=len(ids),
            weights=(window.stop - window.start + CONTROLS) ** 2,
            ids=ids,
            holes=holes,
            apart=apart,
            window=window,
            num_best=num_best,
        )

    def _window(self, length: int, holes: list[int], number: int) -> slice:
        """Return the part of a long input that is read: the tokens around its holes."""
        most = self.config.text.max_length - CONTROLS
        if length <= most:
            return slice(0, length)
        if holes[-1] - holes[0] >= most:
            raise DecodingError(
                f"the holes of input {number} are {holes[-1] - holes[0]} tokens apart, and at most "
                f"{most} are read at once (text.max_length); fill them one by one"
            )
        start = min(max(0, (holes[0] + holes[-1] + 1 - most) // 2), length - most)
        return slice(start, start + most)

    def _masked_text(self, example: HoleExample, right: Sequence[int]) -> MaskedText:
        """Return what is read of an input; `right` are its token ids with the holes filled."""
        ids = [self.tokenizer.cls, *example.ids[example.window], self.tokenizer.sep]
        places = [hole - example.window.start + 1 for hole in example.holes]
        return MaskedText(ids, places, [right[hole] for hole in example.holes])

    def _fill(
        self, log_p: Float[Tensor, "n v"], apart: Sequence[bool], most: int
    ) -> list[tuple[float, tuple[int, ...]]]:
        """Return the best fillings of the holes, each with its mean log-probability."""
        if not log_p.isfinite().all():
            raise DecodingError(
                "the model gives NaN instead of probabilities; its weights are damaged"
            )
        fillings: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
        for of_hole, has_space in zip(log_p, apart, strict=True):
            allowed = self._allowed(apart=has_space)
            best = of_hole[allowed].topk(min(most, len(allowed)))
            pieces = allowed[best.indices].tolist()
            longer = (
                (total + score, (*chosen, piece))
                for total, chosen in fillings
                for score, piece in zip(best.values.tolist(), pieces, strict=True)
            )
            fillings = nlargest(most, longer, key=lambda filling: filling[0])
        return [(total / len(apart), chosen) for total, chosen in fillings]

    def _allowed(self, *, apart: bool) -> Int[Tensor, " n"]:
        """Return the token ids that may fill a hole, with a space before it or without."""
        ordinary = self.masking.ordinary
        fitting = ordinary[self._with_space == apart]
        return fitting if self.spaced and len(fitting) else ordinary

    def _side(self, example: HoleExample, pieces: Sequence[int]) -> Side:
        """Return the tokens that were read, with open holes, and the words of the filled text."""
        ids = example.filled(pieces)[example.window]
        words, word_of = self.tokenizer.words(ids)
        tokens = self.tokenizer.pieces(ids)
        for hole in example.holes:
            tokens[hole - example.window.start] = HOLE
        return Side(("[CLS]", *tokens, "[SEP]"), tuple(words), (None, *word_of, None))
