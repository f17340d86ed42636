"""Bootstrap resampling: how much a score would vary with other items of the same kind.

    confidence interval   the middle 95 % of the scores of corpora sampled from the items with
                          replacement
    paired bootstrap      the same for the difference of two systems on the same items
                          (Koehn 2004, "Statistical significance tests for machine translation
                          evaluation")

Items are sampled as in sacreBLEU, so the same seed gives the same intervals.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saccade.errors import MetricError

SAMPLES = 1000
SEED = 12345
_AT_ONCE = 1 << 20  # sampled items at a time, which limits the memory for large corpora


@dataclass(frozen=True, kw_only=True)
class PairedDifference:
    """The difference of two systems, a and b, on the same items.

    Attributes:
        difference: score(a) - score(b).
        interval: The 95 % confidence interval of the difference.
        p_value: The two-sided p-value: how often resampling alone, if the systems were equal,
            moves the difference at least as far from 0. It is 1 for equal scores.
        sacrebleu_p_value: The p-value that `sacrebleu --paired-bs` prints. It subtracts the mean
            after taking the absolute value, so it is one-sided, about half of `p_value`, and calls
            equal systems different.
        fraction_above: The fraction of resamples in which a has the higher score (Koehn 2004).
        samples: The number of resamples.
        seed: The seed of the resamples.
    """

    difference: float
    interval: tuple[float, float]
    p_value: float
    sacrebleu_p_value: float
    fraction_above: float
    samples: int
    seed: int


def paired_bootstrap(
    counts_a: Float[np.ndarray, "items numbers"],
    counts_b: Float[np.ndarray, "_ _"],
    value: Callable[[Float[np.ndarray, " numbers"]], float],
    *,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> PairedDifference:
    """Compare two systems by a metric.

    With tallies: `paired_bootstrap(a.counts, b.counts, a.value)`.

    Args:
        counts_a: The counts (items, numbers) of system a.
        counts_b: The counts of system b for the same items in the same order.
        value: Computes the metric from sums of counts.
        samples: The number of resamples, at least 1.
        seed: The seed of the resamples.

    Raises:
        MetricError: The counts differ in shape, or there are no items or resamples.
    """
    if counts_a.shape != counts_b.shape:
        raise MetricError(
            "two systems are compared by the same metric on the same items; "
            f"got counts {counts_a.shape} and {counts_b.shape} (items, numbers)"
        )
    if samples < 1:
        raise MetricError(
            f"a paired bootstrap needs at least 1 resample, got {samples}; 1000 is usual"
        )
    both = resampled_sums(np.concatenate((counts_a, counts_b), 1), samples, seed)
    difference = value(counts_a.sum(0)) - value(counts_b.sum(0))
    width = counts_a.shape[1]
    resampled = np.array([value(row[:width]) - value(row[width:]) for row in both])
    return paired_difference(float(difference), resampled, seed=seed)


def paired_difference(
    difference: float, resampled: Float[np.ndarray, " samples"], *, seed: int = SEED
) -> PairedDifference:
    """Return the statistics of a difference of two scores and its values in resamples.

    Args:
        difference: The difference of the two scores.
        resampled: The difference in each resample.
        seed: The seed of the resamples, which is recorded.
    """
    # the tolerance counts a resample as far off as the difference itself despite rounding
    reached = np.abs(resampled - resampled.mean()) >= abs(difference) * (1 - 1e-9)
    one_sided = np.abs(resampled) - np.abs(resampled).mean() > abs(difference)
    return PairedDifference(
        difference=difference,
        interval=percentiles(resampled),
        p_value=_p_value(reached) if difference else 1.0,
        sacrebleu_p_value=_p_value(one_sided),
        fraction_above=float((resampled > 0).mean()),
        samples=len(resampled),
        seed=seed,
    )


def _p_value(extreme: np.ndarray) -> float:
    """Return the fraction of extreme resamples, counting the observed value, so it is never 0."""
    return (int(extreme.sum()) + 1) / (len(extreme) + 1)


def resampled_sums(
    counts: Float[np.ndarray, "items numbers"], samples: int, seed: int
) -> Float[np.ndarray, "samples numbers"]:
    """Return the sums over `samples` corpora of the same size, sampled with replacement.

    Args:
        counts: The counts of each item.
        samples: The number of resamples.
        seed: The random seed.
    """
    items = len(counts)
    if items == 0 or samples < 0 or seed < 0:
        raise MetricError(
            "resampling needs at least 1 item, and samples and seed of 0 or more; got "
            f"{items} items, samples = {samples}, seed = {seed}"
        )
    generator = np.random.default_rng(seed)
    at_once = max(1, _AT_ONCE // items)
    sums = [np.empty((0, counts.shape[1]))]
    for begin in range(0, samples, at_once):
        rows = min(at_once, samples - begin)
        chosen = generator.integers(items, size=(rows, items))
        # count how often each item was sampled: a product then sums without copying the items
        chosen += items * np.arange(rows)[:, None]
        times = np.bincount(chosen.ravel(), minlength=rows * items).reshape(rows, items)
        sums.append(times @ counts)
    return np.concatenate(sums)


def percentiles(values: Float[np.ndarray, " samples"]) -> tuple[float, float]:
    """Return the ends of the middle 95 %, without a fortieth on each side, as in sacreBLEU."""
    ordered = np.sort(values)
    out = len(ordered) // 40
    return float(ordered[out]), float(ordered[-1 - out])
