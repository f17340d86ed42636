"""Metrics of language models: how surprised one is by texts. Lower is better for all.

    loss                 nats per token
    perplexity           exp(loss): among how many equally likely tokens it chose, on average
    bits_per_character   surprise over characters, so that models with other tokens can be compared

Of each item (a text) they take the surprise, -Σ ln p(token | those before it) in nats, and how many
tokens and characters it is of. Sums over all items are divided, not the numbers of each averaged.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from saccade.errors import MetricError
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

_LARGEST_LOSS = 700.0  # exp of it is still a number


def loss_tally(nats: Sequence[float], tokens: Sequence[int]) -> Tally:
    """Surprise and tokens of each item."""
    return _tally("loss", "token", nats, tokens, ratio)


def perplexity_tally(nats: Sequence[float], tokens: Sequence[int]) -> Tally:
    """Surprise and tokens of each item. A loss above 700 has the perplexity of 700."""
    return _tally("perplexity", "token", nats, tokens, _perplexity)


def bits_per_character_tally(nats: Sequence[float], characters: Sequence[int]) -> Tally:
    """Surprise and characters of each item."""
    return _tally("bits_per_character", "character", nats, characters, _bits)


perplexity = scored(perplexity_tally)
bits_per_character = scored(bits_per_character_tally)


def language_scores(
    nats: Sequence[float],
    tokens: Sequence[int],
    characters: Sequence[int],
    *,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> dict[str, MetricScore]:
    """Every metric of language models over all items, with intervals unless `samples` is 0."""
    tallies = (
        loss_tally(nats, tokens),
        perplexity_tally(nats, tokens),
        bits_per_character_tally(nats, characters),
    )
    return scores_of({tally.name: tally for tally in tallies}, samples, seed)


def _tally(
    name: str,
    unit: str,
    nats: Sequence[float],
    units: Sequence[int],
    value: Callable[[Float[np.ndarray, " numbers"]], float],
) -> Tally:
    require_as_many(**{"nats": len(nats), f"{unit}s": len(units)})
    counts = np.stack((np.array(nats, dtype=np.float64), np.array(units, dtype=np.float64)), 1)
    require_numbers("nll", counts[:, 0])
    if min(units) < 0 or sum(units) == 0:
        raise MetricError(
            f"{name} divides by the number of {unit}s, of which no item has less than 0 and all "
            f"together at least 1; got {min(units)} as the least and {sum(units)} together"
        )
    return Tally(
        name=name,
        counts=counts,
        value=value,
        signature=signature_of(f"per:{unit}"),
        higher_is_better=False,
    )


def _perplexity(sums: Float[np.ndarray, " numbers"]) -> float:
    return math.exp(min(ratio(sums), _LARGEST_LOSS))


def _bits(sums: Float[np.ndarray, " numbers"]) -> float:
    return ratio(sums) / math.log(2)
