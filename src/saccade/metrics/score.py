"""A score, and the tally it is computed from.

Every metric here is a number made from sums over the items of a corpus (n-gram matches, edits,
lengths). A `Tally` keeps what was counted for each item, so that the score of the whole, of a
bucket of it, of resamples and of two systems side by side need no second look at the texts.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from saccade._version import __version__
from saccade.config import Whole
from saccade.errors import MetricError
from saccade.metrics.resample import SAMPLES, SEED, percentiles, resampled_sums

LARGEST = 1e100  # of a number that is measured: its square is a number, too


@dataclass(frozen=True, kw_only=True)
class MetricScore:
    """A metric's value, and all that is needed to say where it comes from.

    `signature` names the options, in the form of sacreBLEU's. `interval` is the 95 % confidence
    interval by bootstrap resampling of the items, None if it was not asked for; `resamples` are the
    values it was taken from, which for two systems on the same items are of the same draws.
    """

    name: str
    value: float
    signature: str
    interval: tuple[float, float] | None = None
    higher_is_better: bool = True
    resamples: tuple[float, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        between = "" if self.interval is None else " [{:.4g}, {:.4g}]".format(*self.interval)
        return f"{self.name}|{self.signature} = {self.value:.4g}{between}"


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What a metric counted for each item, and how sums of it become the metric.

    `value` takes the sums of any items; `signature` the number of resamples (0: none) and the seed.
    """

    name: str
    counts: Float[np.ndarray, "items numbers"]
    value: Callable[[Float[np.ndarray, " numbers"]], float]
    signature: Callable[[int, int], str]
    higher_is_better: bool

    def __len__(self) -> int:
        return len(self.counts)

    def of(self, items: Sequence[int] | Int[np.ndarray, " some"] | slice = slice(None)) -> float:
        """The metric over these items only, by default over all."""
        return finite(self.value(self.counts[items].sum(0)))

    def score(self, *, samples: int = SAMPLES, seed: int = SEED) -> MetricScore:
        """The metric over all items, with its interval unless `samples` is 0.

        A single item tells nothing of how others would be, and has none.
        """
        samples = samples if len(self) > 1 else 0
        drawn = self.resampled(samples, seed) if samples else np.empty(0)
        return MetricScore(
            name=self.name,
            value=self.of(),
            signature=self.signature(samples, seed),
            interval=percentiles(drawn) if samples else None,
            higher_is_better=self.higher_is_better,
            resamples=tuple(drawn.tolist()),
        )

    def resampled(self, samples: int, seed: int) -> Float[np.ndarray, " samples"]:
        """The metric of `samples` corpora of the same size, drawn from the items with return."""
        sums = resampled_sums(self.counts, samples, seed)
        return np.array([finite(self.value(row)) for row in sums])


def scored(tally: Callable[..., Tally]) -> Callable[..., MetricScore]:
    """The same metric as a score: takes what `tally` takes, and `samples` and `seed`."""

    @wraps(tally)
    def score(*args: Any, samples: int = SAMPLES, seed: int = SEED, **options: Any) -> MetricScore:
        return tally(*args, **options).score(samples=samples, seed=seed)

    score.__name__ = tally.__name__.removesuffix("_tally")
    return score


@dataclass(frozen=True, kw_only=True)
class IntervalsConfig:
    """How confidence intervals are drawn.

    samples   resamples of each; 0 leaves the intervals out
    seed      of what is drawn
    """

    samples: Whole = SAMPLES
    seed: Whole = SEED


def scores_of(tallies: Mapping[str, Tally], samples: int, seed: int) -> dict[str, MetricScore]:
    """The score of each tally, with its interval unless `samples` is 0."""
    return {name: tally.score(samples=samples, seed=seed) for name, tally in tallies.items()}


def signature_of(options: str, references: int | str = 1) -> Callable[[int, int], str]:
    """The signature of a metric with these options and as many references an item."""

    def signature(samples: int, seed: int) -> str:
        drawn = f"|bs:{samples}|seed:{seed}" if samples else ""
        return f"nrefs:{references}{drawn}|{options}|saccade:{__version__}"

    return signature


def ratio(sums: Float[np.ndarray, " numbers"]) -> float:
    """The first of two sums over the second, 0 where that is 0."""
    part, whole = sums.tolist()
    return part / whole if whole else 0.0


def require_items(answers: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Refuse what no metric can be computed from."""
    if len(answers) != len(references):
        raise MetricError(
            f"got {len(answers)} answers but references for {len(references)} items; "
            "each answer needs the list of its references"
        )
    if len(answers) == 0:
        raise MetricError("no metric can be computed from no items; got 0 answers")
    for i, of_item in enumerate(references):
        if isinstance(of_item, str):
            raise MetricError(
                f"the references of item {i} are the text {of_item[:40]!r}; "
                "give a list of texts for each item, also where it is only one"
            )
        if len(of_item) == 0:
            raise MetricError(f"item {i} has no reference; each needs at least 1 (it may be empty)")


def require_names(names: Sequence[str], allowed: Sequence[str]) -> None:
    """Refuse a choice of metrics that is empty, or has unknown or repeated names."""
    if not names or len(set(names)) < len(names) or not set(names) <= set(allowed):
        raise MetricError(
            f"names must be different ones of {', '.join(allowed)}, at least 1; "
            f"got {', '.join(map(repr, names)) or 'none'}"
        )


def require_resampling(samples: int, seed: int) -> None:
    """Refuse what intervals cannot be drawn with."""
    if samples < 0 or seed < 0:
        raise MetricError(f"samples and seed must not be negative; got {samples} and {seed}")


def require_as_many(**given: int) -> None:
    """Refuse no items, and numbers of items that differ from one thing to the other."""
    counted = " and ".join(f"{count} {what}" for what, count in given.items())
    if len(set(given.values())) > 1:
        raise MetricError(f"each item needs one of each; got {counted}")
    if 0 in given.values():
        raise MetricError(f"no metric can be computed from no items; got {counted}")


def require_numbers(what: str, numbers: Float[np.ndarray, "items ..."]) -> None:
    """Refuse NaN, infinity, and what is too large to be squared."""
    bad = np.argwhere(~(np.abs(numbers) <= LARGEST))
    if len(bad):
        at = tuple(bad[0].tolist())
        raise MetricError(
            f"the {what} of item {at[0]} holds {numbers[at]}; only finite numbers of a size up to "
            f"{LARGEST:g} can be measured"
        )


def finite(value: float) -> float:
    """A score is never NaN: our own arithmetic and sacreBLEU's both guard their denominators."""
    assert math.isfinite(value), value
    return float(value)
