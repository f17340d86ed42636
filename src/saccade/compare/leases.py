"""Leases: files by which several processes and machines share out work, each piece to one of them.

A lease of a piece of work is a file NAME.N in a shared folder, where N counts its holders. To take
the work over is to create NAME.N+1, which succeeds for exactly one process. No lease is ever
removed, renamed or written by another process, so nobody can end the lease of somebody else.

Its holder changes the file's content at regular intervals. Others only observe whether it changes,
for how long by their own clock: the clocks of the machines need not agree.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal

from saccade.files import disk_errors

State = Literal["held", "free", "done", "failed"]

SECONDS = 120.0
"""Seconds without a heartbeat after which a holder counts as dead; above the 60 seconds for which
network file systems may show old content, and above the 30 in which an orphaned training saves."""
BEATS = 8
"""Heartbeats in that time."""


@dataclass(frozen=True)
class Record:
    """The content of a lease.

    holder   the process, as HOST:PID-RANDOM
    state    "held", "free" (given back), "done" or "failed"
    reason   why it failed
    beat     number of heartbeats so far
    """

    holder: str
    state: State = "held"
    reason: str = ""
    beat: int = 0

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        return json.dumps(vars(self), ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Record:
        """Return the record; one of an unknown holder if the file is being written."""
        try:
            return cls(**json.loads(content))
        except (ValueError, TypeError):
            return cls("an unknown process")


@dataclass
class Leases:
    """The leases in a folder, as seen by one process.

    Args:
        folder: The shared folder, which must exist.
        seconds: Seconds without a heartbeat after which a holder counts as dead.
        clock: Returns the seconds of a clock that only this process reads.
        holder: The name of this process for the others.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> mine, theirs = Leases(folder), Leases(folder)
        >>> with mine.take("job") as lease:
        ...     print(theirs.take("job"))
        ...     lease.conclude("done")
        None
        >>> theirs.read("job").state
        'done'
    """

    folder: Path
    seconds: float = SECONDS
    clock: Callable[[], float] = time.monotonic
    holder: str = field(
        default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}-{uuid.uuid4().hex[:8]}"
    )
    _observed: dict[Path, tuple[bytes, float]] = field(default_factory=dict, init=False)

    def read(self, name: str) -> Record | None:
        """Return the newest lease of a piece of work; None if nobody has taken it."""
        number = self._newest(name)
        return Record.from_bytes(self._content(self._path(name, number))) if number else None

    def take(self, name: str) -> Lease | None:
        """Take a piece of work; None if it is done, has failed, or has a holder that is alive."""
        number = self._newest(name)
        if number and not self._is_available(self._path(name, number)):
            return None
        path, successor = self._path(name, number + 1), self._path(name, number + 2)
        with disk_errors(path, "the leases of others are kept"):
            try:
                handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
            except FileExistsError:  # another process was faster
                return None
        return Lease(handle, Record(self.holder), successor, self.seconds / BEATS)

    def _is_available(self, path: Path) -> bool:
        content = self._content(path)
        match Record.from_bytes(content).state:
            case "free":
                return True
            case "done" | "failed":
                return False
        before, since = self._observed.get(path, (None, 0.0))
        if content != before:
            self._observed[path] = content, self.clock()
            return False
        return self.clock() - since >= self.seconds

    def _newest(self, name: str) -> int:
        number = 0
        while self._path(name, number + 1).exists():
            number += 1
        return number

    def _path(self, name: str, number: int) -> Path:
        return self.folder / f"{name}.{number}"

    def _content(self, path: Path) -> bytes:
        try:
            return path.read_bytes()  # opened again, which shows what other machines have written
        except OSError:
            return b""


class Lease:
    """A piece of work that this process holds; inside a `with` block heartbeats keep it.

    When the block ends, the lease has the outcome given to `conclude`; without one it is free.
    """

    def __init__(self, handle: int, record: Record, successor: Path, interval: float) -> None:
        self._handle = handle
        self._record, self._interval = record, interval
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_beating, daemon=True)
        self.successor = successor
        """The file that appears when another process takes the work over."""
        self._outcome: tuple[State, str] = ("free", "")
        self.beat()

    @property
    def lost(self) -> bool:
        """Whether another process has taken the work over."""
        return self.successor.exists()

    def beat(self) -> None:
        """Show that this process is alive."""
        self._write("held", "")

    def conclude(self, state: State, reason: str = "") -> None:
        """Set the outcome that the end of the block writes."""
        self._outcome = (state, reason)

    def __enter__(self) -> Lease:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._write(*self._outcome)
        os.close(self._handle)

    def _keep_beating(self) -> None:
        while not self._ended.wait(self._interval) and not self.lost:
            self.beat()

    def _write(self, state: State, reason: str) -> None:
        """Write into the open file, never by its name: a successor's lease is another file."""
        self._record = Record(self._record.holder, state, reason, self._record.beat + 1)
        with suppress(OSError):  # an outage that lasts too long looks like death, as it should
            content = self._record.to_bytes()
            os.lseek(self._handle, 0, os.SEEK_SET)
            os.write(self._handle, content)
            os.ftruncate(self._handle, len(content))
            os.fsync(self._handle)
