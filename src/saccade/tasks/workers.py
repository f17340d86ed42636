"""Batches side by side: on a CPU each has a thread of its own, instead of several for one.

The operations of a step are too small to be divided well; whole batches are not. torch lets go of
Python's lock in every operation, so threads are enough.
"""

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from contextvars import Context, copy_context
from functools import cache
from typing import TypeVar

import torch

from saccade.data.threads import in_threads

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Options of `mallopt`, by their numbers in malloc.h: what is given back at a free."""
SMALLEST = 8
"""Inputs of a batch that are not worth dividing."""

Rows = list[int]
Result = TypeVar("Result")


def batch_size_for(inputs: int, most: int, device: torch.device) -> int:
    """So many at a time that there is a batch for each thread, if the inputs are enough."""
    return min(most, max(SMALLEST, -(-inputs // _workers(device))))


def in_batches(inputs: int, most: int, device: torch.device) -> list[Rows]:
    """The numbers of the inputs in their order, as many at a time."""
    size = batch_size_for(inputs, most, device)
    return [list(range(at, min(at + size, inputs))) for at in range(0, inputs, size)]


def side_by_side(
    work: Callable[[Rows], Sequence[Result]],
    batches: Sequence[Rows],
    device: torch.device,
    stop: Callable[[], None] | None = None,
) -> Iterator[tuple[int, Result]]:
    """Each row with what `work` makes of it, batch by batch; `stop` is called before each."""
    keep_memory()
    workers = min(_workers(device), len(batches))
    results = map(work, batches) if workers < 2 else _in_threads(work, batches, workers)
    for rows in batches:
        if stop is not None:
            stop()
        yield from zip(rows, next(results), strict=True)


@cache
def keep_memory() -> None:
    """Let the process keep up to 256 MiB that it has freed, instead of giving them back.

    A step frees what the next one asks for again. Given back, it comes page by page as zeros, which
    took a tenth of the time of an answer. Only the C library of most Linux systems has this option.
    """
    if sys.platform == "linux":
        set_option = getattr(ctypes.CDLL(None), "mallopt", None)
        if set_option is not None:
            for option, size in ((M_MMAP_THRESHOLD, 32 << 20), (M_TRIM_THRESHOLD, 256 << 20)):
                set_option(ctypes.c_int(option), ctypes.c_int(size))


def _workers(device: torch.device) -> int:
    return torch.get_num_threads() if device.type == "cpu" else 1


def _in_threads(
    work: Callable[[Rows], Sequence[Result]], batches: Sequence[Rows], workers: int
) -> Iterator[Sequence[Result]]:
    threads = torch.get_num_threads()

    def alone(call: tuple[Context, Rows]) -> Sequence[Result]:
        torch.set_num_threads(1)  # of the worker that calls it
        context, rows = call
        return context.run(work, rows)

    calls = ((copy_context(), rows) for rows in batches)  # who watches here watches there
    try:
        yield from in_threads(alone, calls, workers)
    finally:
        torch.set_num_threads(threads)
