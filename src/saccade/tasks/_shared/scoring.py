"""Scores of given outputs: the probability of each token by one forced pass.

`Task.score` answers the question "why not this answer?": how probable the model finds each token of
a given output, which token it would have preferred, and where it looks while it is forced to write
this output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

from saccade.attention.watch import weights_in_graph
from saccade.shapes import Float, Int, Tensor
from saccade.tasks._shared.answering import Answer
from saccade.tasks._shared.notebook import scored_html

if TYPE_CHECKING:
    from saccade.lens.record import AttentionRecord

WORD, STOP, UNKNOWN = "▁", "</s>", "⁇"
"""The mark of a word's beginning, the stop token, and a token that is not in the vocabulary."""
SMALLEST = 1e-300
"""The probability that stands for 0 in a logarithm."""


class TokenScore(NamedTuple):
    """The score of a token of a given output, or of a label.

    Attributes:
        text: The token.
        probability: Its probability, given the input and the tokens before it.
        best: The most probable token at its place.
        best_probability: The probability of that token.
    """

    text: str
    probability: float
    best: str
    best_probability: float


@dataclass(frozen=True)
class ScoredAnswer(Answer):
    """A given output with the probability of each of its tokens.

    Attributes:
        text: The given output.
        score: Its mean log-probability per token.
        confidence: The geometric mean of the probabilities of its tokens; of a label, its
            probability. None if it has no tokens.
        attention: Where the model looked while it was forced to give this output; for a label, the
            attention that speaks for it, see `LabelTask.attention_toward`.
        token_scores: The score of each token, the stop token included; of a label, its own.
    """

    token_scores: tuple[TokenScore, ...] = ()

    def _repr_html_(self) -> str:
        shown = scored_html(self.text, self.confidence, self.token_scores)
        return shown if self.attention is None else shown + self.attention._repr_html_()

    def to_dict(self) -> dict[str, object]:
        """Return the answer as plain JSON values, without attention."""
        table = super().to_dict()
        return {**table, "tokens": [token._asdict() for token in self.token_scores]}


def scored_answer(text: str, token_scores: Sequence[TokenScore]) -> ScoredAnswer:
    """Return a given output with its scores, and their geometric mean as its confidence."""
    if not token_scores:
        return ScoredAnswer(text, 0.0)
    logs = [math.log(max(token.probability, SMALLEST)) for token in token_scores]
    score = sum(logs) / len(logs)
    return ScoredAnswer(text, score, confidence=math.exp(score), token_scores=tuple(token_scores))


def score_tokens(
    logits: Float[Tensor, "n v"],
    given: Int[Tensor, " n"],
    counts: Sequence[int],
    names: Callable[[list[int]], Sequence[str]],
    never: Sequence[int] = (),
) -> list[list[TokenScore]]:
    """Return the scores of the tokens of several outputs.

    Args:
        logits: The logits from which each token was predicted.
        given: The ids of the tokens.
        counts: The number of tokens of each output.
        names: Return the texts of ids.
        never: The ids that are never generated, and so never the best.
    """
    p = logits.float().softmax(-1)
    own = p.gather(-1, given.unsqueeze(-1)).squeeze(-1)
    best_p, best = p.index_fill(-1, torch.tensor(never, device=p.device).long(), 0.0).max(-1)
    ids = given.tolist(), best.tolist()
    texts, bests = ([_name(names, token) for token in some] for some in ids)
    rows = list(map(TokenScore, texts, own.tolist(), bests, best_p.tolist()))
    ends = torch.tensor([0, *counts]).cumsum(0).tolist()
    return [_without_marks(rows[start:end]) for start, end in pairwise(ends)]


def _without_marks(tokens: list[TokenScore]) -> list[TokenScore]:
    """Return tokens without the mark of a word's beginning, where every token is a word."""
    names = {name for token in tokens for name in (token.text, token.best)} - {STOP, UNKNOWN}
    if not all(name.startswith(WORD) and name != WORD for name in names):
        return tokens
    return [
        token._replace(text=token.text.removeprefix(WORD), best=token.best.removeprefix(WORD))
        for token in tokens
    ]


def _name(names: Callable[[list[int]], Sequence[str]], token: int) -> str:
    return "".join(names([token]))


def attention_toward(
    record: AttentionRecord, model: nn.Module, loss: Callable[[], Tensor]
) -> AttentionRecord:
    """Return the record of one input with its weights multiplied by their effect on a loss.

        weight · max(0, -∂ loss / ∂ weight)

    Each layer is divided by its largest sum over a query (Chefer et al. 2021, "Generic
    attention-model explainability for interpreting bi-modal and encoder-decoder transformers",
    without the product over layers).

    Args:
        record: The record.
        model: The model.
        loss: Run the model on this input and return the loss of an output.
    """
    with torch.enable_grad(), weights_in_graph(model) as seen:
        total = loss()
        known = {name: seen[name] for name in record.layers if name in seen}
        slopes = torch.autograd.grad(total, list(known.values()), allow_unused=True)
    weights = dict(record.weights)
    for (name, own), slope in zip(known.items(), slopes, strict=True):
        toward = torch.zeros_like(own) if slope is None else own * (-slope).clamp(min=0)
        array = toward.detach().float().cpu().reshape(weights[name].shape)
        weights[name] = (array / array.sum(-1).max().clamp(min=1e-12)).numpy()
    return replace(record, weights=weights, belief="")  # it was measured for plain attention
