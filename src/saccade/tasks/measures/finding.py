"""A finding: a score with the sentence that says what it means; and what all measures share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from saccade._version import __version__
from saccade.data.corpus import Item
from saccade.metrics.score import MetricScore, Tally, ratio

AT_ONCE = 32
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Finding:
    """A score, and one sentence that says what its number means."""

    score: MetricScore
    meaning: str


def mean(
    name: str,
    values: Float[np.ndarray, " items"],
    options: str,
    *,
    higher_is_better: bool = True,
) -> MetricScore:
    """The mean over items, with its interval."""
    return Tally(
        name=name,
        counts=np.stack([values, np.ones(len(values))], 1),
        value=ratio,
        signature=signature(f"items:{len(values)}|{options}"),
        higher_is_better=higher_is_better,
    ).score()


def signature(options: str) -> Callable[[int, int], str]:
    """Of the number of resamples and the seed, as a tally has it."""

    def written(samples: int, seed: int) -> str:
        drawn = f"bs:{samples}|seed:{seed}|" if samples else ""
        return f"{drawn}{options}|saccade:{__version__}"

    return written


def batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """A few items at a time."""
    for at in range(0, len(items), AT_ONCE):
        yield items[at : at + AT_ONCE]
