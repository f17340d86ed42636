"""Metrics of numbers: how answered ones agree with the right ones.

    pearson              correlation of the numbers, -1 to 1
    spearman             correlation of their ranks, -1 to 1; equal numbers share their mean rank
    mean_squared_error   in the square of the numbers' unit

A correlation is undefined where all answers or all references are the same; it is 0 there.
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from saccade.metrics.resample import SAMPLES, SEED
from saccade.metrics.score import (
    MetricScore,
    Tally,
    ratio,
    require_as_many,
    require_numbers,
    scored,
    scores_of,
    signature_of,
)

_NO_SPREAD = 1e-12  # of a variance over the mean square: what rounding alone leaves


def pearson_tally(answers: Sequence[float], references: Sequence[float]) -> Tally:
    """Of both numbers their values, squares and product."""
    given, right = _pairs(answers, references)
    return _correlation_tally("pearson", given, right, "numbers:as_given")


def spearman_tally(answers: Sequence[float], references: Sequence[float]) -> Tally:
    """The same of their ranks.

    Ranks are taken once, over all items: the score of some of the items, and that of resamples,
    is the correlation of the ranks which they have among all.
    """
    given, right = _pairs(answers, references)
    return _correlation_tally("spearman", ranks(given), ranks(right), "numbers:ranks")


def mean_squared_error_tally(answers: Sequence[float], references: Sequence[float]) -> Tally:
    """The square of the difference of each item."""
    given, right = _pairs(answers, references)
    return Tally(
        name="mean_squared_error",
        counts=np.stack(((given - right) ** 2, np.ones_like(given)), 1),
        value=ratio,
        signature=signature_of("numbers:as_given"),
        higher_is_better=False,
    )


pearson = scored(pearson_tally)
spearman = scored(spearman_tally)
mean_squared_error = scored(mean_squared_error_tally)


def score_numbers(
    answers: Sequence[float],
    references: Sequence[float],
    *,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> dict[str, MetricScore]:
    """Every metric of numbers over all items, with intervals unless `samples` is 0."""
    return scores_of(number_tallies(answers, references), samples, seed)


def number_tallies(answers: Sequence[float], references: Sequence[float]) -> dict[str, Tally]:
    """What every metric of numbers counts for each item."""
    kinds = pearson_tally, spearman_tally, mean_squared_error_tally
    return {tally.name: tally for tally in (kind(answers, references) for kind in kinds)}


def ranks(numbers: Float[np.ndarray, " items"]) -> Float[np.ndarray, " items"]:
    """The place of each number in their order, from 1; equal ones share the mean of their places.

    >>> ranks(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, which, times = np.unique(numbers, return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    return (last - (times - 1) / 2)[which]


def _pairs(
    answers: Sequence[float], references: Sequence[float]
) -> tuple[Float[np.ndarray, " items"], Float[np.ndarray, " items"]]:
    require_as_many(answers=len(answers), references=len(references))
    given, right = np.array(answers, dtype=np.float64), np.array(references, dtype=np.float64)
    require_numbers("answer", given)
    require_numbers("reference", right)
    return given, right


def _correlation_tally(
    name: str, x: Float[np.ndarray, " items"], y: Float[np.ndarray, " items"], options: str
) -> Tally:
    x, y = _centred(x), _centred(y)
    return Tally(
        name=name,
        counts=np.stack((np.ones_like(x), x, y, x * x, y * y, x * y), 1),
        value=_correlation,
        signature=signature_of(options),
        higher_is_better=True,
    )


def _centred(numbers: Float[np.ndarray, " items"]) -> Float[np.ndarray, " items"]:
    """Around 0 and up to 1 in size: no correlation changes, and sums of squares stay exact."""
    if np.ptp(numbers) == 0:
        return np.zeros_like(numbers)
    apart = numbers - numbers.mean()
    return apart / np.abs(apart).max()


def _correlation(sums: Float[np.ndarray, " numbers"]) -> float:
    n, x, y, xx, yy, xy = sums.tolist()
    spread_x, spread_y = n * xx - x * x, n * yy - y * y
    if spread_x <= _NO_SPREAD * n * xx or spread_y <= _NO_SPREAD * n * yy:
        return 0.0
    found = (n * xy - x * y) / (math.sqrt(spread_x) * math.sqrt(spread_y))
    return min(1.0, max(-1.0, found))
