"""Selection of the attention that aligns words best, without gold alignments.

Where an attention aligns words, both directions agree: if a target word attends most to a source
word, no other target word attends to that source word more. Every candidate (each layer and the
mean of all, each head and the mean of heads, by the step that outputs a word and the step that
reads it) is ranked by how far its two directions agree over some sentence pairs. Among many heads
one agrees best by chance, so of candidates that are about as good, the broadest mean comes first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Protocol, runtime_checkable

import numpy as np

from saccade.errors import WatchError
from saccade.lens.alignment.align_by import AlignBy
from saccade.lens.alignment.extraction import both_ways

NEAR = 0.02
"""Agreements that differ by less than this count as equal."""


@runtime_checkable
class Alignable(Protocol):
    """An attention record, as far as selection needs it."""

    @property
    def weights(self) -> Mapping[str, np.ndarray]:
        """Weights (heads, target tokens, source tokens) of each layer."""
        ...

    def to_align(self, by: AlignBy | str | None = None) -> np.ndarray:
        """Return weights (target words, source words)."""
        ...


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Weights that words may be aligned by, and the agreement of both directions under them."""

    by: AlignBy
    agreement: float

    @property
    def breadth(self) -> int:
        """The number of means it takes: 0 for one head, 1 for a layer, 2 for all layers."""
        return (self.by.head is None) + (self.by.layer is None)


def candidates(records: Sequence[Alignable]) -> list[Candidate]:
    """Rank everything that words could be aligned by, the best first.

    Args:
        records: attention records of some sentence pairs, all of one model.

    Raises:
        WatchError: if the records hold no attention.
    """
    if not records or not records[0].weights:
        raise WatchError(
            "words are aligned by attention, but these records hold none; "
            "use a model with attention"
        )
    rated = [Candidate(by=by, agreement=agreement(records, by)) for by in _ways(records[0])]
    least = max(candidate.agreement for candidate in rated) - NEAR

    def rank(candidate: Candidate) -> tuple[bool, int, float]:
        near = candidate.agreement >= least
        return not near, -candidate.breadth if near else 0, -candidate.agreement

    return sorted(rated, key=rank)


def agreement(records: Sequence[Alignable], by: AlignBy) -> float:
    """Return the agreement of both directions, a fraction.

        2 |F ∩ B| / (|F| + |B|)

    F and B are the links of both directions (see `both_ways`), summed over the records. It is 1 if
    each word has exactly one partner, and lower the more the weights are spread.
    """
    common = total = 0
    for record in records:
        forward, backward = both_ways(record.to_align(by))
        common += 2 * len(forward & backward)
        total += len(forward) + len(backward)
    return common / total if total else 0.0


def _ways(record: Alignable) -> list[AlignBy]:
    """Each layer and the mean of all, each head and the mean of heads, by output and by input."""
    heads: list[tuple[str | None, int | None]] = [(None, None)] if len(record.weights) > 1 else []
    for name, weights in record.weights.items():
        heads += [(name, None), *((name, i) for i in range(len(weights)) if len(weights) > 1)]
    return [
        AlignBy(layer=layer, head=head, shift=shift, join="grow-diag-final")
        for (layer, head), shift in product(heads, (False, True))
    ]
