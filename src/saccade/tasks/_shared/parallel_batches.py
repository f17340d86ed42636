"""Batches side by side: on a CPU each has a thread of its own, instead of several for one.

The operations of a step are too small to be divided well; whole batches are not. torch lets go of
Python's lock in every operation, so threads are enough.
"""

from collections.abc import Callable, Iterator, Sequence
from contextvars import Context, copy_context
from typing import TypeVar

import torch

from saccade.allocator import keep_freed_memory
from saccade.cancellation import raise_if_cancelled
from saccade.data.threads import in_threads
from saccade.decoders.fast_path import shared_layouts, sharing

SMALLEST = 8
"""Inputs of a batch that are not worth dividing."""

Rows = list[int]
Result = TypeVar("Result")


def batch_size_for(inputs: int, most: int, device: torch.device) -> int:
    """So many at a time that there is a batch for each thread, if the inputs are enough."""
    return min(most, max(SMALLEST, -(-inputs // _workers(device))))


def of_one_length(lengths: Sequence[int]) -> list[Rows]:
    """The numbers of the inputs, those of one length together, the shortest first."""
    length_group: dict[int, Rows] = {}
    for row, length in enumerate(lengths):
        length_group.setdefault(length, []).append(row)
    return [rows for _, rows in sorted(length_group.items())]


def side_by_side(
    work: Callable[[Rows], Result], batches: Sequence[Rows], device: torch.device
) -> Iterator[tuple[Rows, Result]]:
    """Yield each batch with the result of `work` for it, in order; cancelled work ends between."""
    keep_freed_memory()
    layouts = shared_layouts()

    def checked(rows: Rows) -> Result:
        raise_if_cancelled()
        with sharing(layouts):
            return work(rows)

    workers = min(_workers(device), len(batches))
    results = map(checked, batches) if workers < 2 else _in_threads(checked, batches, workers)
    yield from zip(batches, results, strict=True)


def _workers(device: torch.device) -> int:
    return torch.get_num_threads() if device.type == "cpu" else 1


def _in_threads(
    work: Callable[[Rows], Result], batches: Sequence[Rows], workers: int
) -> Iterator[Result]:
    threads = torch.get_num_threads()

    def alone(call: tuple[Context, Rows]) -> Result:
        torch.set_num_threads(1)  # of the worker that calls it
        context, rows = call
        return context.run(work, rows)

    calls = ((copy_context(), rows) for rows in batches)  # who watches here watches there
    try:
        yield from in_threads(alone, calls, workers)
    finally:
        torch.set_num_threads(threads)
