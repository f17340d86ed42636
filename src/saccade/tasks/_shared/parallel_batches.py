"""Batches in parallel: each batch has one thread, instead of several threads per batch.

The operations of a decoding step are too small to be divided well; complete batches are not. torch
and other engines release Python's lock in every operation, so threads are enough.
"""

from collections.abc import Callable, Iterator, Sequence
from contextvars import Context, copy_context
from typing import TypeVar

from saccade.cancellation import raise_if_cancelled
from saccade.cpu_threads import thread_count
from saccade.data.threads import in_threads

SMALLEST = 8
"""The smallest batch that is worth dividing, in inputs."""

Rows = list[int]
Result = TypeVar("Result")


class Workers:
    """Threads that answer batches with an engine that is not torch."""

    @property
    def count(self) -> int:
        """The number of batches that are answered at the same time."""
        return thread_count()

    def batch_size(self, inputs: int, most: int) -> int:
        """Return the batch size that gives each thread a batch, if there are enough inputs."""
        return min(most, max(SMALLEST, -(-inputs // self.count)))

    def side_by_side(
        self, work: Callable[[Rows], Result], batches: Sequence[Rows]
    ) -> Iterator[tuple[Rows, Result]]:
        """Yield each batch with the result of `work`, in order; cancelled work ends early."""

        def checked(rows: Rows) -> Result:
            raise_if_cancelled()
            return work(rows)

        workers = min(self.count, len(batches))
        results = map(checked, batches) if workers < 2 else self._run(checked, batches, workers)
        yield from zip(batches, results, strict=True)

    def _run(
        self, work: Callable[[Rows], Result], batches: Sequence[Rows], workers: int
    ) -> Iterator[Result]:
        def in_context(call: tuple[Context, Rows]) -> Result:
            context, rows = call
            return context.run(work, rows)

        calls = ((copy_context(), rows) for rows in batches)  # so that threads can be watched
        return in_threads(in_context, calls, workers)
