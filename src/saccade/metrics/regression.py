"""Metrics of predicted numbers.

    pearson              correlation of the numbers, -1 to 1
    spearman             correlation of their ranks, -1 to 1; equal numbers have their mean rank
    mean_squared_error   in the square of the numbers' unit

A correlation is undefined where all predictions or all references are equal; it is 0 there.
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from saccade.metrics.score import Tally, require_numbers, require_same_length, scored, signature_of

_NO_SPREAD = 1e-12  # variance over mean square that rounding alone leaves


def pearson_tally(predictions: Sequence[float], references: Sequence[float]) -> Tally:
    """Pearson's correlation coefficient, -1 to 1.

        r = Σ (x - x̄)(y - ȳ) / √(Σ (x - x̄)² · Σ (y - ȳ)²)

    Args:
        predictions: One number per item.
        references: The right number of each item.
    """
    x, y = _pairs(predictions, references)
    return _correlation_tally("pearson", x, y, "numbers:as_given")


def spearman_tally(predictions: Sequence[float], references: Sequence[float]) -> Tally:
    """Spearman's rank correlation, -1 to 1: Pearson's correlation of the ranks.

    Ranks are taken once, over all items: the score of some items, and of resamples, is the
    correlation of their ranks among all.

    Args:
        predictions: One number per item.
        references: The right number of each item.
    """
    x, y = _pairs(predictions, references)
    return _correlation_tally("spearman", ranks(x), ranks(y), "numbers:ranks")


def mean_squared_error_tally(predictions: Sequence[float], references: Sequence[float]) -> Tally:
    """The mean of (prediction - reference)².

    Args:
        predictions: One number per item.
        references: The right number of each item.
    """
    x, y = _pairs(predictions, references)
    return Tally(
        name="mean_squared_error",
        counts=np.stack(((x - y) ** 2, np.ones_like(x)), 1),
        signature=signature_of("numbers:as_given"),
        higher_is_better=False,
    )


pearson = scored(pearson_tally)
spearman = scored(spearman_tally)
mean_squared_error = scored(mean_squared_error_tally)


def number_tallies(predictions: Sequence[float], references: Sequence[float]) -> dict[str, Tally]:
    """Return the tallies of all metrics of numbers, by name."""
    kinds = pearson_tally, spearman_tally, mean_squared_error_tally
    return {tally.name: tally for tally in (kind(predictions, references) for kind in kinds)}


def ranks(numbers: Float[np.ndarray, " items"]) -> Float[np.ndarray, " items"]:
    """Return the rank of each number, from 1; equal numbers have the mean of their ranks.

    >>> ranks(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, which, times = np.unique(numbers, return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    return (last - (times - 1) / 2)[which]


def _pairs(
    predictions: Sequence[float], references: Sequence[float]
) -> tuple[Float[np.ndarray, " items"], Float[np.ndarray, " items"]]:
    require_same_length(predictions=len(predictions), references=len(references))
    x, y = np.array(predictions, dtype=np.float64), np.array(references, dtype=np.float64)
    require_numbers("prediction", x)
    require_numbers("reference", y)
    return x, y


def _correlation_tally(
    name: str, x: Float[np.ndarray, " items"], y: Float[np.ndarray, " items"], options: str
) -> Tally:
    x, y = _centred(x), _centred(y)
    return Tally(
        name=name,
        counts=np.stack((np.ones_like(x), x, y, x * x, y * y, x * y), 1),
        value=_correlation,
        signature=signature_of(options),
    )


def _centred(numbers: Float[np.ndarray, " items"]) -> Float[np.ndarray, " items"]:
    """Shift to the mean 0 and scale to at most 1: correlations stay, sums of squares are exact."""
    if np.ptp(numbers) == 0:
        return np.zeros_like(numbers)
    apart = numbers - numbers.mean()
    return apart / np.abs(apart).max()


def _correlation(sums: Float[np.ndarray, " numbers"]) -> float:
    n, x, y, xx, yy, xy = sums.tolist()
    spread_x, spread_y = n * xx - x * x, n * yy - y * y
    if spread_x <= _NO_SPREAD * n * xx or spread_y <= _NO_SPREAD * n * yy:
        return 0.0
    r = (n * xy - x * y) / (math.sqrt(spread_x) * math.sqrt(spread_y))
    return min(1.0, max(-1.0, r))
