"""How far to believe the picture: attention measured against what is known to be right."""

from collections.abc import Collection, Sequence

from saccade.errors import MetricError
from saccade.lens.align import Link


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
    if not len(predicted) == len(sure) == len(possible):
        raise MetricError(
            "predicted, sure and possible have one set of pairs for each sentence pair; "
            f"got {len(predicted)}, {len(sure)} and {len(possible)} sets"
        )
    hits = size = 0
    for links, certain, maybe in zip(predicted, sure, possible, strict=True):
        a, s = set(links), set(certain)
        hits += len(a & s) + len(a & (s | set(maybe)))
        size += len(a) + len(s)
    return 1 - hits / size if size else 0.0
