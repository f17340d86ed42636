"""Several processes, also of several machines, that share out the training runs of a comparison.

.join/N/              the N-th time that processes worked on the comparison together
.join/N/session.json  what they compare
.join/N/NAME-SEED.K   leases of the training runs
.join/N/page.K        leases of the pages, which are written last

A session is over when its pages are written. The next call begins another one, which tries failed
training runs again.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from saccade.compare.leases import Leases, Record
from saccade.errors import RunError
from saccade.files import disk_errors, read_json, write_file
from saccade.lens.formatting import readable_json

FOLDER, SESSION, PAGE = ".join", "session.json", "page"
KEPT = "all training runs are kept"
MAX_POLL = 5.0
"""Seconds between two looks at what others hold."""

Terms = Mapping[str, object]
"""Recipes, data and budget, which all processes of a session have in common."""


def join(folder: Path, terms: Terms) -> Path:
    """Return the folder of the session to work in: the unfinished one, or else a new one.

    Args:
        folder: The folder of the comparison.
        terms: The recipes, the data and the budget of this process.

    Raises:
        RunError: If the unfinished session has other terms.
    """
    while True:
        number = _newest(folder)
        session = _session(folder, number)
        if number and not _is_over(session):
            _require_same(session, terms)
            return session
        if _create(folder, number + 1, terms):
            for old in range(1, number):  # others may still look at the newest one
                shutil.rmtree(_session(folder, old), ignore_errors=True)


def unfinished(folder: Path) -> Path | None:
    """Return the session of a comparison that has not been completed, if there is one."""
    number = _newest(folder)
    session = _session(folder, number)
    return session if number and not _is_over(session) else None


def holder(record: Record | None) -> str:
    """Return the name of a holder for people: HOST, process PID."""
    host, _, process = (record.holder if record else "").rpartition(":")
    return f"{host}, process {process.partition('-')[0]}" if host else "another process"


def poll_seconds(leases: Leases) -> float:
    """Return how long to wait before looking again at what others hold."""
    return min(MAX_POLL, leases.seconds / 10)


def once(leases: Leases, name: str, work: Callable[[], None]) -> None:
    """Do a piece of work unless another process does; return when it is done."""
    while (record := leases.read(name)) is None or record.state != "done":
        if (lease := leases.take(name)) is None:
            time.sleep(poll_seconds(leases))
            continue
        with lease:
            work()
            lease.conclude("done")


def _newest(folder: Path) -> int:
    with suppress(FileNotFoundError):
        names = os.listdir(folder / FOLDER)
        return max((int(name) for name in names if name.isdecimal()), default=0)
    return 0


def _session(folder: Path, number: int) -> Path:
    return folder / FOLDER / str(number)


def _is_over(session: Path) -> bool:
    record = Leases(session).read(PAGE)
    return record is not None and record.state == "done"


def _create(folder: Path, number: int, terms: Terms) -> bool:
    """Create a session with its terms; return false if another process was faster."""
    partial = folder / FOLDER / f".{uuid.uuid4().hex}"
    session = _session(folder, number)
    with disk_errors(session, KEPT):
        partial.mkdir(parents=True)
        write_file(partial / SESSION, readable_json(dict(terms)).encode(), KEPT)
        try:
            os.rename(partial, session)  # fails if there is a folder that is not empty
        except OSError:
            shutil.rmtree(partial, ignore_errors=True)
            if not session.is_dir():
                raise
            return False
    return True


def _require_same(session: Path, terms: Terms) -> None:
    try:
        others = read_json(session / SESSION)
        changed = [name for name in terms if others[name] != terms[name]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{session / SESSION} is damaged ({error}); stop all processes of this comparison, "
            f"remove {session.parent} and start them again"
        ) from None
    if changed:
        raise RunError(
            f"the processes that work on {session.parent.parent} compare something else: "
            f"{', '.join(changed)} {'differs' if len(changed) == 1 else 'differ'}. Join with the "
            f"same command as theirs, or, if none of them is running any more, remove "
            f"{session.parent}"
        )
