"""Hold out a fixed fraction of a table's rows for validation, decided row by row.

The place of a row is a hash of the seed and of its first value. Rows with the same first value
therefore fall on the same side, and their order does not matter.
"""

import hashlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from saccade.errors import DataError

MOST = 2000  # rows held out: more would only slow validation down


@dataclass(frozen=True)
class RowSelection:
    """The rows on one side of a split.

    seed       seed of the hash
    until      largest hash of a row that is held out
    held_out   whether the held-out rows are meant, or the others
    count      number of rows on this side
    base       beginning of every value that depends on the place of the files, not hashed
    """

    seed: int
    until: int
    held_out: bool
    count: int
    base: str = ""

    def contains(self, value: str) -> bool:
        """Return whether a row with this first value is on this side."""
        place = _place(self.seed, value.removeprefix(self.base))
        return (place <= self.until) == self.held_out

    @property
    def key(self) -> str:
        """All that the choice of rows depends on, as text."""
        return f"{'kept' if self.held_out else 'rest'} {self.seed} {self.until}"


def hold_out(
    values: Iterable[str], fraction: float, seed: int, where: str, base: str = ""
) -> tuple[RowSelection, RowSelection]:
    """Choose the rows for training and for validation in one pass over the first column.

    Args:
        values: The first value of every row.
        fraction: The fraction to hold out; at least one row and at most about 2000 are.
        seed: The seed of the hash.
        where: The name of the data for error messages.
        base: A beginning of all values that does not count, such as the folder of images.

    Returns:
        The rows for training and the rows for validation.

    Raises:
        DataError: All rows have the same first value.
    """
    hashes = (_place(seed, value.removeprefix(base)) for value in values)
    ordered = np.sort(np.frombuffer(array("Q", hashes), np.uint64))
    total = len(ordered)
    target = min(max(round(fraction * total), 1), MOST)
    until = ordered[target - 1]
    count = int(np.searchsorted(ordered, until, side="right"))
    below = int(np.searchsorted(ordered, until, side="left"))
    if ordered[0] == ordered[-1]:
        raise DataError(
            f"{where} has too few different examples to hold some out for validation (rows: "
            f"{total}); use a folder with train.* and valid.*"
        )
    if below and (count == total or count > 2 * target):  # one value fills many rows
        until, count = ordered[below - 1], below
    threshold = int(until)
    return (
        RowSelection(seed, threshold, held_out=False, count=total - count, base=base),
        RowSelection(seed, threshold, held_out=True, count=count, base=base),
    )


def _place(seed: int, value: str) -> int:
    digest = hashlib.blake2b(value.encode(), digest_size=8, salt=seed.to_bytes(16, "little"))
    return int.from_bytes(digest.digest(), "little")
