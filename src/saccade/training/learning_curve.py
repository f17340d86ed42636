"""The learning curve of a run: whether more training would have helped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FEWEST = 5
"""Minimum number of validations to judge a curve."""
LAST = 0.2
"""The last part of training, as a fraction of its steps."""
STEEP = 0.1
"""The fraction of all improvement in the last part above which training was still improving."""


def still_improving(
    validations: Sequence[Mapping[str, Any]],
    metric: str,
    *,
    higher_is_better: bool,
    start: float | None = None,
) -> bool | None:
    """Return whether a metric was still improving steeply when training ended.

    It was if the last fifth of the steps brought more than a tenth of the total improvement of the
    best value so far. Steady improvement would bring a fifth.

    Args:
        validations: The records of the validations, with `step` and the metric.
        metric: The metric; the validation loss is used if they do not have it.
        higher_is_better: Whether a larger value is a better one.
        start: The value without any training, such as that of a trivial baseline; the first
            validation counts if it is worse.

    Returns:
        None if there are too few validations.
    """
    if not any(metric in record for record in validations):
        metric, higher_is_better, start = "valid_loss", False, None
    sign = 1.0 if higher_is_better else -1.0
    points = [
        (record["step"], sign * value)
        for record in validations
        if isinstance(value := record.get(metric), int | float)
    ]
    if len(points) < FEWEST:
        return None
    final = points[-1][0]
    before = [value for step, value in points if step <= (1 - LAST) * final]
    if not before:
        return None
    values = [value for _, value in points]
    lowest = values[0] if start is None else min(values[0], sign * start)
    total = max(values) - lowest
    return total > 0 and max(values) - max(before) > STEEP * total
