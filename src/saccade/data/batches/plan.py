"""The rows of each batch, and the batches that each process reads for each update.

Both are pure functions of the seed and a number, so a resumed training reads exactly what it would
have read without the interruption.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from saccade.data.batches.cut import Cut
from saccade.data.store.ragged import Integers, Numbers
from saccade.errors import DataError

EPOCHS_KEPT = 2  # an update may reach over the end of an epoch


def batches(lengths: Integers, budget: int, *, seed: int, epoch: int) -> list[Numbers]:
    """Return the rows of every batch of an epoch.

    Every row comes once. Rows of equal lengths change places from epoch to epoch, and so do the
    batches. The cuts depend on the lengths alone, so every epoch has the same number of batches.

    Args:
        lengths: The lengths (rows, fields) of all rows.
        budget: The maximum number of tokens in a batch, including padding: rows × (longest first
            field + longest second field + …). A longer row is a batch of its own.
        seed: The seed of the order.
        epoch: The number of the epoch.
    """
    return list(Cut(_checked(lengths, budget), budget).shuffled(seed, epoch))


def padding_fraction(lengths: Integers, batches: Sequence[Numbers]) -> float:
    """Return the fraction of the batches' tokens that is padding, from 0 to 1."""
    padded = sum(len(rows) * int(lengths[rows].max(0).sum()) for rows in batches if len(rows))
    real = sum(int(lengths[rows].sum()) for rows in batches)
    return 1 - real / padded if padded else 0.0


class Assignment(NamedTuple):
    """One batch to read: its number in the endless stream of batches, and its rows."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which a batch does not need
    rows: Numbers


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """The batches that each process reads for each update.

    The batches of epoch 0, 1, 2, … follow each other without end. An update takes the next `size`
    of them; process `rank` reads every world-th. An update therefore does not depend on the number
    of processes. It begins after the batches that were read before it, so a training that is
    resumed with another number of processes skips no batch and reads none twice.

    lengths   lengths (rows, fields) of all rows
    budget    maximum number of tokens in a batch, including padding
    seed      seed of the order
    size      number of batches of an update, over all processes
    rank      number of this process, from 0
    world     number of processes
    """

    lengths: Integers
    budget: int
    seed: int
    size: int = 1
    rank: int = 0
    world: int = 1

    def __post_init__(self) -> None:
        _checked(self.lengths, self.budget)
        if not len(self.lengths):
            raise DataError("there are no rows to batch; at least one is expected")
        if self.seed < 0:
            raise DataError(f"seed must be 0 or more, got {self.seed}; choose another seed")
        if self.world < 1 or self.size < 1 or not 0 <= self.rank < self.world:
            raise DataError(
                "a plan needs world >= 1, size >= 1 and 0 <= rank < world, got "
                f"world={self.world}, size={self.size}, rank={self.rank}; "
                "pass the rank and the number of the processes that train together"
            )

    @property
    def rounds(self) -> int:
        """The number of batches of an update of the processes that read most of them."""
        return -(-self.size // self.world)

    def update(self, read: int) -> list[Assignment]:
        """Return the batches of this process for the update that follows `read` batches.

        If the processes do not divide an update, some have one batch less, or none.
        """
        if read < 0:
            raise DataError(
                f"the number of batches read must be 0 or more, got {read}; start from 0"
            )
        numbers = range(read + self.rank, read + self.size, self.world)
        return [self._assignment(number) for number in numbers]

    def stand_in(self, read: int) -> Assignment:
        """Return a batch for a process that has none in a round, to compute with weight 0."""
        return self._assignment(read)

    def epoch_of(self, read: int) -> float:
        """Return how many times all rows have been read after `read` batches."""
        return read / self.per_epoch

    @property
    def updates_per_epoch(self) -> float:
        """The number of updates that read every row once."""
        return self.per_epoch / self.size

    @property
    def per_epoch(self) -> int:
        """The number of batches that hold every row once."""
        return self._cut.count

    @cached_property
    def _cut(self) -> Cut:
        return Cut(self.lengths, self.budget)

    @cached_property
    def _epochs(self) -> dict[int, Sequence[Numbers]]:
        return {}

    def _assignment(self, number: int) -> Assignment:
        epoch, place = divmod(number, self.per_epoch)
        if epoch not in self._epochs:
            while len(self._epochs) >= EPOCHS_KEPT:
                self._epochs.pop(next(iter(self._epochs)))
            self._epochs[epoch] = self._cut.shuffled(self.seed, epoch)
        return Assignment(number, self._epochs[epoch][place])


def _checked(lengths: Integers, budget: int) -> Integers:
    if budget < 1:
        raise DataError(
            f"a batch needs a budget of at least 1 token, got {budget}; raise batch_tokens"
        )
    if lengths.ndim != 2 or not lengths.shape[1]:
        raise DataError(
            f"lengths must have the shape (rows, fields), got {lengths.shape}; "
            "pass one column per side"
        )
    if lengths.size and lengths.min() < 0:
        raise DataError(
            f"lengths must be 0 or more, got {lengths.min()}; "
            "pass the number of tokens of each example"
        )
    return lengths
