"""Waiting for an answer, as long as somebody wants it and its time has not run out."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from saccade.serve.problems import Problem

Result = TypeVar("Result")
QUICK = 2**16
"""Bytes of a request that is handled at once, without a thread."""


class Waiting:
    """One request that is waiting: until when, and for whom.

    `size` is how many bytes it has, and tells whether it is worth a thread.
    """

    def __init__(self, request: Request, deadline: float, size: int) -> None:
        self._request, self._deadline, self._size = request, deadline, size
        self.enough = False
        """Set when what was wanted has come, though there might be more."""

    async def thread(self, call: Callable[[], Result]) -> Result:
        """What the call gives; in a thread, if the request is so large that it may take long."""
        return call() if self._size <= QUICK else await run_in_threadpool(call)

    async def until(self, answer: Awaitable[Result]) -> Result:
        """The answer, which is cancelled when the client is gone or its time is over."""
        wanted = asyncio.ensure_future(answer)
        gone = asyncio.ensure_future(self._gone())
        left = self._deadline - asyncio.get_running_loop().time()
        try:
            await asyncio.wait({wanted, gone}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if wanted.done():
                return wanted.result()
            if gone.done():
                raise Problem("gone", "the client has gone")
            raise Problem("too_late", "there was no answer in time; ask for less, or try again")
        finally:
            wanted.cancel()
            gone.cancel()
            await asyncio.wait({wanted, gone})

    async def _gone(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
