"""Masked language modeling: what stands where pieces of a text are missing (Devlin et al. 2019)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from saccade.attention.watch import Watched, count_heads, watch
from saccade.cancellation import raise_if_cancelled
from saccade.config import Count
from saccade.data.cache import Encoded, encode_once
from saccade.data.collate import pad, pad_rows
from saccade.data.columns import Column
from saccade.data.corpus import Item, Row, Split
from saccade.data.masking import Masked, MaskingConfig
from saccade.data.ragged import Ragged
from saccade.errors import DecodingError, RecipeError
from saccade.layers.cross_entropy import NUMBERS_AT_ONCE, cross_entropy
from saccade.lens.record import AttentionRecord, Side
from saccade.metrics import by_length
from saccade.metrics.language import loss_tally, perplexity_tally
from saccade.metrics.score import IntervalsConfig, Tally, ratio, scores_of, signature_of
from saccade.models import MaskedLanguageModel, MaskedLanguageModelConfig
from saccade.shapes import Bool, Float, Int, Tensor
from saccade.tasks.base import Answer, Batch, Evaluation, Loss, Progress, Task, TaskConfig
from saccade.text import Tokenizer, VocabularyConfig
from saccade.text.counting import require_text

log = logging.getLogger(__name__)

TEXT = Column("text", ("sentence", "document", "content", "article", "review"), running=True)
HOLE = "[MASK]"
ASKED = 24
"""Words of a text that a question about it has."""
"""How an input says that a piece is missing."""
WORD = "▁"
"""How a vocabulary shows the space before a word."""
CONTROLS = 2
"""The tokens around a text: [CLS] and [SEP]."""
DRAW = 1
"""The seed of what is masked where texts are measured: the same places every time."""
DRAWN = 64
"""Pieces that are masked together there, however many are read at once."""
SHOWN = 8
"""Guesses of an item that its answer shows."""
FORMAT = 1
"""Counts up when the same text would be encoded otherwise, so that no old cache is read."""


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """How texts are read.

    vocabulary   how they are cut into tokens
    max_length   the most tokens that are read at once, control tokens included; a longer text is
                 read in pieces of about equal length
    """

    vocabulary: VocabularyConfig = VocabularyConfig(lowercase=True)
    max_length: Count = 128

    def __post_init__(self) -> None:
        if self.max_length <= CONTROLS:
            raise RecipeError(
                f"max_length must be above {CONTROLS}, which control tokens take; "
                f"got {self.max_length}"
            )


@dataclass(frozen=True, kw_only=True)
class Config(TaskConfig):
    """The options of a masked language modeling recipe."""

    model: MaskedLanguageModelConfig
    text: TextConfig = TextConfig()
    masking: MaskingConfig = MaskingConfig()
    metrics: IntervalsConfig = IntervalsConfig()

    def __post_init__(self) -> None:
        self.model.encoder.position.require_room(self.text.max_length, "text.max_length")

    @property
    def columns(self) -> tuple[Column, ...]:
        """Plain text."""
        return (TEXT,)

    def fresh(
        self, train: Split, progress: Progress | None = None, vocabulary: Path | None = None
    ) -> MaskedLanguageModeling:
        """A vocabulary made from this data or taken from a folder, and new weights."""
        if vocabulary is not None:
            return self.restored(vocabulary)
        texts = (row.values[0] for row in train)
        tokenizer = Tokenizer.train(texts, self.text.vocabulary, progress=progress)
        return MaskedLanguageModeling(self, tokenizer)

    def restored(self, folder: Path) -> MaskedLanguageModeling:
        """The task of a run folder, with new weights."""
        return MaskedLanguageModeling(self, Tokenizer.load(folder / "tokenizer.json"))


@dataclass(frozen=True)
class Gaps(Batch):
    """Texts between control tokens, padded, and what is to be guessed of them."""

    tokens: Int[Tensor, "b s"]
    mask: Bool[Tensor, "b s"]
    places: Int[Tensor, " n"]
    """Where in the flattened tokens there is something to guess."""
    targets: Int[Tensor, " n"]


@dataclass(frozen=True)
class Gapped:
    """A text between control tokens, the places in it to be guessed, and what is right there."""

    ids: Sequence[int]
    places: Sequence[int]
    targets: Sequence[int]


@dataclass(frozen=True)
class Asked:
    """An input: its tokens with a mask token in each hole, where these are, and what is read of it.

    `apart` tells of each hole whether a space stands before it; the first word has one, too.
    """

    ids: list[int]
    holes: list[int]
    apart: list[bool]
    window: slice

    def filled(self, pieces: Sequence[int]) -> list[int]:
        """The tokens with these in the holes."""
        found = list(self.ids)
        for hole, piece in zip(self.holes, pieces, strict=True):
            found[hole] = piece
        return found


class MaskedLanguageModeling(Task[Gaps]):
    """A reader of text that guesses missing pieces, with its vocabulary."""

    name = "masked_language_modeling"
    selects = "loss"

    def __init__(self, config: Config, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.config, self.columns = config, config.columns
        self.tokenizer, self.masking = tokenizer, config.masking.build(tokenizer)
        self.around = {"start": tokenizer.cls, "end": tokenizer.sep}
        self.model: MaskedLanguageModel = config.model.build(len(tokenizer))
        pieces = tokenizer.pieces(tokenizer.ordinary.tolist())
        self._with_space = torch.tensor([piece.startswith(WORD) for piece in pieces])
        # whether the space before a word is part of its first piece
        self.spaced = any(piece.startswith(WORD) and piece != WORD for piece in pieces)
        self._cut_before: dict[str, Ragged] = {}

    def forward(self, batch: Gaps) -> Loss:
        """Cross entropy of the masked tokens, given all that is not masked."""
        found = cross_entropy(self._hidden(batch), self.model.output, batch.targets)
        return Loss(found.total, len(batch.places))

    def encode(self, split: Split, folder: Path, progress: Progress | None = None) -> Encoded:
        """The token numbers of each row, whole and without control tokens."""

        def numbers(rows: list[Row]) -> list[tuple[list[int], ...]]:
            return [(ids,) for ids in self.tokenizer.encode_batch([row.values[0] for row in rows])]

        key = f"masked_language_modeling {FORMAT} {self.tokenizer.digest}"
        return encode_once(split, numbers, key=key, folder=folder, limits=None, progress=progress)

    def sizes(self, examples: Encoded) -> npt.NDArray[np.int64]:
        """The tokens of each piece, with the control tokens."""
        return self._pieces(examples).lengths[:, None] + CONTROLS

    def collate(self, examples: Encoded, rows: Sequence[int] | npt.NDArray[np.int64]) -> Gaps:
        """These pieces as one batch; in training masked anew each time, else always alike."""
        generator = None
        if not self.training:
            generator = torch.Generator().manual_seed(DRAW + int(rows[0]))
        masked, real = self._masked(self._pieces(examples), rows, generator)
        return Gaps(masked.tokens, real, masked.places, masked.targets)

    def items(self, split: Split) -> Iterator[Item]:
        """A row is an item; there is nothing to ask of a blank one."""
        for row in split:
            if row.values[0].strip():
                yield Item(row.values[:1], (), row.line)

    def question(self, item: Item) -> str:
        """How a text begins, with a hole for the word in the middle of that."""
        words = item.inputs[0].split()[:ASKED]
        words[len(words) // 2 : len(words) // 2 + 1] = [HOLE]
        return " ".join(words)

    def attention_size(self, inputs: Sequence[str], options: Mapping[str, Any]) -> int:
        """The tokens that are read look at each other."""
        most, tokens = self.config.text.max_length, self.tokenizer.encode_batch(list(inputs))
        lengths = [min(len(ids) + CONTROLS, most) for ids in tokens]
        return count_heads(self.model) * sum(length**2 for length in lengths)

    def predict(
        self,
        inputs: Sequence[str],
        *,
        attention: bool = False,
        num_best: int = 1,
        batch_size: int = 64,
        first: int = 0,
        on_batch: Callable[[], None] | None = None,
        **options: Any,
    ) -> list[Answer]:
        """Each input with its holes filled, in their order. A hole is written [MASK].

        A hole is one piece of the vocabulary; the space before it belongs to that piece. Several
        holes are filled independently of each other, and `num_best` fillings are given, the best
        by the sum of their log-probabilities first.
        Inputs are sorted by length and answered `batch_size` at a time; `on_batch` is called before
        each batch. `first` is the number of the first input, for messages. What is blank gets an
        empty answer, of what is too long only the surroundings of its holes are read.
        """
        _require_no_others(options, ("num_best",))
        if isinstance(inputs, str):
            raise DecodingError("predict takes several inputs, got one text: put it into a list")
        if num_best < 1:
            raise DecodingError(f"num_best must be at least 1, got {num_best}")
        asked = {}
        for i, text in enumerate(inputs):
            require_text(text, f"input {first + i + 1}")
            if text.strip():
                asked[i] = self._open(text, first + i + 1)
        gapped = {i: self._gapped(each, each.ids) for i, each in asked.items()}
        answers = [Answer("", 0.0)] * len(inputs)
        self.ready()
        for rows in _batches({i: len(each.ids) for i, each in gapped.items()}, batch_size):
            if on_batch is not None:
                on_batch()
            batch = self._batch([gapped[i] for i in rows])
            with torch.no_grad(), self._watching(attention=attention) as seen:
                log_p = self.model.output(self._hidden(batch)).log_softmax(-1).cpu()
            of_each = log_p.split([len(gapped[i].places) for i in rows])
            for row, (i, of_holes) in enumerate(zip(rows, of_each, strict=True)):
                raise_if_cancelled()
                found = self._fill(of_holes, asked[i].apart, num_best)
                best, *others = (
                    Answer(self.tokenizer.decode(asked[i].filled(pieces)), score)
                    for score, pieces in found
                )
                record = None
                if attention:
                    record = self._record(asked[i], found[0][1], row, seen)
                answers[i] = replace(best, attention=record, alternatives=tuple(others))
        return answers

    def force(self, inputs: Sequence[str], outputs: Sequence[str]) -> Gaps:
        """The batch in which each input has holes, and the output says what is in them."""
        gapped = []
        pairs = zip(inputs, self.tokenizer.encode_batch(list(outputs)), strict=True)
        for number, (text, ids) in enumerate(pairs, 1):
            asked = self._open(text, number)
            fits = len(ids) == len(asked.ids)
            if not fits or asked.filled([ids[hole] for hole in asked.holes]) != ids:
                raise DecodingError(
                    f"output {number} must be input {number} with one piece of the vocabulary in "
                    f"each {HOLE}; got {outputs[number - 1][:60]!r} for {text[:60]!r}"
                )
            gapped.append(self._gapped(asked, ids))
        return self._batch(gapped)

    def evaluate(
        self,
        items: Iterable[Item],
        *,
        quick: bool = False,
        on_batch: Callable[[], None] | None = None,
        batch_size: int = 64,
        **options: Any,
    ) -> Evaluation:
        """Mask the items, always at the same places, and measure the guesses.

        An answer shows the first guesses, with what is right beside those that are wrong.
        """
        _require_no_others(options, ())
        items, metrics = list(items), self.config.metrics
        if quick:
            metrics = replace(metrics, samples=0)
        texts = [item.inputs[0] for item in items]
        pieces, of_item = self._pieces_of(texts)
        gapped = dict(enumerate(self._drawn(pieces)))
        nats, tokens, right = np.zeros((3, len(items)))
        guesses: dict[int, list[int]] = {}
        self.ready()
        for rows in _batches({i: len(each.ids) for i, each in gapped.items()}, batch_size):
            if on_batch is not None:
                on_batch()
            batch = self._batch([gapped[i] for i in rows])
            surprise, guessed = self._guess(batch)
            counts = [len(gapped[i].places) for i in rows]
            of = np.repeat(of_item[rows], counts)
            np.add.at(nats, of, surprise.numpy())
            np.add.at(tokens, of, 1)
            np.add.at(right, of, (guessed == batch.targets.cpu()).numpy())
            for i, ids in zip(rows, guessed.split(counts), strict=True):
                guesses[i] = ids.tolist()
        answers = [""] * len(items)
        for i in reversed(range(len(gapped))):  # the first piece of a text is the one shown
            answers[of_item[i]] = self._shown(guesses[i], gapped[i].targets)
        tallies = self._tallies(nats, tokens.astype(np.int64), right)
        return Evaluation(
            scores_of(tallies, metrics.samples, metrics.seed),
            answers,
            items,
            [] if quick else by_length(tallies, texts),
        )

    def parts(self) -> dict[str, str]:
        """The vocabulary."""
        return {"tokenizer.json": self.tokenizer.to_string()}

    def _hidden(self, batch: Gaps) -> Float[Tensor, "n d"]:
        """What the output turns into logits, at the places to be guessed only."""
        states = self.model.read(batch.tokens, batch.mask).states
        return self.model.transform(states.flatten(0, 1).index_select(0, batch.places))

    def _batch(self, gapped: Sequence[Gapped]) -> Gaps:
        """These texts as one batch, where the model is."""
        tokens, real = pad([each.ids for each in gapped])
        width = tokens.shape[1]
        places = [row * width + at for row, each in enumerate(gapped) for at in each.places]
        targets = [target for each in gapped for target in each.targets]
        batch = Gaps(
            tokens, real, torch.tensor(places, dtype=torch.long), torch.tensor(targets).long()
        )
        return batch.to(next(self.parameters()).device)

    def _pieces(self, examples: Encoded) -> Ragged:
        """What is read at once: rows, and the parts of those that are too long."""
        if examples.key not in self._cut_before:
            self._cut_before[examples.key] = self._cut(examples.fields[0])
        return self._cut_before[examples.key]

    def _pieces_of(self, texts: list[str]) -> tuple[Ragged, npt.NDArray[np.int64]]:
        """The pieces of these texts, and the number of the text that each is of."""
        rows = self.tokenizer.encode_batch(texts)
        ends = np.cumsum([0, *map(len, rows)])
        pieces = self._cut(Ragged(np.fromiter(chain.from_iterable(rows), np.uint32), ends))
        return pieces, np.searchsorted(ends, pieces.offsets[:-1], side="right") - 1

    def _cut(self, rows: Ragged) -> Ragged:
        """The same numbers, with long rows cut into as few pieces as can be, of like length."""
        lengths = rows.lengths
        counts = -(-lengths // (self.config.text.max_length - CONTROLS))
        row = np.repeat(np.arange(len(rows)), counts)
        number = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = rows.offsets[row] + number * lengths[row] // counts[row]
        return Ragged(rows.tokens, np.append(starts, rows.offsets[-1]))

    def _masked(
        self, pieces: Ragged, rows: npt.ArrayLike, generator: torch.Generator | None
    ) -> tuple[Masked, Bool[Tensor, "b s"]]:
        """Some pieces between control tokens, masked, and which tokens are real."""
        tokens, real = pad_rows(pieces, rows, **self.around)
        return self.masking(tokens, real, generator), real

    def _drawn(self, pieces: Ragged) -> Iterator[Gapped]:
        """All pieces, masked always alike: it depends on nothing but them."""
        generator = torch.Generator().manual_seed(DRAW)
        for start in range(0, len(pieces), DRAWN):
            rows = np.arange(start, min(start + DRAWN, len(pieces)))
            masked, real = self._masked(pieces, rows, generator)
            row, at = np.divmod(masked.places.numpy(), real.shape[1])
            for i, length in enumerate(real.sum(1).tolist()):
                yield Gapped(
                    masked.tokens[i, :length].tolist(),
                    at[row == i].tolist(),
                    masked.targets.numpy()[row == i].tolist(),
                )

    def _guess(self, batch: Gaps) -> tuple[Float[Tensor, " n"], Int[Tensor, " n"]]:
        """The surprise of each target, and the likeliest token in its place."""
        surprise, guessed = [], []
        with torch.no_grad():
            x = self._hidden(batch)
            rows = max(1, NUMBERS_AT_ONCE // len(self.tokenizer))
            for part, targets in zip(x.split(rows), batch.targets.split(rows), strict=True):
                log_p = self.model.output(part).log_softmax(-1)
                surprise.append(-log_p.gather(1, targets.unsqueeze(1)).squeeze(1))
                guessed.append(log_p.argmax(-1))
        return torch.cat(surprise).cpu(), torch.cat(guessed).cpu()

    def _shown(self, guesses: Sequence[int], targets: Sequence[int]) -> str:
        """The first guesses, as in "▁cat, ▁on, ▁dog (▁mat)"."""
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
        """What was counted for each item."""
        masking = self.config.masking
        options = f"per:masked_token|share:{masking.share:g}|whole:{masking.whole}|draw:{DRAW}"
        surprise = loss_tally(nats.tolist(), tokens.tolist())
        tallies = (
            surprise,
            perplexity_tally(nats.tolist(), tokens.tolist()),
            replace(
                surprise,
                name="accuracy",
                counts=np.stack((right, tokens.astype(np.float64)), 1),
                value=ratio,
                higher_is_better=True,
            ),
        )
        return {t.name: replace(t, signature=signature_of(options)) for t in tallies}

    def _open(self, text: str, number: int) -> Asked:
        """The tokens of an input with holes; `number` is what it is called in errors."""
        *before, last = text.split(HOLE)
        if not before:
            raise DecodingError(
                f"input {number} has no hole to fill: write {HOLE} where a piece is missing, as in "
                f'"the cat sat on the {HOLE}."; got {text[:60]!r}'
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
        return Asked(ids, holes, apart, self._window(len(ids), holes, number))

    def _window(self, length: int, holes: list[int], number: int) -> slice:
        """What of a long input is read: the tokens around its holes, which is said."""
        most = self.config.text.max_length - CONTROLS
        if length <= most:
            return slice(0, length)
        if holes[-1] - holes[0] >= most:
            raise DecodingError(
                f"the holes of input {number} are {holes[-1] - holes[0]} tokens apart, and at most "
                f"{most} are read at once (text.max_length): ask for them one by one"
            )
        log.warning(
            "input %d has %d tokens; only the %d around its holes are read, as text.max_length "
            "allows",
            number,
            length,
            most,
        )
        start = min(max(0, (holes[0] + holes[-1] + 1 - most) // 2), length - most)
        return slice(start, start + most)

    def _gapped(self, asked: Asked, right: Sequence[int]) -> Gapped:
        """What is read of an input; `right` has the tokens that belong into its holes."""
        ids = [self.tokenizer.cls, *asked.ids[asked.window], self.tokenizer.sep]
        places = [hole - asked.window.start + 1 for hole in asked.holes]
        return Gapped(ids, places, [right[hole] for hole in asked.holes])

    def _fill(
        self, log_p: Float[Tensor, "n v"], apart: Sequence[bool], most: int
    ) -> list[tuple[float, tuple[int, ...]]]:
        """The best fillings of the holes, each with its mean log-probability."""
        if not log_p.isfinite().all():
            raise DecodingError("the model gives NaN instead of probabilities; its weights are bad")
        found: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
        for of_hole, has_space in zip(log_p, apart, strict=True):
            allowed = self._allowed(apart=has_space)
            best = of_hole[allowed].topk(min(most, len(allowed)))
            pieces = allowed[best.indices].tolist()
            longer = (
                (total + score, (*chosen, piece))
                for total, chosen in found
                for score, piece in zip(best.values.tolist(), pieces, strict=True)
            )
            found = nlargest(most, longer, key=lambda filling: filling[0])
        return [(total / len(apart), chosen) for total, chosen in found]

    def _allowed(self, *, apart: bool) -> Int[Tensor, " n"]:
        """The pieces that a hole may hold: where pieces have their space, it is as in the input."""
        ordinary = self.masking.ordinary
        fitting = ordinary[self._with_space == apart]
        return fitting if self.spaced and len(fitting) else ordinary

    def _watching(self, *, attention: bool) -> AbstractContextManager[Mapping[str, Watched]]:
        return watch(self.model, device="cpu") if attention else nullcontext({})

    def _record(
        self, asked: Asked, pieces: Sequence[int], row: int, seen: Mapping[str, Watched]
    ) -> AttentionRecord:
        """Where each token of what was read looked; the words are those of the filled text."""
        ids = asked.filled(pieces)[asked.window]
        words, word_of = self.tokenizer.words(ids)
        tokens = self.tokenizer.pieces(ids)
        for hole in asked.holes:
            tokens[hole - asked.window.start] = HOLE
        side = Side(("[CLS]", *tokens, "[SEP]"), tuple(words), (None, *word_of, None))
        length = len(side.tokens)
        weights = {
            name: each.weights[row, :, :length, :length].numpy() for name, each in seen.items()
        }
        return AttentionRecord(side, side, weights)


def _require_no_others(options: Mapping[str, Any], known: Sequence[str]) -> None:
    if options:
        names = ", ".join((*known, "batch_size"))
        raise DecodingError(f"there is no option {next(iter(options))!r}; there are: {names}")


def _batches(lengths: Mapping[int, int], batch_size: int) -> Iterator[list[int]]:
    """Numbers of texts that are read together: of about one length."""
    if batch_size < 1:
        raise DecodingError(f"batch_size must be at least 1, got {batch_size}")
    order = sorted(lengths, key=lambda i: lengths[i])
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]
