"""Batches in parallel: on a CPU each batch has one thread, instead of several threads per batch.

The operations of a decoding step are too small to be divided well; complete batches are not. torch
releases Python's lock in every operation, so threads are enough.
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
"""The smallest batch that is worth dividing, in inputs."""

Rows = list[int]
Result = TypeVar("Result")


def batch_size_for(inputs: int, most: int, device: torch.device) -> int:
    """Return the batch size that gives each thread a batch, if there are enough inputs."""
    return min(most, max(SMALLEST, -(-inputs // _workers(device))))


def side_by_side(
    work: Callable[[Rows], Result], batches: Sequence[Rows], device: torch.device
) -> Iterator[tuple[Rows, Result]]:
    """Yield each batch with the result of `work`, in order; cancelled work ends between batches."""
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

    def in_one_thread(call: tuple[Context, Rows]) -> Result:
        torch.set_num_threads(1)  # holds for the calling thread
        context, rows = call
        return context.run(work, rows)

    calls = ((copy_context(), rows) for rows in batches)  # so that threads can be watched
    try:
        yield from in_threads(in_one_thread, calls, workers)
    finally:
        torch.set_num_threads(threads)
