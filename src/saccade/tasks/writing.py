"""What tasks that write text share: the loss, generation, and how answers are measured."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from saccade.attention.watch import watch
from saccade.config import Share
from saccade.data.corpus import Item
from saccade.decoding import GenerationConfig, Hypothesis, Limits, generate
from saccade.errors import WatchError
from saccade.interfaces import Engined
from saccade.layers.cross_entropy import cross_entropy
from saccade.lens.record import AttentionRecord, Side
from saccade.metrics import TextMetricsConfig, by_length
from saccade.metrics.score import scores_of
from saccade.models import Captioner, Translator
from saccade.shapes import Float, Int, Tensor
from saccade.tasks.base import Answer, BatchT, Evaluation, Loss, Task
from saccade.text import Tokenizer

WORD = "▁"
"""How a vocabulary shows the space before a word."""


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """What is learned from.

    label_smoothing   the share of the target that is given to all tokens alike
    """

    label_smoothing: Share = 0.1


class WritingTask(Task[BatchT]):
    """A task whose model reads something and writes a text in the vocabulary `target`."""

    model: Translator | Captioner
    target: Tokenizer
    metrics: TextMetricsConfig

    def lengths(self, items: Sequence[Item]) -> list[str]:
        """The texts by whose length quality is told: what was read."""
        return [item.inputs[0] for item in items]

    @abstractmethod
    def look(self, inputs: Sequence[Any], outputs: Sequence[str]) -> list[AttentionRecord]:
        """Where each output looked at its input, were it the answer."""

    def evaluate(
        self,
        items: Iterable[Item],
        *,
        quick: bool = False,
        on_batch: Callable[[], None] | None = None,
        batch_size: int = 64,
        **options: Any,
    ) -> Evaluation:
        """Answer the items and measure the answers against their references."""
        items, metrics = list(items), self.metrics
        if quick:
            options = {"beam": 1, "num_best": 1, **options}
            metrics = replace(metrics, samples=0)
        inputs = [item.inputs[0] for item in items]
        found = self.predict(inputs, on_batch=on_batch, batch_size=batch_size, **options)
        answers = [answer.text for answer in found]
        tallies = metrics.tally(answers, [item.references for item in items])
        return Evaluation(
            scores_of(tallies, metrics.samples, metrics.seed),
            answers,
            items,
            [] if quick else by_length(tallies, self.lengths(items)),
            engine=self.engine.name if isinstance(self, Engined) else "eager",
        )

    def written_loss(
        self,
        hidden: Float[Tensor, "b t d"],
        target: Int[Tensor, "b u"],
        places: Int[Tensor, " n"],
        smoothing: float,
    ) -> Loss:
        """Cross entropy of the target tokens at `places` of the flattened target[:, 1:]."""
        found = cross_entropy(
            hidden.flatten(0, 1).index_select(0, places),
            self.model.output,
            target[:, 1:].flatten().index_select(0, places),
            smoothing=smoothing if self.training else 0.0,
        )
        return Loss(found.total, len(places), {"surprise": found.surprise})

    def generate(
        self, state: Any, rows: Sequence[int], longest: int, options: GenerationConfig
    ) -> list[list[Hypothesis]]:
        """What is written from a state, best first; `rows` are the numbers of its inputs."""
        with torch.no_grad():
            return generate(
                self.model,
                state,
                start=self.target.start,
                limits=self.limits(longest),
                options=options,
                rows=rows,
                device=next(self.parameters()).device,
            )

    def limits(self, longest: int) -> Limits:
        """Answers of `longest` tokens at most, among which no control token but the stop is."""
        control = (self.target.pad, self.target.start, self.target.unknown)
        return Limits(
            stop=self.target.stop,
            max_length=longest,
            forbidden=(*control, self.target.cls, self.target.sep, self.target.mask),
        )

    def answer(self, hypotheses: Sequence[Hypothesis], record: AttentionRecord | None) -> Answer:
        """The best of them, with where it looked; the others are alternatives."""
        chosen, *others = (
            Answer(self.target.decode(list(each.tokens)), each.score, finished=each.finished)
            for each in hypotheses
        )
        return replace(chosen, attention=record, alternatives=tuple(others))

    def looks(self, run: Callable[[], object]) -> dict[str, Float[Tensor, "b h t n"]]:
        """The weights with which the writer looked at what was read, while `run` ran."""
        crossings = self.model.crossings()
        if not crossings:
            raise WatchError("this model has no attention: it never looks back at what it read")
        with torch.no_grad(), watch(self.model, layers=crossings, device="cpu") as seen:
            run()
        return {name: seen[name].weights for name in crossings}


def predicted_places(target_mask: Tensor) -> Int[Tensor, " n"]:
    """Where in the flattened target[:, 1:] there is something to predict."""
    return target_mask[:, 1:].flatten().nonzero().squeeze(1)


def side_of(tokenizer: Tokenizer, ids: list[int]) -> Side:
    """A text that was written: tokens, the words they are of, and the stop, which is of none."""
    words, word_of = tokenizer.words(ids)
    return _with_stop(tokenizer.pieces(ids), words, word_of)


def sides_read(
    tokenizer: Tokenizer, texts: Sequence[str], tokens: Sequence[list[int]]
) -> list[Side]:
    """Given texts, with their words as they stand in them, and as many tokens as were read."""
    sides = []
    for text, ids in zip(texts, tokens, strict=True):
        pieces, words = tokenizer.split(text)[: len(ids)], tokenizer.normal(text).split()
        places = [piece.word for piece in pieces]
        sides.append(_with_stop([piece.text for piece in pieces], words, places))
    return sides


def _with_stop(pieces: list[str], words: list[str], word_of: list[int | None]) -> Side:
    # where every piece is a word, the mark that it begins one says nothing
    if all(piece.startswith(WORD) for piece in pieces):
        pieces = [piece.removeprefix(WORD) for piece in pieces]
    return Side((*pieces, "</s>"), tuple(words), (*word_of, None))
