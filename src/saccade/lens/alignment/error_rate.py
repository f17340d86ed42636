"""How far to believe the picture: attention measured against what is known to be right."""

from collections.abc import Collection, Sequence

import numpy as np
from jaxtyping import Float

from saccade.errors import MetricError
from saccade.lens.alignment.extraction import Link


def alignment_error_rate(
    predicted: Sequence[Collection[Link]],
    sure: Sequence[Collection[Link]],
    possible: Sequence[Collection[Link]],
) -> float:
    """AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|), summed over the corpus (Och and Ney 2003).

    A are the predicted links, S the sure ones of the gold, P the possible ones: a fraction, 0 is
    best. Sure links count as possible, whether `possible` repeats them or not. Pairs are (source,
    target), counted from 0 or 1 but in all three alike. Nothing predicted where nothing is sure is
    no error.
    """
    hits, size = alignment_counts(predicted, sure, possible).sum(0).tolist()
    return 1 - hits / size if size else 0.0


def alignment_counts(
    predicted: Sequence[Collection[Link]],
    sure: Sequence[Collection[Link]],
    possible: Sequence[Collection[Link]],
) -> Float[np.ndarray, "pairs 2"]:
    """For each sentence pair |A ∩ S| + |A ∩ P| and |A| + |S|, of whose sums the rate is made."""
    if not len(predicted) == len(sure) == len(possible):
        raise MetricError(
            "predicted, sure and possible have one set of pairs for each sentence pair; "
            f"got {len(predicted)}, {len(sure)} and {len(possible)} sets"
        )
    counts = np.zeros((len(predicted), 2))
    for i, (links, certain, maybe) in enumerate(zip(predicted, sure, possible, strict=True)):
        a, s = set(links), set(certain)
        counts[i] = len(a & s) + len(a & (s | set(maybe))), len(a) + len(s)
    return counts
