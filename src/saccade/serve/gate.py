"""The way in: every request is checked, bounded, timed, counted and logged here."""

import asyncio
import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from saccade.serve.guard import Guard
from saccade.serve.limits import Limits
from saccade.serve.logs import note, note_failure
from saccade.serve.measures import Measures
from saccade.serve.models import Models
from saccade.serve.problems import Problem

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
WORKS = "POST"
"""The method of requests that make work."""
DIGITS = 15
"""Of the length of a body, at most."""
CLOSING = (408, 413, 503)
"""After these nothing more is read from a connection."""


@dataclass
class Passage:
    """One request on its way through."""

    receive: Receive
    send: Send
    limits: Limits
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    started: float = field(default_factory=time.monotonic)
    deadline: float = 0.0
    size: int = 0
    status: int = 0
    whole: bool = False
    facts: dict[str, object] = field(default_factory=dict)
    """What the log is to say of it besides."""

    def __post_init__(self) -> None:
        now = asyncio.get_running_loop().time()
        self.deadline = now + self.limits.seconds
        self._until = now + min(self.limits.body_seconds, self.limits.seconds)

    async def read(self) -> Message:
        """The next part of the body, if it comes in time and is not too much."""
        if self.whole:
            return await self.receive()
        left = self._until - asyncio.get_running_loop().time()
        try:
            message = await asyncio.wait_for(self.receive(), left)
        except asyncio.TimeoutError:
            self.whole = True
            raise Problem("slow_body", "the body did not come in time") from None
        if message["type"] == "http.disconnect":
            self.whole = True
            raise Problem("gone", "the client has gone")
        self.size += len(message.get("body", b""))
        self.whole = not message.get("more_body", False)
        if self.size > self.limits.body:
            self.whole = True
            raise too_large(self.limits)
        return message

    async def write(self, message: Message) -> None:
        """The next part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers.update({**HEADERS, "X-Request-ID": self.id})
            if self.status in CLOSING:
                headers["Connection"] = "close"
        await self.send(message)


class Gate:
    """The server as an ASGI application, around the one that has the routes."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        guard: Guard,
        limits: Limits,
        measures: Measures,
        models: Models,
    ) -> None:
        self.app = app
        self.guard, self.limits, self.measures, self.models = guard, limits, measures, models
        self.ending = False
        """Set when the server is told to end: from then on there is no new work."""
        self.paths: Collection[str] = ()
        """Those that measures and logs tell apart; of others they do not say what was asked."""
        self._passages: dict[str, Passage] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        passage = Passage(receive, send, self.limits)
        route = scope["path"] if scope["path"] in self.paths else "other"
        self._passages[passage.id] = passage
        try:
            await self._pass(scope, passage)
        finally:
            del self._passages[passage.id]
            self._tell(scope["method"], route, passage)

    async def _pass(self, scope: Scope, passage: Passage) -> None:
        try:
            headers = Headers(scope=scope)
            passage.whole = not {"content-length", "transfer-encoding"} & set(headers)
            self.guard.check(scope["path"], headers)
            if scope["method"] == WORKS:
                self._admit(headers)
            scope.setdefault("state", {})["passage"] = passage
            await self.app(scope, passage.read, passage.write)
        except Problem as problem:
            await problem.response()(scope, passage.receive, passage.write)
        except Exception as error:  # the application has answered that it failed, if it could
            note_failure("failed", error, id=passage.id)

    def _admit(self, headers: Headers) -> None:
        """Refuse work for which there is no room, before its body is read."""
        if self.ending:
            raise Problem("ending", "the server is ending")
        size = headers.get("content-length", "0")
        if not size.isdecimal() or len(size) > DIGITS or int(size) > self.limits.body:
            raise too_large(self.limits)
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Problem("not_json", "the body must be application/json")
        if headers.get("content-encoding", "identity") != "identity":
            raise Problem("not_json", "the body must not be compressed")
        held = sum(passage.size for passage in self._passages.values())
        if self.models.full or held + int(size) > self.limits.bodies:
            raise Problem("full", "too many requests are waiting; try again")

    def _tell(self, method: str, route: str, passage: Passage) -> None:
        seconds = time.monotonic() - passage.started
        status = passage.status or 499  # the client left before anything was said
        self.measures.requests.add(route, str(status))
        self.measures.seconds.observe(seconds, route)
        note(
            "request",
            id=passage.id,
            method=method if method.isalpha() and len(method) < 10 else "other",
            route=route,
            status=status,
            seconds=round(seconds, 6),
            bytes=passage.size,
            **passage.facts,
        )


def too_large(limits: Limits) -> Problem:
    """The problem of a body that is more than allowed."""
    return Problem("too_large", f"a body may have {limits.body:,} bytes")
