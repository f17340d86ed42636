"""Metrics of language models, from the negative log-likelihood of texts. Lower is better.

    loss                 nats per token
    perplexity           exp(loss): the number of equally likely tokens, on average
    bits_per_character   bits per character, which compares models with different tokens

The negative log-likelihood of an item (a text) is -Σ ln p(token | tokens before it), in nats. It is
summed over all items and divided by the number of all their tokens or characters.
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from saccade.errors import MetricError
from saccade.metrics.resample import SAMPLES, SEED
from saccade.metrics.score import (
    MetricScore,
    Tally,
    Value,
    ratio,
    require_numbers,
    require_same_length,
    scored,
    scores_of,
    signature_of,
)

_LARGEST_LOSS = 700.0  # its exp is still finite


def loss_tally(nats: Sequence[float], tokens: Sequence[int]) -> Tally:
    """The loss: Σ nats / Σ tokens.

    Args:
        nats: The negative log-likelihood of each item.
        tokens: The number of tokens of each item.
    """
    return _tally("loss", "token", nats, tokens, ratio)


def perplexity_tally(nats: Sequence[float], tokens: Sequence[int]) -> Tally:
    """The perplexity: exp(Σ nats / Σ tokens). A loss above 700 counts as 700.

    Args:
        nats: The negative log-likelihood of each item.
        tokens: The number of tokens of each item.
    """
    return _tally("perplexity", "token", nats, tokens, _perplexity)


def bits_per_character_tally(nats: Sequence[float], characters: Sequence[int]) -> Tally:
    """The bits per character: Σ nats / (ln 2 · Σ characters).

    Args:
        nats: The negative log-likelihood of each item.
        characters: The number of characters of each item.
    """
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
    """Return loss, perplexity and bits per character over all items, by name.

    Args:
        nats: The negative log-likelihood of each item.
        tokens: The number of tokens of each item.
        characters: The number of characters of each item.
        samples: The number of resamples for the confidence intervals; 0 leaves them out.
        seed: The seed of the resamples.
    """
    tallies = (
        loss_tally(nats, tokens),
        perplexity_tally(nats, tokens),
        bits_per_character_tally(nats, characters),
    )
    return scores_of({tally.name: tally for tally in tallies}, samples, seed)


def _tally(
    name: str, unit: str, nats: Sequence[float], units: Sequence[int], value: Value
) -> Tally:
    require_same_length(**{"nats": len(nats), f"{unit}s": len(units)})
    counts = np.stack((np.array(nats, dtype=np.float64), np.array(units, dtype=np.float64)), 1)
    require_numbers("negative log-likelihood", counts[:, 0])
    if min(units) < 0 or sum(units) == 0:
        raise MetricError(
            f"{name} divides by the number of {unit}s, which must be 0 or more per item and at "
            f"least 1 in total; got a minimum of {min(units)} and a total of {sum(units)}"
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
