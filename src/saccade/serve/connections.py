"""HTTP connections: how many may be open, and how long a client may keep the server waiting.

Anyone who can reach the port can open a connection, with or without a token, so an open connection
must cost little and must not last. A connection without a running request is idle. It is closed
when its time runs out; if there are too many, the one that has been idle longest is closed.
"""

import asyncio
import json
import time
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from saccade.serve.limits import RequestLimits
from saccade.serve.logs import log_event
from saccade.serve.problems import Problem
from saccade.serve.prometheus import ServerMetrics

HEAD_BYTES = 2**14
"""Bytes of the headers of a request. As much is read at once, because h11 counts only incomplete
headers."""
CHUNKS, CHUNK_BYTES = 256, 256
"""A chunked body may have CHUNKS chunks, and one more per CHUNK_BYTES bytes: h11 needs about as
long for a chunk of one byte as for a large one."""
LINGER_SECONDS = 5.0
"""Time that a client has to read the response to a request that was not read to its end."""
LOG_SECONDS = 60.0
"""Time between two log lines about the limit of connections."""


class ConnectionPool:
    """All connections of a server.

    Args:
        limit: Connections that may be open.
        limits: Limits of the server, for timeouts.
        metrics: Metrics of the server.

    Attributes:
        open: Open connections.
        idle: Connections without a running request, in the order in which they became idle.
    """

    def __init__(self, limit: int, limits: RequestLimits, metrics: ServerMetrics) -> None:
        self.limit, self.limits, self._metrics = limit, limits, metrics
        self.open: set[Connection] = set()
        self.idle: dict[Connection, None] = {}
        self._logged = float("-inf")

    def admit(self, connection: "Connection") -> bool:
        """Add a connection, in place of an idle one if the pool is full; return whether it fits."""
        if len(self.open) >= self.limit:
            self._log()
            if not self.idle:
                self.drop(connection, "limit")
                return False
            self.drop(next(iter(self.idle)), "evicted")
        self.open.add(connection)
        self.idle[connection] = None
        return True

    def drop(self, connection: "Connection", reason: str) -> None:
        """Close a connection at once and count the reason."""
        self._metrics.dropped.labels(reason).inc()
        self.forget(connection)
        connection.abort()

    def forget(self, connection: "Connection") -> None:
        """Remove a closed connection."""
        self.open.discard(connection)
        self.idle.pop(connection, None)

    def _log(self) -> None:
        if time.monotonic() - self._logged >= LOG_SECONDS:
            self._logged = time.monotonic()
            log_event("connection limit reached", limit=self.limit, idle=len(self.idle))


class ChunkLimitingParser(h11.Connection):
    """h11's parser, which also rejects bodies in very many tiny chunks."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, HEAD_BYTES)
        self._chunks = self._bytes = 0

    def next_event(self) -> Any:
        """Return the next event of the connection."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = self._bytes = 0
        elif isinstance(event, h11.Data):
            self._chunks += event.chunk_start
            self._bytes += len(event.data)
            if self._chunks > CHUNKS + self._bytes // CHUNK_BYTES:
                raise h11.RemoteProtocolError("the chunks of the body are too small")
        return event


class LingeringTransport:
    """Transport whose `close` lets the client read the response.

    Closing a socket while the client still sends resets the connection, and the response is lost.
    So only the sending side is closed, and what arrives is discarded for a while (RFC 9112, 9.6).

    Attributes:
        lingers: Whether the sending side is closed.
    """

    def __init__(self, transport: asyncio.Transport, connection: "Connection") -> None:
        self._transport, self._connection = transport, connection
        self.lingers = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Return whether nothing more will be sent."""
        return self.lingers or self._transport.is_closing()

    def close(self) -> None:
        """Close the connection, at once if the client has sent its complete request."""
        if self.is_closing():
            return
        if self._connection.conn.their_state not in (h11.SEND_BODY, h11.ERROR):
            self._transport.close()
            return
        self.lingers = True
        try:
            self._transport.write_eof()
        except OSError:  # the client is gone
            self._transport.abort()
            return
        self._transport.resume_reading()
        self._connection.linger()


class Connection(H11Protocol, asyncio.BufferedProtocol):
    """One connection, which is closed when its client keeps the server waiting.

    Args:
        args: Arguments of uvicorn's protocol.
        pool: All connections of the server.
        kwargs: Keyword arguments of uvicorn's protocol.
    """

    def __init__(self, *args: Any, pool: ConnectionPool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = ChunkLimitingParser()
        self._pool, self._limits = pool, pool.limits
        self._buffer = bytearray(HEAD_BYTES)
        self._timer: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._link: asyncio.Transport | None = None

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Add the new connection to the pool and wait for its first request."""
        self._link = transport
        super().connection_made(cast(asyncio.Transport, LingeringTransport(transport, self)))
        if self._pool.admit(self):
            self._expect(self._limits.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers and leave the pool."""
        self._expect(None)
        if self._stalled is not None:
            self._stalled.cancel()
        self._pool.forget(self)
        super().connection_lost(exc)

    def get_buffer(self, sizehint: int) -> bytearray:
        """Return the buffer for the next bytes."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Handle bytes in the buffer."""
        if not self.transport.is_closing():
            self.data_received(bytes(self._buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Handle bytes from the client."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self.busy:
            self._expect(None)
            self._pool.idle.pop(self, None)
        elif (
            self._timer is None
        ):  # the first bytes of the next request; later ones do not extend its time
            self._expect(self._limits.head_seconds)

    def on_response_complete(self) -> None:
        """Mark the connection as idle after a response."""
        super().on_response_complete()
        if not self.busy and self in self._pool.open:
            self._pool.idle[self] = None

    def send_400_response(self, msg: str) -> None:
        """Respond to invalid HTTP, in the shape of all errors."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.abort()  # a response has begun already
            return
        problem = Problem(
            "bad_request",
            f"the request is not valid HTTP/1.1, or its headers have more than {HEAD_BYTES:,} "
            "bytes, or its body has too many small chunks",
        )
        body = json.dumps(problem.body()).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
        response = h11.Response(
            status_code=problem.status_code, headers=[*headers, ("connection", "close")]
        )
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def linger(self) -> None:
        """Give a client that still sends time to read the response."""
        self._expect(LINGER_SECONDS)
        self._pool.idle[self] = None
        if self.busy:  # nobody needs the rest of the body
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def shutdown(self) -> None:
        """Close the connection because the server stops."""
        if isinstance(self.transport, LingeringTransport) and self.transport.lingers:
            self.abort()
        else:
            super().shutdown()

    def pause_writing(self) -> None:
        """Start to watch a client that reads slower than the server writes."""
        super().pause_writing()
        self._watch_reading(None)

    def resume_writing(self) -> None:
        """Stop watching a client that has read everything."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def abort(self) -> None:
        """Close the connection at once."""
        if self._link is not None:
            self._link.abort()

    def _expect(self, seconds: float | None) -> None:
        """Close the connection in this time unless a request arrives; None stops the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if seconds is not None:
            self._timer = self.loop.call_later(seconds, self._pool.drop, self, "timeout")

    def _watch_reading(self, unread: int | None) -> None:
        """Close the connection if the client has read nothing since `unread` bytes were left."""
        left = self.transport.get_write_buffer_size()
        if unread is not None and left >= unread:
            self._pool.drop(self, "stalled")
            return
        seconds = self._limits.stall_seconds
        self._stalled = self.loop.call_later(seconds, self._watch_reading, left)
