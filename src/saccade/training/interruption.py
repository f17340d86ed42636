"""Ctrl-C and SIGTERM ask the loop to save and leave; it answers at the next safe point."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType

from saccade.errors import StoppedError


class Interruption:
    """Listens for SIGINT and SIGTERM in a `with` block. A second Ctrl-C leaves at once."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def check(self) -> None:
        """Leave what can be done again, such as a validation, if somebody asked."""
        if self.asked:
            raise StoppedError("stopped")

    def error(self, folder: Path, step: int) -> StoppedError:
        """What ends the loop after the checkpoint is written."""
        return StoppedError(f"stopped at step {step}; everything is saved in {folder}")

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True
