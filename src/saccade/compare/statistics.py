"""Means over seeds, and whether a difference can be told from chance.

Every training of a comparison answers the same items, and its metrics are resampled by the same
draws of them. So the difference of two scores in a resample is that of two models on the same
items: the paired bootstrap (Koehn 2004). With several seeds each resample also draws, for each
recipe, as many of its trainings with return: what other seeds would turn round is not told.
Draws from n trainings vary too little, by the factor √((n - 1) / n), and are widened by it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
from jaxtyping import Float

from saccade.metrics.resample import SEED, paired_difference, percentiles
from saccade.metrics.score import MetricScore

CERTAIN = 0.05
"""The p-value below which a difference is told."""


@dataclass(frozen=True, kw_only=True)
class Quality:
    """A metric of a recipe, over its trainings.

    by_seed    the value of each
    spread     their standard deviation, None of a single one
    interval   95 % confidence, None where nothing was resampled
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
        """More is better."""
        return self.mean if self.higher_is_better else -self.mean

    def __str__(self) -> str:
        """For people."""
        between = "" if self.interval is None else " [{:.4g}, {:.4g}]".format(*self.interval)
        spread = "" if self.spread is None else f" ± {self.spread:.2g}"
        return f"{self.mean:.4g}{spread}{between}"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a recipe is better than another by a metric, as far as the items can tell.

    `gain` is how much better it is, so below 0 if it is worse; `interval` is of 95 % confidence,
    `p_value` two-sided. Both are None where nothing was resampled.
    """

    gain: float
    interval: tuple[float, float] | None
    p_value: float | None

    @property
    def told(self) -> bool:
        """Whether there is a difference that can be told from chance."""
        return self.p_value is not None and self.p_value < CERTAIN

    def __str__(self) -> str:
        """For people."""
        if self.interval is None or self.p_value is None:
            return f"differs by {self.gain:.3g}; whether by chance was not measured"
        low, high = self.interval
        if not self.told:
            return (
                f"no difference can be told ({self.gain:+.3g} [{low:.3g}, {high:.3g}], "
                f"{_p(self.p_value)})"
            )
        if self.gain < 0:
            return f"worse by {-self.gain:.3g} [{-high:.3g}, {-low:.3g}], {_p(self.p_value)}"
        return f"better by {self.gain:.3g} [{low:.3g}, {high:.3g}], {_p(self.p_value)}"


def quality(scores: Mapping[int, MetricScore], seed: int) -> Quality:
    """One metric of one recipe by the seeds of its trainings; `seed` is for what is drawn of them.

    Recipes whose trainings are to be drawn independently need different ones.
    """
    any_score = next(iter(scores.values()))
    values = {number: score.value for number, score in scores.items()}
    drawn = _means([score.resamples for score in scores.values()], seed)
    return Quality(
        name=any_score.name,
        mean=fmean(values.values()),
        by_seed=values,
        spread=stdev(values.values()) if len(values) > 1 else None,
        interval=percentiles(drawn) if len(drawn) else None,
        higher_is_better=any_score.higher_is_better,
        signature=any_score.signature,
        resamples=tuple(drawn.tolist()),
    )


def verdict(one: Quality, other: Quality) -> Verdict:
    """Whether one recipe is better than the other."""
    if not one.resamples or len(one.resamples) != len(other.resamples):
        return Verdict(gain=one.worth - other.worth, interval=None, p_value=None)
    sign = 1.0 if one.higher_is_better else -1.0
    drawn = sign * (np.array(one.resamples) - np.array(other.resamples))
    found = paired_difference(one.worth - other.worth, drawn)
    return Verdict(gain=found.difference, interval=found.interval, p_value=found.p_value)


def _means(resamples: Sequence[Sequence[float]], seed: int) -> Float[np.ndarray, " samples"]:
    """The mean over trainings that are drawn anew for each resample of the items."""
    table = np.array(resamples, dtype=np.float64)
    count, samples = table.shape
    mean = table.mean(0)
    drawn = np.random.default_rng([SEED, seed]).integers(count, size=(count, samples))
    apart = (table[drawn, np.arange(samples)] - mean).mean(0)
    return np.asarray(mean + apart * math.sqrt(count / max(1, count - 1)))


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"
