"""Middleware around all routes: authorize, bound, time, count and log every request."""

import asyncio
import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from saccade.serve.auth import Authorization
from saccade.serve.limits import RequestLimits
from saccade.serve.logs import log_error, log_event
from saccade.serve.models import ModelRegistry
from saccade.serve.problems import Problem
from saccade.serve.prometheus import ServerMetrics

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
UPLOAD = "multipart/form-data"
"""Media type of uploads."""
SINGLE_HEADERS = frozenset(
    ("host", "origin", "authorization", "content-type", "content-encoding", "content-length")
)
"""Headers that are ambiguous when repeated."""
MAX_HEADERS = 100
MAX_LENGTH_DIGITS = 15
"""Digits of a Content-Length header."""
CLOSING = (408, 413, 503)
"""Statuses after which nothing more is read from a connection."""


class BodyBudget:
    """Bytes that all request bodies may have together."""

    def __init__(self, total: int) -> None:
        self.total, self.reserved = total, 0

    def reserve(self, size: int) -> None:
        """Reserve bytes; raise if fewer are left."""
        if self.reserved + size > self.total:
            raise Problem("full", "too many requests are waiting; try again later")
        self.reserved += size


@dataclass
class RequestContext:
    """One request on its way through the middleware.

    Attributes:
        receive: ASGI callable for the messages of the client.
        send: ASGI callable for the messages to the client.
        limits: Limits of the server.
        budget: Bytes shared by all request bodies.
        max_bytes: Bytes that its body may have.
        reserved: Bytes it has reserved of the budget.
        id: Random id, which the response and the log name.
        started: Monotonic time at which it arrived.
        deadline: Time of the event loop at which it must be answered.
        size: Bytes of its body so far.
        status: Status of its response; 0 before there is one.
        complete: Whether no more of its body will be read.
        facts: Further facts for the log.
    """

    receive: Receive
    send: Send
    limits: RequestLimits
    budget: BodyBudget
    max_bytes: int = 0
    reserved: int = 0
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    started: float = field(default_factory=time.monotonic)
    deadline: float = 0.0
    size: int = 0
    status: int = 0
    complete: bool = False
    facts: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        now = asyncio.get_running_loop().time()
        self.deadline = now + self.limits.timeout
        self._body_deadline = now + min(self.limits.body_seconds, self.limits.timeout)

    async def read(self) -> Message:
        """Return the next message of the client.

        Raises:
            Problem: The body is too large or too slow, or the client disconnected.
        """
        if self.complete:
            return await self.receive()
        left = self._body_deadline - asyncio.get_running_loop().time()
        try:
            message = await asyncio.wait_for(self.receive(), left)
        except TimeoutError:
            self.complete = True
            raise Problem(
                "slow_body", "the body did not arrive in time; send it again, or send less"
            ) from None
        if message["type"] == "http.disconnect":
            self.complete = True
            raise Problem("gone", "the client closed the connection")
        self.size += len(message.get("body", b""))
        self.complete = not message.get("more_body", False)
        try:
            self.reserve(self.size)
        except Problem:
            self.complete = True
            raise
        return message

    def reserve(self, size: int) -> None:
        """Reserve room for a body of this size; raise if it is too large or does not fit."""
        if size > self.max_bytes:
            raise _too_large(self.max_bytes, self.limits)
        if size > self.reserved:
            self.budget.reserve(size - self.reserved)
            self.reserved = size

    def release(self) -> None:
        """Return the reserved bytes to the budget."""
        self.budget.reserved -= self.reserved
        self.reserved = 0

    async def write(self, message: Message) -> None:
        """Send the next message of the response, with the headers that all responses have."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers.update({**HEADERS, "X-Request-ID": self.id})
            if self.status in CLOSING:
                headers["Connection"] = "close"
        await self.send(message)


class RequestMiddleware:
    """ASGI application around the routes.

    Args:
        app: Application with the routes.
        authorization: Check of every request's headers.
        limits: Limits of the server.
        metrics: Metrics of the server.
        models: Models that the routes use.
        paths: Paths that metrics and logs name. All others are counted as "other".
        upload_paths: Paths that accept uploads.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        authorization: Authorization,
        limits: RequestLimits,
        metrics: ServerMetrics,
        models: ModelRegistry,
        paths: Collection[str],
        upload_paths: Collection[str],
    ) -> None:
        self.app, self.authorization, self.limits = app, authorization, limits
        self.metrics, self.models = metrics, models
        self.budget = BodyBudget(limits.total_bytes)
        self._paths, self._upload_paths = frozenset(paths), frozenset(upload_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        context = RequestContext(receive, send, self.limits, self.budget)
        route = scope["path"] if scope["path"] in self._paths else "other"
        try:
            await self._answer(scope, context)
        finally:
            context.release()
            self._report(scope["method"], route, context)

    async def _answer(self, scope: Scope, context: RequestContext) -> None:
        try:
            headers = Headers(scope=scope)
            context.complete = not {"content-length", "transfer-encoding"} & set(headers)
            _require_unambiguous(scope)
            self.authorization.check(scope["path"], headers)
            if scope["method"] == "POST":
                self._admit(scope["path"], headers, context)
            scope.setdefault("state", {})["context"] = context
            await self.app(scope, context.read, context.write)
        except Problem as problem:
            await problem.response()(scope, context.receive, context.write)
        except Exception as error:  # the application has sent status 500, if it could
            log_error("failed", error, id=context.id)

    def _admit(self, path: str, headers: Headers, context: RequestContext) -> None:
        """Raise if a request cannot be accepted, before its body is read."""
        if self.models.draining:
            raise Problem("ending", "the server is shutting down; try again later")
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        is_upload = media_type == UPLOAD and path in self._upload_paths
        limits = self.limits
        context.max_bytes = (
            limits.upload_bytes if is_upload else min(limits.json_bytes, limits.upload_bytes)
        )
        size = headers.get("content-length", "0")
        if not size.isdecimal() or len(size) > MAX_LENGTH_DIGITS:
            raise _too_large(context.max_bytes, limits)
        if not is_upload and media_type != "application/json":
            also = f", or {UPLOAD} with images" if path in self._upload_paths else ""
            raise Problem(
                "not_json", f"the Content-Type must be application/json{also}; set this header"
            )
        if headers.get("content-encoding", "identity") != "identity":
            raise Problem("not_json", "the body must not be compressed; send it as it is")
        if self.models.full:
            raise Problem("full", "too many requests are waiting; try again later")
        context.reserve(int(size))

    def _report(self, method: str, route: str, context: RequestContext) -> None:
        """Count and log a request."""
        seconds = time.monotonic() - context.started
        status = context.status or 499  # the client disconnected before there was a response
        self.metrics.requests.labels(route, str(status)).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        log_event(
            "request",
            id=context.id,
            method=method if method.isalpha() and len(method) < 10 else "other",
            route=route,
            status=status,
            seconds=round(seconds, 6),
            bytes=context.size,
            **context.facts,
        )


def _require_unambiguous(scope: Scope) -> None:
    """Raise if the headers can be read in two ways, or if there are too many of them."""
    names = [name.decode("latin-1").lower() for name, _ in scope["headers"]]
    if len(names) > MAX_HEADERS:
        raise Problem(
            "bad_request",
            f"the request has {len(names)} headers, more than the {MAX_HEADERS} allowed; "
            "send fewer",
        )
    repeated = next(
        (name for name in names if name in SINGLE_HEADERS and names.count(name) > 1), None
    )
    if repeated is not None:
        raise Problem("bad_request", f"the header {repeated} is repeated; send it once")
    if "transfer-encoding" in names and "content-length" in names:
        raise Problem(
            "bad_request", "the request has both Transfer-Encoding and Content-Length; send one"
        )


def _too_large(most: int, limits: RequestLimits) -> Problem:
    """Return the problem of a body with more than `most` bytes."""
    upload = f", or upload images as {UPLOAD} to /v1/predict: up to {limits.upload_bytes:,} bytes"
    return Problem(
        "too_large",
        f"the body is larger than the {most:,} bytes allowed. Send fewer inputs per request"
        f"{upload if most < limits.upload_bytes else ''}",
    )
