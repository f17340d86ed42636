"""The process: an address, signals, and an end that lets running work finish."""

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
from saccade.serve.connections import HEAD_BYTES, Connection, Pool
from saccade.serve.limits import Limits
from saccade.serve.logs import note
from saccade.serve.middleware import Gate

BACKLOG = 2048
"""Connections that the system keeps until they are accepted."""
ACCEPT = 64
"""Connections that are accepted at once."""
FILES = 1024
"""Open files of a process, where the system does not tell."""
CLOSING = 2.0
"""Seconds for threads to end when nobody waits for them any more."""
SWITCH = 0.001
"""Seconds that a thread may compute in Python before another one may, such as the one that says
that there is no room."""


def listen(host: str, port: int) -> socket.socket:
    """A socket at this address; port 0 takes any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except (OSError, OverflowError) as error:
        sock.close()
        reason = getattr(error, "strerror", None) or error
        raise ServeError(f"cannot listen at {host}, port {port}: {reason}") from None
    return sock


def open_files() -> int:
    """Return how many files this process may have open."""
    try:
        import resource
    except ImportError:  # Windows
        return FILES
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**20 if soft == resource.RLIM_INFINITY else soft


def configure(gate: Gate, limits: Limits) -> uvicorn.Config:
    """Return the configuration of uvicorn: h11 and asyncio, whatever else is installed.

    Of the files that the process may open, half are for connections and an eighth for those that
    are accepted or closed at the moment: asyncio needs four rounds from one to the other, and in
    each of them it accepts `backlog` connections.
    """
    files = open_files()
    pool = Pool(min(limits.connections, files // 2), limits, gate.measures)
    return uvicorn.Config(
        gate,
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
        timeout_graceful_shutdown=max(1, round(limits.grace)),
    )


def serve(gate: Gate, sock: socket.socket, limits: Limits, notify: Callable[[], None]) -> None:
    """Answer until SIGTERM or Ctrl-C, then finish what has begun; `say` is called at first."""
    sys.setswitchinterval(SWITCH)
    server = Server(configure(gate, limits), gate, notify)
    server.run(sockets=[sock])
    note("ended")
    if not gate.models.close(CLOSING):
        # a thread computes for nobody; it cannot be stopped, and Python would wait for it
        sys.stderr.flush()
        os._exit(0)


class Server(uvicorn.Server):
    """Ends with 0 when told to, and takes no work from then on."""

    def __init__(self, config: uvicorn.Config, gate: Gate, notify: Callable[[], None]) -> None:
        super().__init__(config)
        self._gate, self._say = gate, notify

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        for sock in sockets or ():
            sock.listen(BACKLOG)  # uvicorn has one number for this and for accepting
        self._say()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Told to end; told again by Ctrl-C, at once."""
        self._gate.ending = True
        super().handle_exit(sig, frame)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Hear signals; unlike the original, do not raise them again afterwards."""
        heard = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in heard}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
