"""Tasks that generate text: the engine, the loss, and the metrics of answers with references."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from torch.nn import functional as F

from saccade.config import Count, Fraction
from saccade.data.corpus import Item, Split
from saccade.layers.cross_entropy import cross_entropy
from saccade.lens.record import Side
from saccade.metrics import TextMetricsConfig
from saccade.models import Captioner, Translator, VectorCaptioner
from saccade.shapes import Float, Int, Tensor
from saccade.tasks._shared.answering import Answer, TaskInput
from saccade.tasks._shared.attention_records import cross_attention
from saccade.tasks._shared.base import Loss, Task, likelihood, likelihoods
from saccade.tasks._shared.baselines import BaselineMethod
from saccade.tasks._shared.description import TextInput
from saccade.tasks._shared.evaluation import Evaluation, evaluation_of
from saccade.tasks._shared.generating import GeneratingPredictor
from saccade.tasks._shared.scoring import STOP, WORD, TokenScore, score_tokens
from saccade.text import Tokenizer, VocabularyConfig

if TYPE_CHECKING:
    from saccade.lens.record import AttentionRecord
    from saccade.lens.record.sides import AnySide

COUNTED = 200_000
"""The maximum number of rows whose outputs are counted for a baseline."""


@dataclass(frozen=True, kw_only=True)
class CaptionTextConfig:
    """The captions.

    vocabulary   the vocabulary
    max_length   tokens; longer captions are left out of training and counted
    """

    vocabulary: VocabularyConfig = VocabularyConfig(kind="word", lowercase=True)
    max_length: Count = 64


@dataclass(frozen=True, kw_only=True)
class SequenceLossConfig:
    """The loss of generated text: cross-entropy.

    label_smoothing   fraction of the target distribution that is spread evenly over all tokens;
                      0.1 is usual, 0 for small vocabularies or exact outputs
    """

    label_smoothing: Fraction = 0.1


class GeneratingTask(Task, GeneratingPredictor):
    """A task whose answers an engine generates: its own model, or another program."""


class WritingTask(GeneratingTask):
    """A task whose model reads an input and generates a text in the vocabulary `target`."""

    model: Translator | Captioner | VectorCaptioner
    target: Tokenizer
    metrics: TextMetricsConfig

    @property
    def attention_layers(self) -> list[str]:
        """The names of the attentions by which the decoder looks at what was read."""
        return self.model.cross_attentions()

    def lengths(self, items: Sequence[Item]) -> list[str]:
        """Return the texts by whose length metrics are grouped: the inputs."""
        return [item.inputs[0] for item in items]

    def measure(self, items: list[Item], answers: Sequence[Answer], *, quick: bool) -> Evaluation:
        """Return the metrics of the answers against the references of the items."""
        texts = [answer.text for answer in answers]
        references = [item.references for item in items]
        tallies = self.metrics.tally(texts, references)
        return evaluation_of(
            items,
            texts,
            tallies,
            self.metrics,
            quick=quick,
            texts=self.lengths(items),
            remarks=() if quick else self.metrics.remarks(references),
            engine=self.engine.name,
        )

    def baselines(self, train: Split) -> Iterator[BaselineMethod]:
        """Yield the most frequent text and, where the input is a text too, a copy of it."""
        texts = (row.values[1].strip() for row in islice(train, COUNTED))
        counts = Counter(text for text in texts if text)

        def method(name: str, answer: Callable[[Item], str]) -> BaselineMethod:
            def evaluate(items: list[Item]) -> Evaluation:
                answers = [Answer(answer(item), 0.0) for item in items]
                return WritingTask.measure(self, items, answers, quick=False)

            return BaselineMethod(name=name, kind="trivial", evaluate=evaluate)

        if counts:
            [(text, _)] = counts.most_common(1)
            yield method("most frequent output", lambda item: text)
        if isinstance(self.describe().reads, TextInput):
            yield method("copy of the input", lambda item: item.inputs[0])

    def probability(self, given: TaskInput, output: str) -> float:
        """Return the geometric mean of the probabilities of an output's tokens for an input."""
        return likelihood(self, given, output)

    def probabilities(self, inputs: Sequence[TaskInput], output: str) -> list[float]:
        """Return the `probability` of an output for each input, computed together."""
        return likelihoods(self, inputs, output)

    def written_loss(
        self,
        hidden: Float[Tensor, "b t d"],
        target: Int[Tensor, "b u"],
        places: Int[Tensor, " n"],
        smoothing: float,
    ) -> Loss:
        """Return the cross-entropy of the tokens at `places` of the flattened target[:, 1:]."""
        states = hidden.flatten(0, 1).index_select(0, places)
        labels = target[:, 1:].flatten().index_select(0, places)
        entropy = cross_entropy(
            states, self.model.output, labels, smoothing=smoothing if self.training else 0.0
        )

        def items() -> Tensor:
            losses = F.cross_entropy(self.model.output(states).float(), labels, reduction="none")
            rows = places // hidden.shape[1]
            sums = losses.new_zeros(len(hidden)).index_add(0, rows, losses)
            return sums / rows.bincount(minlength=len(hidden))

        return Loss(
            entropy.total,
            len(places),
            {"nll": entropy.nll},
            items=None if self.training else items,
        )

    @abstractmethod
    def forced(self, examples: Sequence[Any], targets: Sequence[list[int]]) -> Any:
        """Return the batch in which each example has the given tokens of an output."""

    @abstractmethod
    def states(self, batch: Any) -> Float[Tensor, "b t d"]:
        """Return the states from which the tokens of a batch are predicted."""

    def token_scores(
        self, examples: Sequence[Any], outputs: Sequence[str]
    ) -> list[list[TokenScore]]:
        """Return the score of each token of the outputs, their stop tokens included."""
        tokens = self.target.encode_batch(list(outputs))
        batch = self.forced(examples, tokens).to(self.device)
        states = self.states(batch).flatten(0, 1).index_select(0, batch.places)
        given = batch.target[:, 1:].flatten().index_select(0, batch.places)
        counts = [len(ids) + 1 for ids in tokens]
        logits = self.model.output(states)
        return score_tokens(logits, given, counts, self._names, self.writes.never)

    def _names(self, ids: list[int]) -> list[str]:
        return [STOP if i == self.target.stop else self.target.pieces([i])[0] for i in ids]

    def tokens_of(self, answers: Sequence[Answer]) -> list[list[int]]:
        """Return the generated tokens of answers; those of other texts are encoded."""
        encoded = self.target.encode_batch([answer.text for answer in answers])
        return [
            ids if answer.tokens is None else list(answer.tokens)
            for answer, ids in zip(answers, encoded, strict=True)
        ]

    def sides_written(self, answers: Sequence[Answer], tokens: Sequence[list[int]]) -> list[Side]:
        """Return the written sides of records; the words of given texts are kept as they are."""
        texts = [answer.text for answer in answers]
        given = sides_read(self.target, texts, tokens)
        return [
            side if answer.tokens is None else side_of(self.target, ids)
            for answer, side, ids in zip(answers, given, tokens, strict=True)
        ]

    def cross_records(
        self, run: Callable[[], object], read: Sequence[AnySide], wrote: Sequence[Side]
    ) -> list[AttentionRecord]:
        """Return where the decoder looks at what was read while `run` runs the model."""
        return cross_attention(self.model, run, read, wrote, self.attention_layers)


def predicted_places(target_mask: Tensor) -> Int[Tensor, " n"]:
    """Return the places of the flattened target[:, 1:] that are predicted."""
    return target_mask[:, 1:].flatten().nonzero().squeeze(1)


def side_of(tokenizer: Tokenizer, ids: list[int]) -> Side:
    """Return a generated text as tokens and words; its stop token belongs to no word."""
    words, word_of = tokenizer.words(ids)
    return _with_stop(tokenizer.pieces(ids), words, word_of)


def sides_read(
    tokenizer: Tokenizer, texts: Sequence[str], tokens: Sequence[list[int]]
) -> list[Side]:
    """Return given texts as tokens and words, with as many tokens as were read."""
    sides = []
    for text, ids in zip(texts, tokens, strict=True):
        pieces, words = tokenizer.split(text)[: len(ids)], tokenizer.normal(text).split()
        places = [piece.word for piece in pieces]
        sides.append(_with_stop([piece.text for piece in pieces], words, places))
    return sides


def _with_stop(pieces: list[str], words: list[str], word_of: list[int | None]) -> Side:
    # if every piece is a word, the mark of a word's beginning is noise
    if all(piece.startswith(WORD) for piece in pieces):
        pieces = [piece.removeprefix(WORD) for piece in pieces]
    return Side((*pieces, STOP), tuple(words), (*word_of, None))
