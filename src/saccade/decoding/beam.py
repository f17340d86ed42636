"""Beam search: the most likely beginnings are continued in parallel, several for each row.

At each step every beam is continued with every token. Those of the best `beam` continuations that
end with the stop token are set aside as finished; the best of the others are the next beams. A row
ends when none of its beams can still beat its worst kept hypothesis (Huang et al. 2017, "When to
finish?"), so the result is the same as if it were continued to the maximum length.
"""

import math
from dataclasses import dataclass, field

import torch

from saccade.decoding.greedy_search import most_likely
from saccade.decoding.hypothesis import GenerationLimits, Hypothesis
from saccade.decoding.stepping import (
    advance,
    largest,
    no_token_left,
    require_length_penalty,
    write,
)
from saccade.errors import DecodingError
from saccade.interfaces import State, Stepper
from saccade.shapes import Bool, Float, Int, Tensor


@torch.no_grad()
def beam_search(
    stepper: Stepper[State],
    state: State,
    first: Int[Tensor, " b"],
    limits: GenerationLimits,
    *,
    beam: int,
    length_penalty: float = 1.0,
    num_best: int = 1,
) -> list[list[Hypothesis]]:
    """Generate by beam search.

    Hypotheses are ranked by log P / length**length_penalty; those cut at the maximum length compete
    with the finished ones. A beam of 1 is greedy search: it ends with the first stop token, and the
    penalty changes only its score.

    Args:
        stepper: The model.
        state: The state that `stepper.start` returned; it cannot be used again.
        first: The first token of each row: the start token, or the last token of a prompt.
        limits: When generation ends, and which tokens are never generated.
        beam: Number of beams per row.
        length_penalty: Exponent α of the length; above 0 favours longer hypotheses.
        num_best: Number of hypotheses to return per row, at most `beam`.

    Returns:
        The hypotheses of each row, best first: `num_best`, or fewer if no others have a probability
        above 0.

    Raises:
        DecodingError: If an option is invalid, no token is allowed, or logits are not finite.

    Examples:
        >>> import torch
        >>> from saccade.decoders.transformer import TransformerDecoderConfig
        >>> from saccade.decoding import GenerationLimits, beam_search
        >>> from saccade.models import LanguageModelConfig
        >>> options = TransformerDecoderConfig(num_layers=1, num_heads=2, hidden_dim=32)
        >>> model = LanguageModelConfig(dim=16, decoder=options).build(20).eval()
        >>> first, limits = torch.tensor([1, 1]), GenerationLimits(stop=2, max_length=5)
        >>> rows = beam_search(model, model.start(), first, limits, beam=4, num_best=3)
        >>> [len(hypotheses) for hypotheses in rows]
        [3, 3]
        >>> rows[0][0].score >= rows[0][1].score
        True
    """
    _require_options(beam, length_penalty, num_best)
    if beam == 1:
        return write(stepper, state, first, limits, most_likely, length_penalty)
    kept = [_Kept(num_best, length_penalty, limits.max_length) for _ in range(len(first))]
    beams, tokens = Frontier.before(first), first
    for length in range(1, limits.max_length + 1):
        if len(beams.rows) == 0:
            break
        rows = beams.rows.repeat_interleave(beams.log_p.shape[1])
        log_p, state = advance(stepper, tokens, state, limits, rows, length - 1)
        # each beam has one stop token, so of twice as many continuations at least `beam` remain
        candidates = beams.continued(log_p, 2 * beam)
        stops = candidates.tokens[..., -1] == limits.stop
        _keep(kept, candidates, stops[:, :beam], finished=True)
        beams = candidates.best(~stops, beam)
        if length == limits.max_length:
            _keep(kept, beams, torch.ones_like(beams.places, dtype=torch.bool), finished=False)
        beams = beams.of_rows(_unfinished(kept, beams, length))
        tokens, places = beams.tokens[..., -1].flatten(), beams.places.flatten()
        in_order = torch.equal(places, torch.arange(len(rows), device=places.device))
        if len(places) > 0 and not in_order:
            state = stepper.select(state, places)
    return [row.hypotheses for row in kept]


@dataclass(frozen=True)
class Frontier:
    """The beams of beam search: n beginnings for each of b rows, best first.

    A beam whose log-probability is -inf is dead and only fills its place.

    Attributes:
        rows: The row of the batch of each.
        places: The row of the state that each beam continues.
        tokens: The tokens so far.
        log_p: The sum of their log-probabilities.
    """

    rows: Int[Tensor, " b"]
    places: Int[Tensor, "b n"]
    tokens: Int[Tensor, "b n t"]
    log_p: Float[Tensor, "b n"]

    @classmethod
    def before(cls, first: Int[Tensor, " b"]) -> "Frontier":
        """Return one empty beam for each row."""
        rows = torch.arange(len(first), device=first.device)
        tokens = rows.new_empty(len(rows), 1, 0)
        log_p = torch.zeros(len(rows), 1, device=first.device)
        return cls(rows, rows.unsqueeze(1), tokens, log_p)

    def continued(self, log_p: Float[Tensor, "beams v"], count: int) -> "Frontier":
        """Return the `count` best continuations of each row, or all if there are fewer."""
        width, vocabulary = self.log_p.shape[1], log_p.shape[1]
        totals = log_p.view(-1, width, vocabulary) + self.log_p.unsqueeze(-1)
        totals, index = largest(totals.flatten(1), count)
        parents, new = index // vocabulary, (index % vocabulary).unsqueeze(-1)
        tokens = torch.cat((_gathered(self.tokens, parents), new), -1)
        starts = torch.arange(0, len(log_p), width, device=index.device).unsqueeze(1)
        return Frontier(self.rows, starts + parents, tokens, totals)

    def best(self, allowed: Bool[Tensor, "b n"], count: int) -> "Frontier":
        """Return the `count` best of the allowed beams of each row, filled up with dead ones."""
        log_p = self.log_p.masked_fill(~allowed, -torch.inf)
        log_p, order = log_p.sort(stable=True, descending=True)
        log_p, order = log_p[:, :count], order[:, :count]
        # dead beams repeat the best one, so that the model never reads a token that is not allowed
        order = torch.where(log_p > -torch.inf, order, order[:, :1])
        return Frontier(
            self.rows, self.places.gather(1, order), _gathered(self.tokens, order), log_p
        )

    def of_rows(self, at: Int[Tensor, " n"]) -> "Frontier":
        """Keep the rows at these places, which are in order."""
        if len(at) == len(self.rows):
            return self
        return Frontier(self.rows[at], self.places[at], self.tokens[at], self.log_p[at])


def _gathered(tokens: Int[Tensor, "b n t"], order: Int[Tensor, "b m"]) -> Int[Tensor, "b m t"]:
    return tokens.gather(1, order.unsqueeze(-1).expand(-1, -1, tokens.shape[-1]))


@dataclass
class _Kept:
    """The best hypotheses of one row so far, best first; of equals the earlier one first."""

    size: int
    length_penalty: float
    max_length: int
    hypotheses: list[Hypothesis] = field(default_factory=list)

    def offer(self, tokens: list[int], log_probability: float, *, finished: bool) -> None:
        self.hypotheses.append(
            Hypothesis.of(
                tokens, log_probability, finished=finished, length_penalty=self.length_penalty
            )
        )
        self.hypotheses.sort(key=lambda hypothesis: -hypothesis.score)
        del self.hypotheses[self.size :]

    def can_change(self, log_probability: float, length: int) -> bool:
        """Return whether a continuation of this beam can still be among the best.

        log P only decreases, so the best possible score is that of the present log P at the most
        favourable length: the maximum if the penalty favours length, else the next.
        """
        if length == self.max_length or log_probability == -math.inf:
            return False
        if len(self.hypotheses) < self.size:
            return True
        best_length = self.max_length if self.length_penalty > 0 else length + 1
        return log_probability / best_length**self.length_penalty > self.hypotheses[-1].score


def _keep(
    kept: list[_Kept], beams: Frontier, which: Bool[Tensor, "b n"], *, finished: bool
) -> None:
    """Offer the hypotheses of these beams, unless they are dead, to their rows."""
    which = which & (beams.log_p[:, : which.shape[1]] > -math.inf)
    for i, j in which.nonzero().tolist():
        tokens = beams.tokens[i, j].tolist()
        kept[int(beams.rows[i])].offer(
            tokens[:-1] if finished else tokens, beams.log_p[i, j].item(), finished=finished
        )


def _unfinished(kept: list[_Kept], beams: Frontier, length: int) -> Int[Tensor, " n"]:
    """Return the places in `beams` of the rows that continue."""
    unfinished = []
    best = zip(beams.rows.tolist(), beams.log_p[:, 0].tolist(), strict=True)
    for i, (row, log_probability) in enumerate(best):
        if kept[row].can_change(log_probability, length):
            unfinished.append(i)
        elif not kept[row].hypotheses:
            raise no_token_left(row, length - 1)
    return torch.tensor(unfinished, dtype=torch.long, device=beams.rows.device)


def _require_options(beam: int, length_penalty: float, num_best: int) -> None:
    if beam < 1:
        raise DecodingError(f"beam must be at least 1, got {beam}; use 1 for greedy search")
    if not 1 <= num_best <= beam:
        raise DecodingError(
            f"num_best must be between 1 and beam = {beam}, got {num_best}; raise beam or lower "
            "num_best"
        )
    require_length_penalty(length_penalty)
