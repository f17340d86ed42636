"""Ordered work in threads, for decoding and hashing, which release Python's lock."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Argument = TypeVar("Argument")
Result = TypeVar("Result")


def in_threads(
    work: Callable[[Argument], Result], arguments: Iterable[Argument], workers: int
) -> Generator[Result, None, None]:
    """Yield `work(argument)` for each argument in order; only a few results wait at a time."""
    pool = ThreadPoolExecutor(workers)
    waiting: deque[Future[Result]] = deque()
    try:
        for argument in arguments:
            waiting.append(pool.submit(work, argument))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
