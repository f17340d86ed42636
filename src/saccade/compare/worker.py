"""A training of a comparison in a process of its own.

So its memory is its own, its speed does not depend on what was trained before it, and whatever ends
it (no memory left, a kill) ends it alone.
"""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict

from saccade.compare.trainings import Job, perform
from saccade.errors import SaccadeError, StoppedError, TrainingError
from saccade.training.interruption import Interruption

PATIENCE = 30.0
"""Seconds that a child has to save and leave."""
STOPPED = 130


def in_child(job: Job, notify: Callable[[str], None]) -> None:
    """Perform the job in a child; `say` gets the lines that it writes."""
    child = subprocess.Popen(
        [sys.executable, "-m", __package__, json.dumps(asdict(job))],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,  # Ctrl-C reaches it once, from here
    )
    assert child.stderr is not None
    last: deque[str] = deque(maxlen=1)
    try:
        for line in child.stderr:
            notify(line.rstrip("\n"))
            last.extend([line.strip()] if line.strip() else [])
        code = child.wait()
    except KeyboardInterrupt:
        child.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            _, said = child.communicate(timeout=PATIENCE)
            notify(said.rstrip("\n"))
        raise
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        child.stderr.close()
    if code:
        raise TrainingError(_reason(code, "".join(last)))


def _reason(code: int, said: str) -> str:
    if code < 0:
        return f"its process was ended by signal {-code}; perhaps there was too little memory"
    return said.removeprefix("error: ") or f"its process ended with code {code}"


def main() -> None:
    """The child: does the job that its argument holds; an error is its last line on stderr."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    try:
        with Interruption():
            perform(Job(**json.loads(sys.argv[1])))
    except StoppedError as error:
        print(error, file=sys.stderr)
        sys.exit(STOPPED)
    except (SaccadeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
