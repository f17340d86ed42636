"""Texts of one model piece by piece, each in a thread of its own, a few at the same time."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import torch

from saccade.cancellation import Cancelled, cancellable, raise_if_cancelled


@dataclass(frozen=True)
class End:
    """Stands after the last piece; a text that is not `finished` was cut."""

    finished: bool


Pieces = Callable[[], Generator[str, None, bool]]
"""Begins to write."""


class Streamer:
    """Threads in which texts are written."""

    def __init__(self, threads: int) -> None:
        # steps are too small to be divided: a text is written by one thread of the processor
        self._pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
        self._running: set[Future[None]] = set()
        self._ending = threading.Event()

    async def pieces(self, begin: Pieces) -> AsyncGenerator[str | End, None]:
        """Each piece as it is written, and the end.

        When nobody iterates any more, writing is cancelled.
        """
        loop = asyncio.get_running_loop()
        written: asyncio.Queue[Any] = asyncio.Queue()
        left = threading.Event()

        def tell(said: str | End | BaseException) -> None:
            loop.call_soon_threadsafe(written.put_nowait, said)

        def write() -> None:
            try:
                with cancellable(lambda: left.is_set() or self._ending.is_set()):
                    text = begin()
                    while True:
                        tell(next(text))
                        raise_if_cancelled()
            except StopIteration as end:
                tell(End(end.value))
            except Cancelled:
                return
            except BaseException as error:
                tell(error)

        waiting = self._pool.submit(write)
        self._running.add(waiting)
        waiting.add_done_callback(self._running.discard)
        try:
            while True:
                said = await written.get()
                if isinstance(said, BaseException):
                    raise said
                yield said
                if isinstance(said, End):
                    return
        finally:
            left.set()
            waiting.cancel()

    def close(self, seconds: float) -> bool:
        """End what is being written; whether it has ended in this time."""
        self._ending.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        return not wait(self._running, seconds).not_done
