"""Beam search: the most likely beginnings are written on side by side, several for each row.

At each step every beam is continued with every token. Of the best `beam` continuations, those that
end with the stop are put aside as finished; the best of the others are the next beams. A row ends
only when none of its beams can still beat the worst hypothesis that is kept (Huang et al. 2017,
"When to finish?"), so its answer is the same as if it were written on to the maximum length.
"""

import math
from dataclasses import dataclass, field

import torch

from saccade.decoding.frontier import Frontier
from saccade.decoding.greedy import most_likely
from saccade.decoding.hypothesis import GenerationLimits, Hypothesis
from saccade.decoding.stepping import advance, nothing_allowed, require_length_penalty, write
from saccade.errors import DecodingError
from saccade.interfaces import State, Stepper
from saccade.shapes import Bool, Int, Tensor


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
    """The `num_best` best hypotheses that were found for each row, best first.

    They are ranked by log P / length**length_penalty, those cut at the maximum length among the
    finished ones. There are fewer if no more have a probability above 0. A beam of 1 is greedy
    search: it ends with the first stop, and the penalty changes its score only.
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
        # a beam has one stop, so of twice as many continuations at least `beam` go on
        found = beams.continued(log_p, 2 * beam)
        stops = found.tokens[..., -1] == limits.stop
        _keep(kept, found, stops[:, :beam], finished=True)
        beams = found.best(~stops, beam)
        if length == limits.max_length:
            _keep(kept, beams, torch.ones_like(beams.places, dtype=torch.bool), finished=False)
        beams = beams.of_rows(_unended(kept, beams, length))
        tokens, places = beams.tokens[..., -1].flatten(), beams.places.flatten()
        in_order = torch.equal(places, torch.arange(len(rows), device=places.device))
        if len(places) > 0 and not in_order:
            state = stepper.select(state, places)
    return [row.hypotheses for row in kept]


@dataclass
class _Kept:
    """The best hypotheses of one row so far, best first; of equals the one found first."""

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
        """Whether what grows out of a beam of this row can still find a place here.

        log P only falls, so the best it can come to is what it has now, at the length that suits
        its score most: the longest if the penalty favours length, else the next.
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
    """Offer the hypotheses of these beams, as far as they are alive, to the rows they are of."""
    which = which & (beams.log_p[:, : which.shape[1]] > -math.inf)
    for i, j in which.nonzero().tolist():
        tokens = beams.tokens[i, j].tolist()
        kept[int(beams.rows[i])].offer(
            tokens[:-1] if finished else tokens, beams.log_p[i, j].item(), finished=finished
        )


def _unended(kept: list[_Kept], beams: Frontier, length: int) -> Int[Tensor, " n"]:
    """The places in `beams` of the rows that go on."""
    going = []
    best = zip(beams.rows.tolist(), beams.log_p[:, 0].tolist(), strict=True)
    for i, (row, log_probability) in enumerate(best):
        if kept[row].can_change(log_probability, length):
            going.append(i)
        elif not kept[row].hypotheses:
            raise nothing_allowed(row, length - 1)
    return torch.tensor(going, dtype=torch.long, device=beams.rows.device)


def _require_options(beam: int, length_penalty: float, num_best: int) -> None:
    if beam < 1:
        raise DecodingError(f"beam must be at least 1, got {beam}")
    if not 1 <= num_best <= beam:
        raise DecodingError(f"num_best must be between 1 and beam = {beam}, got {num_best}")
    require_length_penalty(length_penalty)
