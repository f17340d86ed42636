"""Bootstrap resampling: how far a score would move with other items of the same kind.

    confidence interval   the middle 95 % of the scores of corpora drawn from the items with return
    paired bootstrap      the same for the difference of two systems on the same items
                          (Koehn 2004, "Statistical significance tests for MT evaluation")

The items are drawn as sacreBLEU draws them, so its seed gives its intervals.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saccade.errors import MetricError

SAMPLES = 1000
SEED = 12345
_DRAWN_AT_ONCE = 1 << 20  # keeps the memory of large corpora in bounds


@dataclass(frozen=True, kw_only=True)
class PairedDifference:
    """Whether system a differs from system b, as far as these items can tell.

    `difference` is score(a) - score(b) and `interval` its 95 % confidence interval.
    `p_value` is two-sided: how often resampling alone, were the systems equal, would move the
    difference at least as far from 0. Two systems with the same score have 1.
    `sacrebleu_p_value` is what `sacrebleu --paired-bs` prints. It subtracts the mean after taking
    the absolute value, so it looks at one side only, comes to about half of `p_value`, and calls
    equal systems different.
    `share_above` is Koehn's number: the share of resamples in which a's score is the higher one.
    """

    difference: float
    interval: tuple[float, float]
    p_value: float
    sacrebleu_p_value: float
    share_above: float
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
    """Compare two systems by a metric that `value` computes from sums of what was counted.

    Row i of both is the same item. With tallies: `paired_bootstrap(a.counts, b.counts, a.value)`.
    """
    if counts_a.shape != counts_b.shape:
        raise MetricError(
            "two systems are compared by the same metric on the same items; "
            f"got counts {counts_a.shape} and {counts_b.shape} (items, numbers for each)"
        )
    if samples < 1:
        raise MetricError(f"a paired bootstrap needs at least 1 resample, got {samples}")
    both = resampled_sums(np.concatenate((counts_a, counts_b), 1), samples, seed)
    real = value(counts_a.sum(0)) - value(counts_b.sum(0))
    width = counts_a.shape[1]
    drawn = np.array([value(row[:width]) - value(row[width:]) for row in both])
    return paired_difference(float(real), drawn, seed=seed)


def paired_difference(
    real: float, drawn: Float[np.ndarray, " samples"], *, seed: int = SEED
) -> PairedDifference:
    """The same from the difference of two scores, and what it was in each resample."""
    # a resample as far off as the difference itself counts, also where its last bit says otherwise
    reached = np.abs(drawn - drawn.mean()) >= abs(real) * (1 - 1e-9)
    one_sided = np.abs(drawn) - np.abs(drawn).mean() > abs(real)
    return PairedDifference(
        difference=real,
        interval=percentiles(drawn),
        p_value=_share(reached) if real else 1.0,
        sacrebleu_p_value=_share(one_sided),
        share_above=float((drawn > 0).mean()),
        samples=len(drawn),
        seed=seed,
    )


def _share(happened: np.ndarray) -> float:
    """The share, with one more for the real one, so that it is never 0."""
    return (int(happened.sum()) + 1) / (len(happened) + 1)


def resampled_sums(
    counts: Float[np.ndarray, "items numbers"], samples: int, seed: int
) -> Float[np.ndarray, "samples numbers"]:
    """The sums over `samples` corpora of as many items, drawn with return."""
    items = len(counts)
    if items == 0 or samples < 0 or seed < 0:
        raise MetricError(
            "resampling needs at least 1 item, a number of samples and a seed that are not "
            f"negative; got {items} items, samples = {samples}, seed = {seed}"
        )
    generator = np.random.default_rng(seed)
    at_once = max(1, _DRAWN_AT_ONCE // items)
    sums = [np.empty((0, counts.shape[1]))]
    for begin in range(0, samples, at_once):
        rows = min(at_once, samples - begin)
        drawn = generator.integers(items, size=(rows, items))
        # how often each item was drawn: a product then sums without copying the items
        drawn += items * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * items).reshape(rows, items)
        sums.append(times @ counts)
    return np.concatenate(sums)


def percentiles(values: Float[np.ndarray, " samples"]) -> tuple[float, float]:
    """The ends of the middle 95 %: a fortieth is left out on each side, as sacreBLEU does it."""
    ordered = np.sort(values)
    out = len(ordered) // 40
    return float(ordered[out]), float(ordered[-1 - out])
