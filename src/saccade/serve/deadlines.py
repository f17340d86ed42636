"""Deadlines of requests: wait for an answer until its time runs out or its client leaves."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from saccade.serve.problems import Problem

Result = TypeVar("Result")
SMALL_BODY = 2**16
"""Bytes of a request body that is handled in the event loop, without a thread."""


class Deadline:
    """Deadline of one request, which also ends when its client disconnects.

    Args:
        request: The request.
        time: Time of the event loop at which it must be answered.
        size: Bytes of its body.

    Attributes:
        satisfied: Set when the client has all it asked for, although the model could continue.
    """

    def __init__(self, request: Request, time: float, size: int) -> None:
        self._request, self._time, self._size = request, time, size
        self.satisfied = False

    async def run(self, call: Callable[[], Result]) -> Result:
        """Return the result of a call, which runs in a thread if the request is large."""
        return call() if self._size <= SMALL_BODY else await run_in_threadpool(call)

    async def wait_for(self, awaitable: Awaitable[Result]) -> Result:
        """Return the result of an awaitable, or cancel it at the deadline.

        Raises:
            Problem: The time ran out ("too_late"), or the client disconnected ("gone").
        """
        result = asyncio.ensure_future(awaitable)
        disconnect = asyncio.ensure_future(self._disconnected())
        left = self._time - asyncio.get_running_loop().time()
        try:
            await asyncio.wait(
                {result, disconnect}, timeout=left, return_when=asyncio.FIRST_COMPLETED
            )
            if result.done():
                return result.result()
            if disconnect.done():
                raise Problem("gone", "the client closed the connection")
            raise Problem(
                "too_late",
                "the answer was not ready in time; send fewer or shorter inputs, or a smaller "
                "beam or max_length, or try again later",
            )
        finally:
            result.cancel()
            disconnect.cancel()
            await asyncio.wait({result, disconnect})

    async def _disconnected(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
