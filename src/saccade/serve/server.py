"""Server process: its socket, its signals, and a shutdown that lets running requests finish."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import cast

import uvicorn

from saccade.errors import ServeError
from saccade.serve.connections import HEAD_BYTES, Connection, ConnectionPool
from saccade.serve.limits import RequestLimits
from saccade.serve.logs import log_event
from saccade.serve.middleware import RequestMiddleware

BACKLOG = 2048
"""Connections that the system keeps until they are accepted."""
ACCEPT = 64
"""Connections that are accepted in one round of the event loop."""
OPEN_FILES = 1024
"""Open files of a process, where the system does not report a limit."""
CLOSE_SECONDS = 2.0
"""Time for the threads of models to end after the last request."""
SWITCH_SECONDS = 0.001
"""Time that a thread may run Python code before another one may, such as the one that sends 429."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address; port 0 selects any free port.

    Raises:
        ServeError: The address or port cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except (OSError, OverflowError) as error:
        sock.close()
        reason = getattr(error, "strerror", None) or error
        raise ServeError(
            f"cannot listen at {host}, port {port}: {reason}. Choose another --port (0 selects a "
            "free one) or --host"
        ) from None
    return sock


def open_files() -> int:
    """Return how many files this process may have open."""
    try:
        import resource
    except ImportError:  # Windows
        return OPEN_FILES
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**20 if soft == resource.RLIM_INFINITY else soft


def configure(middleware: RequestMiddleware, limits: RequestLimits) -> uvicorn.Config:
    """Return the configuration of uvicorn: h11 and asyncio, whatever else is installed.

    Half of the files that the process may open are for connections, an eighth for those that are
    being accepted or closed: asyncio needs four rounds from one to the other, and in each of
    them it accepts `backlog` connections.
    """
    files = open_files()
    pool = ConnectionPool(min(limits.connections, files // 2), limits, middleware.metrics)
    return uvicorn.Config(
        middleware,
        http=cast(type[asyncio.Protocol], partial(Connection, pool=pool)),
        loop="asyncio",
        h11_max_incomplete_event_size=HEAD_BYTES,
        timeout_keep_alive=cast(int, limits.idle_seconds),
        log_config=None,
        access_log=False,
        ws="none",
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        backlog=min(ACCEPT, max(1, files // 32)),
        timeout_graceful_shutdown=max(1, round(limits.grace_seconds)),
    )


def serve(
    middleware: RequestMiddleware,
    sock: socket.socket,
    limits: RequestLimits,
    on_start: Callable[[], None],
) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish the running requests.

    Args:
        middleware: Application to serve.
        sock: Socket to listen at.
        limits: Limits of the server.
        on_start: Called once the server accepts connections.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    server = Server(configure(middleware, limits), middleware, on_start)
    server.run(sockets=[sock])
    log_event("ended")
    if not middleware.models.close(CLOSE_SECONDS):
        # a thread computes for nobody; it cannot be stopped, and Python would wait for it
        sys.stderr.flush()
        os._exit(0)


class Server(uvicorn.Server):
    """Server that drains on a signal and exits with code 0.

    Args:
        config: Configuration of uvicorn.
        middleware: Application to serve.
        on_start: Called once the server accepts connections.
    """

    def __init__(
        self, config: uvicorn.Config, middleware: RequestMiddleware, on_start: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._middleware, self._on_start = middleware, on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        for sock in sockets or ():
            sock.listen(BACKLOG)  # uvicorn has one number for this and for accepting
        self._on_start()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain on the first signal; exit at once on a second Ctrl-C."""
        self._middleware.models.draining = True
        super().handle_exit(sig, frame)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals; unlike uvicorn's own method, do not raise them again afterwards."""
        before = {
            number: signal.signal(number, self.handle_exit)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
