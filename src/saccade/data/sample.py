"""A sample of a split: rows that are evenly spread over it, held in memory."""

from collections.abc import Iterator
from itertools import islice

from saccade.data.corpus import Row, Split, Table


def sample(split: Split, most: int) -> Split:
    """Return at most this many rows of a split, evenly spread over it."""
    return Split(split.name, _Spread(split, -(-split.count() // most)))


class _Spread(Table):
    """Every n-th row of a split."""

    def __init__(self, split: Split, stride: int) -> None:
        self.columns, self.running = split.columns, split.running
        self._split, self._stride = split, stride
        self._rows = list(islice(split, 0, None, stride))

    def rows(self) -> Iterator[Row]:
        """Yield the rows."""
        return iter(self._rows)

    def digest(self) -> str:
        """Return the stride: a cache of the sample serves one trial only."""
        return f"every {self._stride}"

    def describe(self) -> str:
        """Return a few words about the sample."""
        return f"a sample of {self._split.name}"

    def meaning(self) -> str:
        """Return nothing: the columns are those of the split."""
        return ""
