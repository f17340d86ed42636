"""Findings: scores with a sentence about their meaning, and what all measures share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saccade._version import __version__
from saccade.data.corpus import Item
from saccade.metrics.score import MetricScore, Tally, ratio

BATCH = 32
"""The number of items that are measured together."""
BELIEF = ("comprehensiveness", "comprehensiveness_over_random")
"""The measures by which a picture of attention is judged."""


@dataclass(frozen=True)
class Finding:
    """A score, and a sentence about the meaning of its number."""

    score: MetricScore
    meaning: str


def mean(
    name: str,
    values: Float[np.ndarray, " items"],
    options: str,
    *,
    higher_is_better: bool = True,
) -> MetricScore:
    """Return the mean over items, with its interval.

    Args:
        name: The name of the metric.
        values: One value per item.
        options: The options of the metric, for its signature.
        higher_is_better: Whether a larger value is better.
    """
    return Tally(
        name=name,
        counts=np.stack([values, np.ones(len(values))], 1),
        value=ratio,
        signature=signature(f"items:{len(values)}|{options}"),
        higher_is_better=higher_is_better,
    ).score()


def signature(options: str) -> Callable[[int, int], str]:
    """Return the signature of a tally, a function of the number of resamples and the seed."""

    def signed(samples: int, seed: int) -> str:
        resamples = f"bs:{samples}|seed:{seed}|" if samples else ""
        return f"{resamples}{options}|saccade:{__version__}"

    return signed


def batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Yield a few items at a time."""
    for at in range(0, len(items), BATCH):
        yield items[at : at + BATCH]


def belief(meanings: Mapping[str, str]) -> str:
    """Return how far to trust the attention of a model, in words; "" if it was not measured.

    Args:
        meanings: The sentences of the measures, by their names.
    """
    return " ".join(meanings[name] for name in BELIEF if name in meanings)
