"""What tasks that write text share: the loss, generation, and how answers are measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from saccade.attention.watch import watch
from saccade.config import Fraction
from saccade.data.corpus import Item
from saccade.decoding import GenerationLimits, Hypothesis
from saccade.errors import WatchError
from saccade.interfaces import HasEngine
from saccade.layers.cross_entropy import cross_entropy
from saccade.lens.record import Side
from saccade.metrics import TextMetricsConfig, by_length
from saccade.metrics.score import scores_of
from saccade.models import Captioner, Translator
from saccade.shapes import Float, Int, Tensor
from saccade.tasks._shared.answering import Answer, OnBatch
from saccade.tasks._shared.base import Evaluation, Loss, Task, likelihood
from saccade.text import Tokenizer

WORD = "▁"
"""How a vocabulary shows the space before a word."""


@dataclass(frozen=True, kw_only=True)
class SequenceLossConfig:
    """What is learned from.

    label_smoothing   the share of the target that is given to all tokens alike
    """

    label_smoothing: Fraction = 0.1


class WritingTask(Task):
    """A task whose model reads something and writes a text in the vocabulary `target`."""

    model: Translator | Captioner
    target: Tokenizer
    metrics: TextMetricsConfig

    def lengths(self, items: Sequence[Item]) -> list[str]:
        """The texts by whose length quality is told: what was read."""
        return [item.inputs[0] for item in items]

    def evaluate(
        self,
        items: Iterable[Item],
        *,
        quick: bool = False,
        on_batch: OnBatch | None = None,
        batch_size: int = 64,
        **options: Any,
    ) -> Evaluation:
        """Answer the items and measure the answers against their references."""
        items, metrics = list(items), self.metrics
        if quick:
            options = {"beam": 1, "num_best": 1, **options}
            metrics = replace(metrics, samples=0)
        examples = self.prepare([self.input_of(item) for item in items], **options)
        if not quick:
            self.warn(examples)
        found = self.answer_all(examples, batch_size=batch_size, on_batch=on_batch)
        answers = [answer.text for answer in found]
        tallies = metrics.tally(answers, [item.references for item in items])
        return Evaluation(
            scores_of(tallies, metrics.samples, metrics.seed),
            answers,
            items,
            [] if quick else by_length(tallies, self.lengths(items)),
            engine=self.engine.name if isinstance(self, HasEngine) else "eager",
        )

    def probability(self, given: Any, output: str) -> float:
        """Return the geometric mean of the probabilities of an output's tokens for an input."""
        return likelihood(self, given, output)

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
        return Loss(found.total, len(places), {"nll": found.nll})

    def limits(self, longest: int) -> GenerationLimits:
        """Answers of `longest` tokens at most, among which no control token but the stop is."""
        control = (self.target.pad, self.target.start, self.target.unknown)
        return GenerationLimits(
            stop=self.target.stop,
            max_length=longest,
            forbidden=(*control, self.target.cls, self.target.sep, self.target.mask),
        )

    def written(self, hypotheses: Sequence[Hypothesis]) -> Answer:
        """Return the best hypothesis as an answer, with the others as alternatives."""
        chosen, *others = (
            Answer(
                self.target.decode(list(each.tokens)),
                each.score,
                finished=each.finished,
                tokens=each.tokens,
            )
            for each in hypotheses
        )
        return replace(chosen, alternatives=tuple(others))

    def tokens_of(self, answers: Sequence[Answer]) -> list[list[int]]:
        """Return the generated tokens of answers; those of other texts are encoded."""
        encoded = self.target.encode_batch([answer.text for answer in answers])
        return [
            ids if answer.tokens is None else list(answer.tokens)
            for answer, ids in zip(answers, encoded, strict=True)
        ]

    def sides_written(self, answers: Sequence[Answer], tokens: Sequence[list[int]]) -> list[Side]:
        """Return the written sides of records; words of given texts are as they stand there."""
        texts = [answer.text for answer in answers]
        given = sides_read(self.target, texts, tokens)
        return [
            side if answer.tokens is None else side_of(self.target, ids)
            for answer, side, ids in zip(answers, given, tokens, strict=True)
        ]

    def looks(self, run: Callable[[], object]) -> dict[str, Float[Tensor, "b h t n"]]:
        """The weights with which the writer looked at what was read, while `run` ran."""
        crossings = self.model.cross_attentions()
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
