"""Erasure measured: how far answers depend on the part of the input that was attended to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from saccade.data.corpus import Item
from saccade.lens.faithfulness.erasure import FRACTIONS, Erased, attended, erasable, erase
from saccade.tasks._shared.base import Task
from saccade.tasks._shared.capabilities import Measurable, MeasurableTogether
from saccade.tasks.measures.finding import Finding, batches, mean

Probabilities = Callable[[Sequence[Any], str], Sequence[float] | None]
"""Return the probability of one output for each input; see `MeasurableTogether`."""


def probabilities_of(task: Measurable) -> Probabilities:
    """Return how the probabilities of an output are computed: together, if the task can do so."""
    if isinstance(task, MeasurableTogether):
        return task.probabilities

    def one_by_one(inputs: Sequence[Any], output: str) -> list[float] | None:
        values = [task.probability(given, output) for given in inputs]
        return None if None in values else [value or 0.0 for value in values]

    return one_by_one


def measure_erasure(
    task: Task, items: Sequence[Item], probabilities: Probabilities
) -> list[Finding]:
    """Measure the effect of erasing parts of the input; nothing if outputs have no probability."""
    erased: list[Erased] = []
    parts = "words"
    generator = np.random.default_rng(0)
    for some in batches(items):
        inputs = [task.input_of(item) for item in some]
        for given, answer in zip(inputs, task.predict(inputs, attention=True), strict=True):
            record, output = answer.attention, answer.text
            if (
                record is None
                or len(record.read.words) < 2
                or probabilities([given], output) is None
            ):
                continue
            parts = record.read.parts
            likely = _of_output(probabilities, output)
            erased.append(erase(erasable(given, record), attended(record), likely, generator))
    return erasure_findings(erased, parts)


def erasure_findings(
    erased: Sequence[Erased], parts: str, outcome: str = "the probability of an answer"
) -> list[Finding]:
    """Return comprehensiveness and sufficiency over several inputs; nothing over none.

    Args:
        erased: The falls of each input.
        parts: The noun for the parts of an input, such as words.
        outcome: What falls, for the sentences.
    """
    if not erased:
        return []
    without, alone = (
        np.array([getattr(one, name) for one in erased])
        for name in ("comprehensiveness", "sufficiency")
    )
    most = f"{parts} it looked at most"
    begins = f"Without the {most}, {outcome}", f"With nothing but the {most}, {outcome}"
    return [
        *against_random("comprehensiveness", without, begins[0], parts, better=1),
        *against_random("sufficiency", alone, begins[1], parts, better=-1),
    ]


def _of_output(
    probabilities: Probabilities, output: str
) -> Callable[[Sequence[Any]], Sequence[float]]:
    return lambda inputs: probabilities(inputs, output) or [0.0] * len(inputs)


def against_random(
    name: str,
    falls: Float[np.ndarray, "items kinds"],
    begin: str,
    parts: str,
    *,
    better: int,
) -> Iterator[Finding]:
    """Yield how far the probability falls, and how much further than with random parts.

    Args:
        name: The name of the measure.
        falls: The fall of the probability of each item, for the attended, random and least attended
            parts.
        begin: The beginning of the sentence about the result.
        parts: The name of the parts, such as "words".
        better: 1 if a larger fall is better, -1 if a smaller one is.
    """
    options = f"{parts}|shares:{','.join(map(str, FRACTIONS))}"
    own = mean(name, falls[:, 0], options, higher_is_better=better > 0)
    chance, least = falls[:, 1:].mean(0).tolist()
    yield Finding(
        own,
        f"{begin} falls by {own.value:.3f}; with random {parts} in "
        f"their place by {chance:.3f}, with the least attended by {least:.3f}.",
    )
    more = mean(
        f"{name}_over_random", falls[:, 0] - falls[:, 1], options, higher_is_better=better > 0
    )
    low, high = sorted(better * end for end in more.interval or (-1.0, 1.0))
    verdict = "are not significantly different from random ones"
    if low > 0 or high < 0:
        verdict = f"matter {'more' if low > 0 else 'less'} than random ones"
    yield Finding(
        more,
        f"By this measure the attended {parts} {verdict}: the fall differs by {more.value:+.3f} "
        f"from that with random {parts}.",
    )
