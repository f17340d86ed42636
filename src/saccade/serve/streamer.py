"""Streaming: texts of one model piece by piece, a few at the same time, each in a thread."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from saccade.cancellation import Cancelled, cancellable, raise_if_cancelled


@dataclass(frozen=True)
class StreamPiece:
    """A piece of a stream.

    Attributes:
        text: Text of the piece; empty for the last one.
        finished: None while more follows. For the last piece, whether the text is complete; False
            if it was cut at its maximum length.
        truncated: Whether only a part of the prompt was read.
    """

    text: str
    finished: bool | None = None
    truncated: bool = False


StartStream = Callable[[], Generator[str, None, bool]]
"""Starts to generate a text; the generator returns whether it finished."""


class Streamer:
    """Thread pool that generates texts.

    Args:
        threads: Texts generated at the same time.
        prepare: Called in a thread before each text, as every text uses one processor thread.
    """

    def __init__(self, threads: int, prepare: Callable[[], None]) -> None:
        self._pool, self._prepare = ThreadPoolExecutor(threads), prepare
        self._running: set[Future[None]] = set()
        self._closing = threading.Event()

    async def stream(self, start: StartStream) -> AsyncGenerator[StreamPiece, None]:
        """Yield each piece as it is generated.

        Generation is cancelled when the iterator is closed.
        """
        loop = asyncio.get_running_loop()
        items: asyncio.Queue[StreamPiece | BaseException] = asyncio.Queue()
        closed = threading.Event()

        def put(item: StreamPiece | BaseException) -> None:
            loop.call_soon_threadsafe(items.put_nowait, item)

        def generate() -> None:
            try:
                with cancellable(lambda: closed.is_set() or self._closing.is_set()):
                    self._prepare()
                    pieces = start()
                    while True:
                        put(StreamPiece(next(pieces)))
                        raise_if_cancelled()
            except StopIteration as end:
                put(StreamPiece("", end.value))
            except Cancelled:
                return
            except BaseException as error:
                put(error)

        running = self._pool.submit(generate)
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        try:
            while True:
                item = await items.get()
                if isinstance(item, BaseException):
                    raise item
                yield item
                if item.finished is not None:
                    return
        finally:
            closed.set()
            running.cancel()

    def close(self, seconds: float) -> bool:
        """Cancel all texts; return whether their threads ended within `seconds`."""
        self._closing.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        return not wait(self._running, seconds).not_done
