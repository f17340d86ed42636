"""Quality by length of the input: the same metrics over buckets of items of like length."""

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
    """One dict a bucket, shortest first: `from`, `to` (both included), `unit`, `count`, metrics.

    There are at most `buckets`, about equally full, each of at least `least` items (all items in
    one if there are fewer). Items of one length are never parted. Lengths are counted in words by
    white space, or in characters where no input has two words; `unit` decides otherwise.
    """
    for tally in tallies.values():
        if len(inputs) != len(tally):
            raise MetricError(f"got {len(inputs)} inputs for {len(tally)} answers")
    unit = unit or _telling_unit(inputs)
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
    """How many words (by white space) or characters (code points, outer white space aside)."""
    if unit not in get_args(Unit):
        raise MetricError(f"lengths are counted in {' or '.join(get_args(Unit))}, not in {unit!r}")
    return len(text.split()) if unit == "words" else len(text.strip())


def _telling_unit(inputs: Sequence[str]) -> Unit:
    return "words" if any(len(text.split()) > 1 for text in inputs) else "characters"


def length_buckets(
    lengths: Sequence[int], *, buckets: int = 6, least: int = 25
) -> list[tuple[int, int]]:
    """The shortest and the longest length of each bucket.

    >>> length_buckets([1, 1, 2, 3, 3, 9], buckets=2, least=2)
    [(1, 2), (3, 9)]
    """
    if buckets < 1 or least < 1:
        raise MetricError(
            f"there is at least 1 bucket of at least 1 item; got buckets = {buckets}, "
            f"least = {least}"
        )
    enough = max(least, math.ceil(len(lengths) / buckets))
    found: list[tuple[int, int]] = []
    held: list[int] = []  # the lengths of the bucket that is being filled
    count = 0
    for length, times in sorted(Counter(lengths).items()):
        held.append(length)
        count += times
        if count >= enough:
            found.append((held[0], held[-1]))
            held, count = [], 0
    if held and found and count < least:  # too few for a bucket of their own
        return [*found[:-1], (found[-1][0], held[-1])]
    return [*found, (held[0], held[-1])] if held else found
