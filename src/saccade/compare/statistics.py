"""Means over seeds, and significance of differences.

Every training of a comparison predicts the same items, and its metrics are computed on the same
resamples of them. So the difference of two scores in one resample is that of two models on the same
items: the paired bootstrap (Koehn 2004). With several seeds, each resample also samples the
training runs of each recipe with replacement, so a difference that other seeds would reverse is not
significant. Means of n sampled training runs vary too little by the factor √((n - 1) / n); they are
widened by its inverse.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
from jaxtyping import Float

from saccade.metrics.labels import in_points
from saccade.metrics.resample import SEED, paired_difference, percentiles
from saccade.metrics.score import MetricScore

SIGNIFICANCE = 0.05
"""The p-value below which a difference is significant."""


@dataclass(frozen=True, kw_only=True)
class Quality:
    """A metric of a recipe over its training runs.

    by_seed    value of each training
    spread     standard deviation over seeds, None for a single training
    interval   95 % confidence interval, None without resamples
    """

    name: str
    mean: float
    by_seed: dict[int, float]
    spread: float | None
    interval: tuple[float, float] | None
    higher_is_better: bool
    signature: str
    resamples: tuple[float, ...]

    @property
    def worth(self) -> float:
        """The mean with the sign that makes more better."""
        return self.mean if self.higher_is_better else -self.mean

    def __str__(self) -> str:
        """Mean, spread and interval, such as "31.4 ± 0.3 [29.9, 32.8]"."""
        form = ".1f" if in_points(self.name) else ".4g"
        ends = () if self.interval is None else (format(end, form) for end in self.interval)
        between = "" if self.interval is None else f" [{', '.join(ends)}]"
        spread = "" if self.spread is None else f" ± {self.spread:.2g}"
        return f"{self.mean:{form}}{spread}{between}"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Difference of two recipes by one metric.

    gain       how much better the first recipe is; negative if it is worse
    interval   95 % confidence interval of the gain, None without resamples
    p_value    two-sided, None without resamples
    """

    gain: float
    interval: tuple[float, float] | None
    p_value: float | None

    @property
    def significant(self) -> bool:
        """Whether chance is an unlikely cause of the difference."""
        return self.p_value is not None and self.p_value < SIGNIFICANCE

    def __str__(self) -> str:
        """The verdict in words, such as "better by 2.2 [1.1, 3.3], p < 0.001"."""
        return self.in_words()

    def in_words(self, metric: str = "") -> str:
        """Return the verdict in words, with the decimals of a metric."""
        form = ".1f" if in_points(metric) else ".3g"
        if self.interval is None or self.p_value is None:
            return f"differs by {self.gain:{form}}; significance was not measured"
        gain, (low, high) = self.gain, self.interval
        if worse := self.significant and gain < 0:
            gain, low, high = -gain, -high, -low
        span = f"[{low:{form}}, {high:{form}}]"
        if not self.significant:
            return f"no significant difference ({gain:+{form}} {span}, {_p(self.p_value)})"
        word = "worse" if worse else "better"
        return f"{word} by {gain:{form}} {span}, {_p(self.p_value)}"


def quality(scores: Mapping[int, MetricScore], seed: int) -> Quality:
    """Combine the scores of a recipe's training runs, by seed, into one metric.

    `seed` is the random seed for resampling training runs. It must differ between recipes, whose
    training runs are resampled independently.
    """
    any_score = next(iter(scores.values()))
    values = {number: score.value for number, score in scores.items()}
    resamples = _resampled_means([score.resamples for score in scores.values()], seed)
    return Quality(
        name=any_score.name,
        mean=fmean(values.values()),
        by_seed=values,
        spread=stdev(values.values()) if len(values) > 1 else None,
        interval=percentiles(resamples) if len(resamples) else None,
        higher_is_better=any_score.higher_is_better,
        signature=any_score.signature,
        resamples=tuple(resamples.tolist()),
    )


def verdict(one: Quality, other: Quality) -> Verdict:
    """Return whether, and by how much, one recipe is better than the other."""
    if not one.resamples or len(one.resamples) != len(other.resamples):
        return Verdict(gain=one.worth - other.worth, interval=None, p_value=None)
    sign = 1.0 if one.higher_is_better else -1.0
    differences = sign * (np.array(one.resamples) - np.array(other.resamples))
    paired = paired_difference(one.worth - other.worth, differences)
    return Verdict(gain=paired.difference, interval=paired.interval, p_value=paired.p_value)


def _resampled_means(
    resamples: Sequence[Sequence[float]], seed: int
) -> Float[np.ndarray, " samples"]:
    """Return the mean over training runs, resampling them for each resample of the items."""
    table = np.array(resamples, dtype=np.float64)
    count, samples = table.shape
    mean = table.mean(0)
    sampled = np.random.default_rng([SEED, seed]).integers(count, size=(count, samples))
    deviation = (table[sampled, np.arange(samples)] - mean).mean(0)
    return np.asarray(mean + deviation * math.sqrt(count / max(1, count - 1)))


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"
