"""A bar on the terminal for inputs that are being answered."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saccade.training.console import Counting


class Answered:
    """Counts the inputs that are answered, never more than there are."""

    def __init__(self, bar: "Counting", total: int | None) -> None:
        self._bar, self._count, self._total = bar, 0, total

    def __call__(self, count: int) -> None:
        """Count another batch of inputs."""
        after = self._count + count
        self.to(after if self._total is None else min(after, self._total))

    def to(self, count: int) -> None:
        """Set the count, which includes blank inputs."""
        self._count = count
        self._bar.to(count)


@contextmanager
def answering(*, shown: bool, total: int | None = None) -> Iterator[Answered]:
    """A bar on stderr, if that is a terminal and it is to be shown."""
    from saccade.training.console import Console

    with Console(quiet=not shown).counting("answered:", total) as bar:
        yield Answered(bar, total)
