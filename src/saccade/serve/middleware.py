"""The way in: every request is checked, bounded, timed, counted and logged here."""

import asyncio
import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from saccade.serve.auth import Guard
from saccade.serve.limits import Limits
from saccade.serve.logs import note, note_failure
from saccade.serve.models import Models
from saccade.serve.problems import Problem
from saccade.serve.prometheus import Measures

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
UPLOAD = "multipart/form-data"
"""The media type of uploads."""
ONCE = frozenset(
    ("host", "origin", "authorization", "content-type", "content-encoding", "content-length")
)
"""Headers whose repetition leaves open which one counts."""
MOST_HEADERS = 100
CLOSING = (408, 413, 503)
"""After these nothing more is read from a connection."""


class Budget:
    """The bytes that all bodies may have together."""

    def __init__(self, total: int) -> None:
        self.total, self.reserved = total, 0

    def reserve(self, size: int) -> None:
        """Reserve so many bytes; raise if fewer are left."""
        if self.reserved + size > self.total:
            raise Problem("full", "too many requests are waiting; try again")
        self.reserved += size


@dataclass
class Passage:
    """One request on its way through.

    `most` is how many bytes its body may have; `reserved` is its part of the budget.
    """

    receive: Receive
    send: Send
    limits: Limits
    budget: Budget
    most: int = 0
    reserved: int = 0
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
        except TimeoutError:
            self.whole = True
            raise Problem("slow_body", "the body did not come in time") from None
        if message["type"] == "http.disconnect":
            self.whole = True
            raise Problem("gone", "the client has gone")
        self.size += len(message.get("body", b""))
        self.whole = not message.get("more_body", False)
        try:
            self.reserve(self.size)
        except Problem:
            self.whole = True
            raise
        return message

    def reserve(self, size: int) -> None:
        """Reserve room for a body of this size; raise if it is too large or there is no room."""
        if size > self.most:
            raise too_large(self.most, self.limits)
        if size > self.reserved:
            self.budget.reserve(size - self.reserved)
            self.reserved = size

    def release(self) -> None:
        """Return what was reserved to the budget."""
        self.budget.reserved -= self.reserved
        self.reserved = 0

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
        self.uploads: Collection[str] = ()
        """The paths that accept uploads."""
        self.budget = Budget(limits.bodies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        passage = Passage(receive, send, self.limits, self.budget)
        route = scope["path"] if scope["path"] in self.paths else "other"
        try:
            await self._pass(scope, passage)
        finally:
            passage.release()
            self._tell(scope["method"], route, passage)

    async def _pass(self, scope: Scope, passage: Passage) -> None:
        try:
            headers = Headers(scope=scope)
            passage.whole = not {"content-length", "transfer-encoding"} & set(headers)
            require_unambiguous(scope)
            self.guard.check(scope["path"], headers)
            if scope["method"] == WORKS:
                self._admit(scope["path"], headers, passage)
            scope.setdefault("state", {})["passage"] = passage
            await self.app(scope, passage.read, passage.write)
        except Problem as problem:
            await problem.response()(scope, passage.receive, passage.write)
        except Exception as error:  # the application has answered that it failed, if it could
            note_failure("failed", error, id=passage.id)

    def _admit(self, path: str, headers: Headers, passage: Passage) -> None:
        """Refuse work for which there is no room, before its body is read."""
        if self.ending:
            raise Problem("ending", "the server is ending")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        uploads = kind == UPLOAD and path in self.uploads
        passage.most = self.limits.body if uploads else min(self.limits.json, self.limits.body)
        size = headers.get("content-length", "0")
        if not size.isdecimal() or len(size) > DIGITS:
            raise too_large(passage.most, self.limits)
        if not uploads and kind != "application/json":
            also = f", or {UPLOAD} with images" if path in self.uploads else ""
            raise Problem("not_json", f"the body must be application/json{also}")
        if headers.get("content-encoding", "identity") != "identity":
            raise Problem("not_json", "the body must not be compressed")
        if self.models.full:
            raise Problem("full", "too many requests are waiting; try again")
        passage.reserve(int(size))

    def _tell(self, method: str, route: str, passage: Passage) -> None:
        seconds = time.monotonic() - passage.started
        status = passage.status or 499  # the client left before anything was said
        self.measures.requests.labels(route, str(status)).inc()
        self.measures.seconds.labels(route).observe(seconds)
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


def require_unambiguous(scope: Scope) -> None:
    """Raise if the headers can be read in two ways, or if there are too many of them."""
    names = [name.decode("latin-1").lower() for name, _ in scope["headers"]]
    if len(names) > MOST_HEADERS:
        raise Problem("bad_request", f"a request may have {MOST_HEADERS} headers; send fewer")
    repeated = next((name for name in names if name in ONCE and names.count(name) > 1), None)
    if repeated is not None:
        raise Problem("bad_request", f"the header {repeated} is repeated; send it once")
    if "transfer-encoding" in names and "content-length" in names:
        raise Problem(
            "bad_request", "the request has both Transfer-Encoding and Content-Length; send one"
        )


def too_large(most: int, limits: Limits) -> Problem:
    """The problem of a body that is more than allowed."""
    upload = f", or upload images as {UPLOAD} to /v1/predict: up to {limits.body:,} bytes"
    return Problem(
        "too_large",
        f"the body is too large; this one may have {most:,} bytes. Send fewer inputs per request"
        f"{upload if most < limits.body else ''}",
    )
