"""One training of a comparison in a process of its own.

Its memory is its own, its speed does not depend on what was trained before, and whatever ends it
(out of memory, a kill) ends nothing else. If the process that started it ends, it saves and exits.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from saccade.compare.training_job import TrainingJob, perform
from saccade.errors import SaccadeError, StoppedError, TrainingError
from saccade.training.interruption import Interruption

GRACE_SECONDS = 30.0
"""Time for an interrupted worker to save and exit."""
WATCH_SECONDS = 1.0
"""Seconds between two looks at whether another process has taken the training over."""
STOPPED, SUPERSEDED = 130, 75


def perform_in_worker(job: TrainingJob, notify: Callable[[str], None]) -> None:
    """Perform the job in a worker process; `notify` gets the lines that it prints.

    Raises:
        TrainingError: If the worker fails or is killed; the message is its last line.
        SupersededError: If another process has taken the training over.
    """
    worker = subprocess.Popen(
        [sys.executable, "-m", __package__, json.dumps(asdict(job))],
        stdin=subprocess.PIPE,  # never written: it closes when this process ends, however it does
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,  # Ctrl-C reaches it once, from here
    )
    assert worker.stderr is not None
    alive, worker.stdin = worker.stdin, None  # which `communicate` would close
    assert alive is not None
    last: deque[str] = deque(maxlen=1)
    try:
        for line in worker.stderr:
            notify(line.rstrip("\n"))
            last.extend([line.strip()] if line.strip() else [])
        code = worker.wait()
    except KeyboardInterrupt:
        worker.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            _, output = worker.communicate(timeout=GRACE_SECONDS)
            notify(output.rstrip("\n"))
        raise
    finally:
        if worker.poll() is None:
            worker.kill()
            worker.wait()
        worker.stderr.close()
        alive.close()
    if code == SUPERSEDED:
        raise SupersededError("another process has taken this training over and continues it")
    if code:
        raise TrainingError(_reason(code, "".join(last)))


class SupersededError(TrainingError):
    """Raised if another process has taken a training over, because this one looked dead."""


def _reason(code: int, last_line: str) -> str:
    if code < 0:
        return f"its process was ended by signal {-code}; the machine may be out of memory"
    return last_line.removeprefix("error: ") or f"its process ended with code {code}"


def main() -> None:
    """Perform the job in the first argument; an error is the last line on stderr."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    job = TrainingJob(**json.loads(sys.argv[1]))
    try:
        with Interruption():
            threading.Thread(target=_end_with_parent, daemon=True).start()
            if job.successor is not None:
                watched = (Path(job.successor),)
                threading.Thread(target=_end_when_superseded, args=watched, daemon=True).start()
            perform(job)
    except StoppedError as error:
        print(error, file=sys.stderr)
        sys.exit(STOPPED)
    except (SaccadeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def _end_with_parent() -> None:
    """Save and exit when stdin closes, which the process that started this one holds open."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(GRACE_SECONDS)
    os._exit(STOPPED)


def _end_when_superseded(successor: Path) -> None:
    """Exit without saving when another process has taken the training over."""
    while not successor.exists():
        threading.Event().wait(WATCH_SECONDS)
    os._exit(SUPERSEDED)
