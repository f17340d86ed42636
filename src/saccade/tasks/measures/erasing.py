"""Erasure measured: what answers lose without the part of the input that was attended to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from saccade.data.corpus import Item
from saccade.lens.faithfulness.erasure import FRACTIONS, Erased, attended, erasable, erase
from saccade.lens.record import ImageSide
from saccade.tasks._shared.base import Task
from saccade.tasks._shared.classifier import Classifier
from saccade.tasks.measures.finding import Finding, batches, mean


def measure_erasure(task: Task, items: Sequence[Item]) -> list[Finding]:
    """What erasing parts of the input does, where answers have a probability."""
    found: list[Erased] = []
    parts = "words"
    generator = np.random.default_rng(0)
    for some in batches(items):
        inputs = [task.input_of(item) for item in some]
        for given, answer in zip(inputs, task.predict(inputs, attention=True), strict=True):
            record = answer.attention
            numeric = isinstance(task, Classifier) and not answer.probabilities
            if record is None or numeric or len(record.read.words) < 2:
                continue
            parts = "cells" if isinstance(record.read, ImageSide) else "words"
            likely = _probability_of(task, answer.text)
            found.append(erase(erasable(given, record), attended(record), likely, generator))
    if not found:
        return []
    without, alone = (
        np.array([getattr(each, name) for each in found])
        for name in ("comprehensiveness", "sufficiency")
    )
    erased = f"{parts} it looked at most"
    return [
        *against_random("comprehensiveness", without, f"Without the {erased}", parts, better=1),
        *against_random("sufficiency", alone, f"With nothing but the {erased}", parts, better=-1),
    ]


def against_random(
    name: str,
    falls: Float[np.ndarray, "items kinds"],
    begin: str,
    parts: str,
    *,
    better: int,
) -> Iterator[Finding]:
    """How far the probability falls, and how much further than with random parts."""
    options = f"{parts}|shares:{','.join(map(str, FRACTIONS))}"
    own = mean(name, falls[:, 0], options, higher_is_better=better > 0)
    chance, least = falls[:, 1:].mean(0).tolist()
    yield Finding(
        own,
        f"{begin}, the probability of an answer falls by {own.value:.3f}; with random {parts} in "
        f"their place by {chance:.3f}, with the least attended by {least:.3f}.",
    )
    more = mean(
        f"{name}_over_random", falls[:, 0] - falls[:, 1], options, higher_is_better=better > 0
    )
    low, high = sorted(better * end for end in more.interval or (-1.0, 1.0))
    verdict = "cannot be told from random ones"
    if low > 0 or high < 0:
        verdict = f"matter {'more' if low > 0 else 'less'} than random ones"
    yield Finding(
        more,
        f"By this the attended {parts} {verdict}: the fall differs by {more.value:+.3f} from that "
        f"with random {parts}.",
    )


def _probability_of(task: Task, output: str) -> Callable[[Any], float]:
    """How likely the task gives this output to an input; of a text, the mean of its tokens."""

    @torch.no_grad()
    def probability(given: Any) -> float:
        loss = task(task.force([given], [output]).to(next(task.parameters()).device))
        return math.exp(-float(loss.total) / loss.count)

    return probability
