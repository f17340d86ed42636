"""Alignment error rate: word alignments measured against gold alignments."""

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
    """Return the alignment error rate of a corpus (Och and Ney 2003).

        AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

    A are the predicted links, S the sure and P the possible links of the gold alignments; the
    counts are summed over the corpus before they are divided.

    Args:
        predicted: for each sentence pair its links (source word, target word).
        sure: for each sentence pair the links that must be there.
        possible: for each sentence pair the links that may be there. Sure links are possible,
            whether they are repeated here or not.

    Returns:
        A fraction from 0 (best) to 1; 0 if nothing is predicted and nothing is sure.

    Raises:
        MetricError: if the three lists differ in length.

    Example:
        >>> predicted = [{(0, 0), (1, 2)}]
        >>> alignment_error_rate(predicted, sure=[{(0, 0), (1, 1)}], possible=[{(1, 2)}])
        0.25
    """
    hits, size = alignment_counts(predicted, sure, possible).sum(0).tolist()
    return 1 - hits / size if size else 0.0


def alignment_counts(
    predicted: Sequence[Collection[Link]],
    sure: Sequence[Collection[Link]],
    possible: Sequence[Collection[Link]],
) -> Float[np.ndarray, "pairs 2"]:
    """Return |A ∩ S| + |A ∩ P| and |A| + |S| of each sentence pair.

    The arguments are those of `alignment_error_rate`, which divides the sums of these counts.
    """
    if not len(predicted) == len(sure) == len(possible):
        raise MetricError(
            "predicted, sure and possible must each have one set of links per sentence pair; "
            f"got {len(predicted)}, {len(sure)} and {len(possible)} sets"
        )
    counts = np.zeros((len(predicted), 2))
    for i, (links, certain, maybe) in enumerate(zip(predicted, sure, possible, strict=True)):
        a, s = set(links), set(certain)
        counts[i] = len(a & s) + len(a & (s | set(maybe))), len(a) + len(s)
    return counts
