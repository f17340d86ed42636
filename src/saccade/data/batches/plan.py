"""Which rows go together in a batch, and which batch each update of each process reads.

Both are pure functions of the seed and a number, so a training that goes on after a stop reads
exactly what it would have read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from saccade.errors import DataError

Lengths = npt.NDArray[np.integer[Any]]
Rows = npt.NDArray[np.int64]


def batches(lengths: Lengths, budget: int, *, seed: int, epoch: int) -> list[Rows]:
    """The rows of every batch of an epoch, from the lengths (n, fields) of all rows.

    A batch has at most `budget` tokens, padding included: rows × (longest of the first field +
    longest of the second …). A single row beyond that is a batch of its own. Every row comes once.
    Rows of equal lengths change places from epoch to epoch, and so do the batches; where the cuts
    fall depends on lengths alone, so every epoch has the same number of batches.
    """
    return _Cut(_checked(lengths, budget), budget).deal(seed, epoch)


def padding_fraction(lengths: Lengths, batches: Sequence[Rows]) -> float:
    """How much of the batches is padding: 0 none, 1 all."""
    padded = sum(len(rows) * int(lengths[rows].max(0).sum()) for rows in batches if len(rows))
    real = sum(int(lengths[rows].sum()) for rows in batches)
    return 1 - real / padded if padded else 0.0


class Assignment(NamedTuple):
    """One batch to read: its number in the endless stream of batches, and its rows."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody asks a batch
    rows: Rows


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """What each process reads at each update.

    The batches of epoch 0, 1, 2 … follow each other without end. An update takes the next `size`
    = world × accumulate of them; process `rank` reads every world-th, `accumulate` in all. So it
    does not matter to the update how many processes share the work. An update begins after the
    batches that were read before it, so a training that is resumed with another number of
    processes skips none and reads none twice.
    """

    lengths: Lengths
    budget: int
    seed: int
    rank: int = 0
    world: int = 1
    accumulate: int = 1

    def __post_init__(self) -> None:
        _checked(self.lengths, self.budget)
        if not len(self.lengths):
            raise DataError("there are no rows to make batches of")
        if self.seed < 0:
            raise DataError(f"a seed must be 0 or above, got {self.seed}")
        if self.world < 1 or self.accumulate < 1 or not 0 <= self.rank < self.world:
            raise DataError(
                "a plan needs world >= 1, accumulate >= 1 and a rank below world, got "
                f"world={self.world}, accumulate={self.accumulate}, rank={self.rank}"
            )

    @property
    def size(self) -> int:
        """The number of batches of an update, over all processes."""
        return self.world * self.accumulate

    def update(self, read: int) -> list[Assignment]:
        """The batches of this process for the update that comes after `read` batches."""
        if read < 0:
            raise DataError(f"the number of batches read must be 0 or more, got {read}")
        numbers = range(read + self.rank, read + self.size, self.world)
        return [self._assignment(number) for number in numbers]

    def epoch_of(self, read: int) -> float:
        """How often all rows have been read after `read` batches."""
        return read / self.per_epoch

    @property
    def per_epoch(self) -> int:
        """The number of batches that hold every row once."""
        return self._cut.count

    @cached_property
    def _cut(self) -> "_Cut":
        return _Cut(self.lengths, self.budget)

    @cached_property
    def _deal(self) -> Any:
        """An update may reach over the end of an epoch, so two are kept."""
        return lru_cache(maxsize=2)(lambda epoch: self._cut.deal(self.seed, epoch))

    def _assignment(self, number: int) -> Assignment:
        epoch, place = divmod(number, self.per_epoch)
        return Assignment(number, self._deal(epoch)[place])


class _Cut:
    """Rows sorted by length and cut into batches; which row takes which place is dealt later."""

    def __init__(self, lengths: Lengths, budget: int) -> None:
        order = _order(lengths)
        ordered = lengths[order].astype(np.int64)
        differs = np.ones(len(order), dtype=bool)
        differs[1:] = (ordered[1:] != ordered[:-1]).any(1)
        self._rank = np.empty(len(order), np.int64)  # rows of equal lengths have the same rank
        self._rank[order] = np.cumsum(differs)
        self._ends = _ends(ordered, budget)

    @property
    def count(self) -> int:
        return len(self._ends)

    def deal(self, seed: int, epoch: int) -> list[Rows]:
        chance = np.random.default_rng([seed, epoch])
        shuffled = chance.permutation(len(self._rank))
        rows = shuffled[np.argsort(self._rank[shuffled], kind="stable")]
        dealt = np.split(rows, self._ends[:-1])
        return [dealt[i] for i in chance.permutation(self.count)]


def _order(lengths: Lengths) -> Rows:
    """Sorted by the first field, and like a snake by the next: up, down, up.

    At a change of the first field the other goes on from where it was, instead of jumping.
    """
    keys = []
    turned = np.zeros(len(lengths), dtype=np.int64)
    for field in lengths.T.astype(np.int64):
        keys.append(np.where(turned % 2 == 0, field, -field))
        turned = turned + field
    return np.lexsort(keys[::-1])


def _ends(ordered: npt.NDArray[np.int64], budget: int) -> list[int]:
    """Where each batch ends: as many rows as the budget allows, from the first on."""
    ends: list[int] = []
    start, count = 0, len(ordered)
    while start < count:
        most = budget // max(1, int(ordered[start].sum())) + 1
        longest = np.maximum.accumulate(ordered[start : start + most], axis=0).sum(1)
        padded = np.maximum(longest, 1) * np.arange(1, len(longest) + 1)
        start += max(1, int(np.searchsorted(padded, budget, side="right")))
        ends.append(start)
    return ends


def _checked(lengths: Lengths, budget: int) -> Lengths:
    if budget < 1:
        raise DataError(f"a batch needs a budget of at least 1 token, got {budget}")
    if lengths.ndim != 2 or not lengths.shape[1]:
        raise DataError(f"lengths must be (rows, fields), got shape {lengths.shape}")
    if lengths.size and lengths.min() < 0:
        raise DataError(f"lengths count from 0, got {lengths.min()}")
    return lengths
