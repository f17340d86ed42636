"""Which attention aligns words best, found out without gold alignments.

In a layer that aligns, looking from either side finds the same partner: where a written word looks
most at a word of the source, no other written word looks at that one more. So the candidates are
ranked by how far the two directions agree over some sentence pairs: every layer and the mean of
all, each head and the mean of heads, as a word is written and as it is read (`AlignBy.shift`).
Among many heads one agrees best by chance, so of those that are about as good the mean is taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from saccade.errors import WatchError
from saccade.lens.alignment.extraction import AlignBy, both_ways
from saccade.lens.record import AttentionRecord

NEAR = 0.02
"""Agreements that differ by less tell nothing."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What words might be aligned by, and the share of links that agree."""

    by: AlignBy
    agreement: float

    @property
    def breadth(self) -> int:
        """How much it is the mean of: a head, a layer, all layers."""
        return (self.by.head is None) + (self.by.layer is None)


def candidates(records: Sequence[AttentionRecord]) -> list[Candidate]:
    """All of them over the sentence pairs of these records, the best first."""
    if not records or not records[0].layers:
        raise WatchError("words are aligned by attention, and there is none in these records")
    found = [Candidate(by=by, agreement=agreement(records, by)) for by in _ways(records[0])]
    least = max(each.agreement for each in found) - NEAR

    def rank(each: Candidate) -> tuple[bool, int, float]:
        near = each.agreement >= least
        return not near, -each.breadth if near else 0, -each.agreement

    return sorted(found, key=rank)


def agreement(records: Sequence[AttentionRecord], by: AlignBy) -> float:
    """The share of links, among those of both directions, that both have: 1 where each word has
    one partner, less where weights are blurred.
    """
    both = every = 0
    for record in records:
        forward, backward = both_ways(record.to_align(by))
        both += 2 * len(forward & backward)
        every += len(forward) + len(backward)
    return both / every if every else 0.0


def _ways(record: AttentionRecord) -> list[AlignBy]:
    """Each layer and the mean of all, each head and the mean of heads, written and read."""
    heads: list[tuple[str | None, int | None]] = [(None, None)] if len(record.layers) > 1 else []
    for name, weights in record.weights.items():
        heads += [(name, None), *((name, i) for i in range(len(weights)) if len(weights) > 1)]
    return [
        AlignBy(layer=layer, head=head, shift=shift, join="grow-diag-final")
        for (layer, head), shift in product(heads, (False, True))
    ]
