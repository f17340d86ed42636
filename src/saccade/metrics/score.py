"""The score of a metric, and the tally it is computed from.

Every metric is a function of sums over the items of a corpus: n-gram matches, edits, lengths. A
`Tally` keeps the counts of each item, so that the score of all items, of a bucket of them, of
resamples, and of two systems side by side needs no second look at the texts.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps

import numpy as np
from jaxtyping import Float, Int

from saccade._version import __version__
from saccade.config import Whole
from saccade.errors import MetricError
from saccade.metrics.resample import SAMPLES, SEED, percentiles, resampled_sums

LARGEST = 1e100  # largest measured number: its square is still finite
Value = Callable[[Float[np.ndarray, " numbers"]], float]


@dataclass(frozen=True, kw_only=True)
class MetricScore:
    """The value of a metric, and how it was computed.

    Attributes:
        name: The key of the metric, such as `bleu`.
        value: The value over all items.
        signature: The options, in the form of sacreBLEU's signatures.
        interval: The 95 % confidence interval by bootstrap resampling of the items, or None.
        higher_is_better: Whether a larger value is a better one.
        resamples: The values of all resamples; with the same seed, two systems on the same items
            have the same resamples.
    """

    name: str
    value: float
    signature: str
    interval: tuple[float, float] | None = None
    higher_is_better: bool = True
    resamples: tuple[float, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        interval = "" if self.interval is None else " [{:.4g}, {:.4g}]".format(*self.interval)
        return f"{self.name}|{self.signature} = {self.value:.4g}{interval}"


def ratio(sums: Float[np.ndarray, " numbers"]) -> float:
    """Divide the first of two sums by the second; 0 where that is 0."""
    part, total = sums.tolist()
    return part / total if total else 0.0


@dataclass(frozen=True, kw_only=True)
class Tally:
    """The counts of a metric for each item, and the function of their sums that is the metric.

    Attributes:
        name: The key of the metric.
        counts: The counts (items, numbers).
        value: Computes the metric from the sums of any items; by default the ratio of two sums.
        signature: Returns the signature for a number of resamples (0: none) and a seed.
        higher_is_better: Whether a larger value is a better one.
    """

    name: str
    counts: Float[np.ndarray, "items numbers"]
    value: Value = ratio
    signature: Callable[[int, int], str]
    higher_is_better: bool = True

    def __len__(self) -> int:
        return len(self.counts)

    def of(self, items: Sequence[int] | Int[np.ndarray, " some"] | slice = slice(None)) -> float:
        """Return the metric over these items, by default over all."""
        return finite(self.value(self.counts[items].sum(0)))

    def score(self, *, samples: int = SAMPLES, seed: int = SEED) -> MetricScore:
        """Return the metric over all items.

        Args:
            samples: The number of resamples for the confidence interval; 0 leaves it out. A single
                item has no interval.
            seed: The seed of the resamples.
        """
        samples = samples if len(self) > 1 else 0
        values = self.resampled(samples, seed) if samples else np.empty(0)
        return MetricScore(
            name=self.name,
            value=self.of(),
            signature=self.signature(samples, seed),
            interval=percentiles(values) if samples else None,
            higher_is_better=self.higher_is_better,
            resamples=tuple(values.tolist()),
        )

    def resampled(self, samples: int, seed: int) -> Float[np.ndarray, " samples"]:
        """Return the metric of `samples` corpora of the same size, sampled with replacement."""
        sums = resampled_sums(self.counts, samples, seed)
        return np.array([finite(self.value(row)) for row in sums])


def scored(tally: Callable[..., Tally]) -> Callable[..., MetricScore]:
    """Return the metric as a function that returns a score.

    The function takes the arguments of `tally`, and also `samples` and `seed` of `Tally.score`.
    """

    @wraps(tally)
    def score(
        *args: object, samples: int = SAMPLES, seed: int = SEED, **options: object
    ) -> MetricScore:
        return tally(*args, **options).score(samples=samples, seed=seed)

    score.__name__ = tally.__name__.removesuffix("_tally")
    return score


@dataclass(frozen=True, kw_only=True)
class IntervalsConfig:
    """Confidence intervals by bootstrap resampling.

    samples   number of resamples per interval; 0 leaves the intervals out, more makes their ends
              more exact
    seed      seed of the resamples; systems are comparable only with the same seed
    """

    samples: Whole = SAMPLES
    seed: Whole = SEED


def scores_of(tallies: Mapping[str, Tally], samples: int, seed: int) -> dict[str, MetricScore]:
    """Return the score of each tally, with its interval unless `samples` is 0.

    Args:
        tallies: The tallies, by metric.
        samples: The number of resamples per confidence interval.
        seed: The random seed of the resamples.
    """
    return {name: tally.score(samples=samples, seed=seed) for name, tally in tallies.items()}


def signature_of(
    options: str, references: Sequence[Sequence[str]] = ()
) -> Callable[[int, int], str]:
    """Return the signature of a metric with these options, and the references of each item."""
    counts = {len(of_item) for of_item in references} or {1}
    count = counts.pop() if len(counts) == 1 else "var"

    def signature(samples: int, seed: int) -> str:
        resampling = f"|bs:{samples}|seed:{seed}" if samples else ""
        return f"nrefs:{count}{resampling}|{options}|saccade:{__version__}"

    return signature


def require_items(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Raise unless there are predictions, each with a non-empty list of references."""
    if len(predictions) != len(references):
        raise MetricError(
            f"got {len(predictions)} predictions but references for {len(references)} items; "
            "every prediction needs the list of its references"
        )
    if len(predictions) == 0:
        raise MetricError("got 0 predictions; a metric needs at least one item")
    for i, of_item in enumerate(references):
        if isinstance(of_item, str):
            raise MetricError(
                f"the references of item {i} are the text {of_item[:40]!r}; "
                "give a list of texts per item, even for a single reference"
            )
        if len(of_item) == 0:
            raise MetricError(f"item {i} has no reference; give at least one (it may be empty)")


def require_names(names: Sequence[str], allowed: Sequence[str]) -> None:
    """Raise if a choice of metrics is empty, or has unknown or repeated names."""
    if not names or len(set(names)) < len(names) or not set(names) <= set(allowed):
        raise MetricError(
            f"names must be different ones of {', '.join(allowed)}, at least 1; "
            f"got {', '.join(map(repr, names)) or 'none'}"
        )


def require_resampling(samples: int, seed: int) -> None:
    """Raise if the options of intervals are negative."""
    if samples < 0 or seed < 0:
        raise MetricError(f"samples and seed must not be negative; got {samples} and {seed}")


def require_same_length(**lengths: int) -> None:
    """Raise unless every list is non-empty and all have the same length."""
    shown = " and ".join(f"{length} {name}" for name, length in lengths.items())
    if len(set(lengths.values())) > 1:
        raise MetricError(f"got {shown}; every item needs one of each")
    if 0 in lengths.values():
        raise MetricError(f"got {shown}; a metric needs at least one item")


def require_numbers(what: str, numbers: Float[np.ndarray, "items ..."]) -> None:
    """Raise if a number is NaN, infinite, or too large to be squared."""
    bad = np.argwhere(~(np.abs(numbers) <= LARGEST))
    if len(bad):
        place = tuple(bad[0].tolist())
        raise MetricError(
            f"the {what} of item {place[0]} is {numbers[place]}; it must be finite and at most "
            f"{LARGEST:g} in size"
        )


def finite(value: float) -> float:
    """Return the value, which is never NaN: every metric guards its denominators."""
    assert math.isfinite(value), value
    return float(value)
