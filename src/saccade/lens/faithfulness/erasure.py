"""Erasure: whether a prediction depends on what the model attended to.

    comprehensiveness = p(answer | input) - p(answer | input without the most attended parts)
    sufficiency       = p(answer | input) - p(answer | the most attended parts alone)

(DeYoung et al. 2020, "ERASER: a benchmark to evaluate rationalized NLP models", section 4.)
Attention that shows what an answer depends on has high comprehensiveness and low sufficiency.
Neither means much alone, because losing any part of an input lowers the probability; so both are
also measured with random parts and with the least attended parts.

The parts of a text are its words: erased words are left out, as in ERASER, because a text without
some of its words is still a text, and a row of unknown tokens is not. The parts of an image are the
cells of its grid: erased cells become grey. The parts of a sequence of vectors are its steps:
erased steps become the mean of the training data. Both measures are means over several fractions of
the parts, each rounded up to a number of parts.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from statistics import fmean
from typing import Any

import numpy as np
from jaxtyping import Float

from saccade.lens.record import AttentionRecord
from saccade.lens.record.sides import Input

FRACTIONS = (0.1, 0.2, 0.5)
"""The fractions of an input's parts that are erased, or kept alone."""
KINDS = ("attended", "random", "least")
"""Three ways to choose parts: the most attended, at random, the least attended."""

Keep = Callable[[Collection[int]], Input]
"""A function that returns an input with only these parts."""


def erasable(original: Any, record: AttentionRecord) -> Keep:
    """Return a function that keeps some parts of an input and erases the others.

    Args:
        original: the input: a text, texts that are read together, or an image.
        record: the attention of the answer to it, whose `read.words` name its parts.

    Raises:
        WatchError: if the input does not have as many parts as the record.
    """
    keep = partial(record.read.keep, original)
    keep(range(len(record.read.words)))
    return keep


def attended(record: AttentionRecord) -> Float[np.ndarray, " parts"]:
    """Return how much attention an answer paid to each part of its input.

    In self-attention this is the attention rollout into the answer (see
    `AttentionRecord.glance`), otherwise the sum over all words of the answer.
    """
    return record.glance() if record.reads_itself else record.by_words().sum(0)


@dataclass(frozen=True, kw_only=True)
class Erased:
    """The fall of the probability of an answer when parts are erased.

    Args:
        comprehensiveness: the fall without the chosen parts, for each of `KINDS`.
        sufficiency: the fall with the chosen parts alone, for each of `KINDS`.
    """

    comprehensiveness: tuple[float, ...]
    sufficiency: tuple[float, ...]


def erase(
    keep: Keep,
    weights: Float[np.ndarray, " parts"],
    probabilities: Callable[[Sequence[Input]], Sequence[float]],
    generator: np.random.Generator,
) -> Erased:
    """Measure comprehensiveness and sufficiency of attention for one input.

    Args:
        keep: the input, as `erasable` returns it.
        weights: the attention to each part, as `attended` returns it.
        probabilities: returns the probability of the answer for each input with parts erased;
            called once, with one input per distinct set of parts.
        generator: chooses the random parts.
    """
    ranked = np.argsort(-weights, kind="stable").tolist()
    orders = (ranked, generator.permutation(len(ranked)).tolist(), ranked[::-1])
    counts = [min(math.ceil(part * len(ranked)), len(ranked) - 1) for part in FRACTIONS]
    without = [[frozenset(order[count:]) for count in counts] for order in orders]
    alone = [[frozenset(order[:count]) for count in counts] for order in orders]
    everything = frozenset(ranked)
    kept = list(dict.fromkeys([everything, *chain(*without, *alone)]))
    known = dict(zip(kept, probabilities([keep(parts) for parts in kept]), strict=True))

    def falls(choices: list[list[frozenset[int]]]) -> tuple[float, ...]:
        return tuple(fmean(known[everything] - known[parts] for parts in kind) for kind in choices)

    return Erased(comprehensiveness=falls(without), sufficiency=falls(alone))
