"""Keeping a fixed share of a table's rows for validation, decided row by row.

Each row's place is a hash of the seed and of its first value, so equal sources fall on the same
side, and the order of the rows plays no part.
"""

import hashlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from saccade.errors import DataError

MOST = 2000  # rows: more would only make each validation slow


@dataclass(frozen=True)
class Side:
    """The rows whose place is at most `until`, or the others; and how many they are."""

    seed: int
    until: int
    kept: bool
    count: int

    def holds(self, value: str) -> bool:
        """Whether a row with this first value is on this side."""
        return (_place(self.seed, value) <= self.until) == self.kept

    @property
    def key(self) -> str:
        """What the side depends on, as text."""
        return f"{'kept' if self.kept else 'rest'} {self.seed} {self.until}"


def divide(values: Iterable[str], share: float, seed: int, where: str) -> tuple[Side, Side]:
    """The two sides, (the rest, what is kept), from one reading of the first column.

    About `share` of the rows are kept, at least one and at most about 2000.
    """
    places = np.frombuffer(array("Q", (_place(seed, value) for value in values)), np.uint64)
    ordered = np.sort(places)
    count = min(max(round(share * len(ordered)), 1), MOST)
    until = ordered[count - 1]
    kept = int(np.searchsorted(ordered, until, side="right"))
    fewer = int(np.searchsorted(ordered, until, side="left"))
    if ordered[0] == ordered[-1]:
        raise DataError(
            f"{where} has too few different examples to hold some out for validation (rows: "
            f"{len(ordered)}); use a folder with train.* and valid.*"
        )
    if fewer and (kept == len(ordered) or kept > 2 * count):  # one source stands on many rows
        until, kept = ordered[fewer - 1], fewer
    rest = Side(seed, int(until), kept=False, count=len(ordered) - kept)
    return rest, Side(seed, int(until), kept=True, count=kept)


def _place(seed: int, value: str) -> int:
    digest = hashlib.blake2b(value.encode(), digest_size=8, salt=seed.to_bytes(16, "little"))
    return int.from_bytes(digest.digest(), "little")
