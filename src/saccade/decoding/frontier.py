"""The beginnings that beam search is writing on, as tensors."""

from dataclasses import dataclass

import torch

from saccade.decoding.stepping import largest
from saccade.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class Frontier:
    """For each of b rows the beginnings in n beams, best first.

    `rows` are the rows of the batch they are of, `places` where in the state is what each beam
    continues. A beam whose log-probability is -inf is dead; it only fills its place.
    """

    rows: Int[Tensor, " b"]
    places: Int[Tensor, "b n"]
    tokens: Int[Tensor, "b n t"]
    log_p: Float[Tensor, "b n"]

    @classmethod
    def before(cls, first: Int[Tensor, " b"]) -> "Frontier":
        """One beam for each row, with nothing written yet."""
        rows = torch.arange(len(first), device=first.device)
        nothing = rows.new_empty(len(rows), 1, 0)
        certain = torch.zeros(len(rows), 1, device=first.device)
        return cls(rows, rows.unsqueeze(1), nothing, certain)

    def continued(self, log_p: Float[Tensor, "beams v"], count: int) -> "Frontier":
        """The `count` best continuations of each row, or all if there are fewer."""
        width, vocabulary = self.log_p.shape[1], log_p.shape[1]
        totals = log_p.view(-1, width, vocabulary) + self.log_p.unsqueeze(-1)
        totals, found = largest(totals.flatten(1), count)
        parents, new = found // vocabulary, (found % vocabulary).unsqueeze(-1)
        tokens = torch.cat((_gathered(self.tokens, parents), new), -1)
        starts = torch.arange(0, len(log_p), width, device=found.device).unsqueeze(1)
        return Frontier(self.rows, starts + parents, tokens, totals)

    def best(self, wanted: Bool[Tensor, "b n"], count: int) -> "Frontier":
        """The `count` best of the wanted beams of each row; dead ones where there are fewer."""
        log_p = self.log_p.masked_fill(~wanted, -torch.inf)
        log_p, order = log_p.sort(stable=True, descending=True)
        log_p, order = log_p[:, :count], order[:, :count]
        # the dead repeat the best one, so that the model is fed nothing that is not allowed
        order = torch.where(log_p > -torch.inf, order, order[:, :1])
        return Frontier(
            self.rows, self.places.gather(1, order), _gathered(self.tokens, order), log_p
        )

    def of_rows(self, at: Int[Tensor, " n"]) -> "Frontier":
        """Without the rows that are not at these places, which are in order."""
        if len(at) == len(self.rows):
            return self
        return Frontier(self.rows[at], self.places[at], self.tokens[at], self.log_p[at])


def _gathered(tokens: Int[Tensor, "b n t"], order: Int[Tensor, "b m"]) -> Int[Tensor, "b m t"]:
    return tokens.gather(1, order.unsqueeze(-1).expand(-1, -1, tokens.shape[-1]))
