"""Quality by input length: the metrics over buckets of items with inputs of similar length."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from saccade.errors import MetricError
from saccade.metrics.score import Tally

Unit = Literal["words", "characters"]


def by_length(
    tallies: Mapping[str, Tally],
    inputs: Sequence[str],
    *,
    unit: Unit | None = None,
    buckets: int = 6,
    least: int = 25,
) -> list[dict[str, int | float | str]]:
    """Compute metrics over buckets of input length.

    Items of one length are never separated.

    Args:
        tallies: The tallies, by the name of the metric.
        inputs: The input of each item.
        unit: The unit of length. By default words, separated by white space, or characters if no
            input has two words.
        buckets: The maximum number of buckets, which hold about equally many items.
        least: The minimum number of items in a bucket. Fewer items than that form one bucket.

    Returns:
        One dict per bucket, shortest first: `from` and `to` (both included), `unit`, `count`, and
        the metrics.

    Raises:
        MetricError: The number of inputs differs from that of the items.
    """
    for tally in tallies.values():
        if len(inputs) != len(tally):
            raise MetricError(
                f"got {len(inputs)} inputs for {len(tally)} predictions; every prediction needs "
                "its input"
            )
    unit = unit or _default_unit(inputs)
    lengths = [input_length(text, unit) for text in inputs]
    rows = []
    for low, high in length_buckets(lengths, buckets=buckets, least=least):
        items = [i for i, length in enumerate(lengths) if low <= length <= high]
        row: dict[str, int | float | str] = {
            "from": low,
            "to": high,
            "unit": unit,
            "count": len(items),
        }
        rows.append(row | {name: tally.of(items) for name, tally in tallies.items()})
    return rows


def input_length(text: str, unit: Unit) -> int:
    """Return the number of words, or of characters without outer white space."""
    if unit not in get_args(Unit):
        raise MetricError(
            f"unit must be {' or '.join(get_args(Unit))}, got {unit!r}; "
            "leave it out to choose by the inputs"
        )
    return len(text.split()) if unit == "words" else len(text.strip())


def _default_unit(inputs: Sequence[str]) -> Unit:
    return "words" if any(len(text.split()) > 1 for text in inputs) else "characters"


def length_buckets(
    lengths: Sequence[int], *, buckets: int = 6, least: int = 25
) -> list[tuple[int, int]]:
    """Return the shortest and the longest length of each bucket.

    Args:
        lengths: The length of each item.
        buckets: The maximum number of buckets.
        least: The minimum number of items in a bucket.

    >>> length_buckets([1, 1, 2, 3, 3, 9], buckets=2, least=2)
    [(1, 2), (3, 9)]
    """
    if buckets < 1 or least < 1:
        raise MetricError(
            f"buckets and least must be at least 1; got buckets = {buckets}, least = {least}"
        )
    enough = max(least, math.ceil(len(lengths) / buckets))
    bounds: list[tuple[int, int]] = []
    current: list[int] = []  # the lengths of the bucket that is being filled
    count = 0
    for length, times in sorted(Counter(lengths).items()):
        current.append(length)
        count += times
        if count >= enough:
            bounds.append((current[0], current[-1]))
            current, count = [], 0
    if current and bounds and count < least:  # too few for a bucket of their own
        return [*bounds[:-1], (bounds[-1][0], current[-1])]
    return [*bounds, (current[0], current[-1])] if current else bounds
