"""A bar on the terminal for inputs that are being answered."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saccade.training.screen import Counting


class Answered:
    """About how many inputs are answered, never more than there are."""

    def __init__(self, bar: "Counting", batch_size: int, total: int | None) -> None:
        self._bar, self._batch_size, self._next = bar, batch_size, 0
        self._total = total

    def __call__(self) -> None:
        """Another batch begins, so the one before it is done."""
        self._bar.to(self._next)
        after = self._next + self._batch_size
        self._next = after if self._total is None else min(after, self._total)

    def to(self, count: int) -> None:
        """So many are done: short batches and empty inputs are counted right."""
        self._next = count
        self._bar.to(count)


@contextmanager
def answering(batch_size: int, *, shown: bool, total: int | None = None) -> Iterator[Answered]:
    """A bar on stderr, if that is a terminal and it is to be shown."""
    from saccade.training.screen import Screen

    with Screen(quiet=not shown).counting("answered:", total) as bar:
        yield Answered(bar, batch_size, total)
