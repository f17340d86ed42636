"""Rows sorted by length and cut into batches, in a few bytes per row.

Only distinct lengths are sorted: there are few of them, whatever the number of rows. Rows are
distributed to them by counting, in pieces, so that time grows linearly and no temporary array is
as long as the data. Rows are held as 32-bit numbers where these suffice.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from saccade.data.store.ragged import Integers, Numbers

PIECE = 2**16
"""Rows that are worked on at a time."""
MOST_CODES = 2**62
"""Codes of lengths are smaller than this."""
AHEAD = 64
"""Distinct lengths that are searched at once for the end of a batch."""
TABLE = 2**22
"""Largest number of codes for which a table holds the rank of every code."""

Rows = npt.NDArray[np.integer]


class Cut:
    """Rows cut into batches; rows of equal lengths are interchangeable.

    Args:
        lengths: The lengths (rows, fields) of all rows.
        budget: The most tokens of a batch, including padding.
    """

    def __init__(self, lengths: Integers, budget: int) -> None:
        self._lengths = lengths
        self._codes = _Codes(lengths)
        distinct, counts = self._codes.distinct, self._codes.counts
        order = sort_lengths(distinct)
        self._ends = _ends(distinct[order].astype(np.int64), np.cumsum(counts[order]), budget)
        self._codes.rank_by(order)
        self._firsts = np.concatenate(([0], np.cumsum(counts[order])[:-1]))

    @property
    def count(self) -> int:
        """The number of batches."""
        return len(self._ends)

    def shuffled(self, seed: int, epoch: int) -> "Batches":
        """Return the batches of an epoch, in its order."""
        generator = np.random.default_rng([seed, epoch])
        count = len(self._lengths)
        order: Rows = np.arange(count, dtype=np.uint32 if count < 2**32 else np.int64)
        generator.shuffle(order)
        rows: Rows = np.empty_like(order)
        free = self._firsts.copy()
        for start in range(0, count, PIECE):
            piece = order[start : start + PIECE]
            ranks = self._codes.ranks(self._lengths[piece])
            by_rank = np.argsort(ranks, kind="stable")
            ranks = ranks[by_rank]
            present, begins, counts = np.unique(ranks, return_index=True, return_counts=True)
            places = np.arange(len(piece)) + np.repeat(free[present] - begins, counts)
            rows[places] = piece[by_rank]
            free[present] += counts
        return Batches(rows, self._ends, generator.permutation(self.count))


class Batches(Sequence[Numbers]):
    """The batches of an epoch by their numbers."""

    def __init__(self, rows: Rows, ends: Numbers, order: Numbers) -> None:
        self._rows, self._ends, self._order = rows, ends, order

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, number):  # type: ignore[no-untyped-def]
        """Return the rows of a batch."""
        batch = self._order[number]
        start = self._ends[batch - 1] if batch else 0
        return self._rows[start : self._ends[batch]].astype(np.int64)


class _Codes:
    """A number for each combination of lengths, and how many rows have it."""

    def __init__(self, lengths: Integers) -> None:
        fields = lengths.shape[1]
        most = [int(lengths[:, i].max(initial=0)) + 1 for i in range(fields)]
        self._values: list[Numbers] = []
        self._scales: list[int] = []
        scale = 1
        for i in reversed(range(fields)):
            if scale * most[i] > MOST_CODES:  # number the lengths that occur, not all
                values = np.unique(lengths[:, i]).astype(np.int64)
            else:
                values = np.empty(0, np.int64)
            self._values.insert(0, values)
            self._scales.insert(0, scale)
            scale *= len(values) or most[i]
        self._ranks: npt.NDArray[np.int64] | None = None
        self.known, self.counts = self._counted(lengths, scale)
        self._by_code = scale <= TABLE
        self.distinct = self._lengths_of(self.known)

    def of(self, lengths: Integers) -> Numbers:
        """Return the code of each row."""
        codes = np.zeros(len(lengths), np.int64)
        for i, (values, scale) in enumerate(zip(self._values, self._scales, strict=True)):
            field = lengths[:, i].astype(np.int64)
            codes += scale * (np.searchsorted(values, field) if len(values) else field)
        return codes

    def rank_by(self, order: Numbers) -> None:
        """Set the ranks of the distinct lengths: their places in an order."""
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        if self._by_code and len(self.known):
            self._ranks = np.zeros(int(self.known[-1]) + 1, np.int64)
            self._ranks[self.known] = places
        else:
            self._ranks = places

    def ranks(self, lengths: Integers) -> Numbers:
        """Return the rank of the lengths of each row."""
        assert self._ranks is not None, "rank_by comes first"
        codes = self.of(lengths)
        return self._ranks[codes if self._by_code else np.searchsorted(self.known, codes)]

    def _counted(self, lengths: Integers, size: int) -> tuple[Numbers, Numbers]:
        """Return the codes that occur, sorted, and the number of rows of each."""
        pieces = (self.of(piece) for piece in pieces_of(lengths))
        if size <= TABLE:
            totals = np.zeros(size, np.int64)
            for codes in pieces:
                totals += np.bincount(codes, minlength=size)
            known = np.flatnonzero(totals)
            return known, totals[known]
        known, totals = np.empty(0, np.int64), np.empty(0, np.int64)
        for codes in pieces:
            values, counts = np.unique(codes, return_counts=True)
            both, inverse = np.unique(np.concatenate([known, values]), return_inverse=True)
            merged = np.zeros(len(both), np.int64)
            np.add.at(merged, inverse, np.concatenate([totals, counts]))
            known, totals = both, merged
        return known, totals

    def _lengths_of(self, codes: Numbers) -> Numbers:
        """Return the lengths (codes, fields) that codes stand for."""
        fields, rest = [], codes
        for values, scale in zip(self._values, self._scales, strict=True):
            field, rest = np.divmod(rest, scale)
            fields.append(values[field] if len(values) else field)
        return np.stack(fields, 1)


def pieces_of(lengths: Integers) -> Iterator[Integers]:
    """Yield the rows in pieces."""
    return (lengths[start : start + PIECE] for start in range(0, len(lengths), PIECE))


def sort_lengths(lengths: Integers) -> Numbers:
    """Sort by the first field, and by the next in alternating direction.

    Where the first field changes, the next one continues from its value instead of jumping.
    """
    keys = []
    turns = np.zeros(len(lengths), dtype=np.int64)
    for field in lengths.T.astype(np.int64):
        keys.append(np.where(turns % 2 == 0, field, -field))
        turns = turns + field
    return np.lexsort(keys[::-1])


def _ends(ordered: Numbers, through: Numbers, budget: int) -> Numbers:
    """Return the end of each batch: as many rows as the budget allows, from the first on.

    Args:
        ordered: The distinct lengths, in their order.
        through: The number of rows with these lengths or earlier ones.
        budget: The most tokens of a batch, including padding.
    """
    ends: list[int] = []
    count = int(through[-1]) if len(through) else 0
    totals = ordered.sum(1)
    start = run = 0
    while start < count:
        run += int(np.searchsorted(through[run : run + AHEAD], start, side="right"))
        while through[run] <= start:
            run += 1
        most = budget // max(1, int(totals[run])) + 1
        last = run + int(np.searchsorted(through[run:], start + most)) + 1
        longest = np.maximum(np.maximum.accumulate(ordered[run:last], axis=0).sum(1), 1)
        fitting, rows = budget // longest, through[run:last] - start
        full = np.flatnonzero(fitting < rows)
        until = int(full[0]) + 1 if len(full) else len(rows)
        start += max(1, int(np.minimum(fitting, rows)[:until].max()))
        ends.append(start)
    return np.array(ends, np.int64)
