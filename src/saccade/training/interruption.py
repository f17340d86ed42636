"""Ctrl-C and SIGTERM: what can be repeated stops at once, the training loop saves first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType

from saccade.cancellation import Cancelled, cancellable
from saccade.errors import StoppedError


class Interruption:
    """Listen for SIGINT and SIGTERM in a `with` block, which then ends with a StoppedError.

    A signal leaves the block at once. Inside `heeded` it only sets `requested`, for a loop that
    looks at it and saves; a second Ctrl-C leaves that, too. A second SIGTERM does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._heeded = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        if kind is KeyboardInterrupt and self.requested:
            raise StoppedError("stopped; everything saved before is kept") from None

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Do not leave the block on a signal: it looks at `requested` by itself."""
        self._heeded = True
        try:
            yield
        finally:
            self._heeded = False

    @contextmanager
    def cancelling(self) -> Iterator[None]:
        """Cancel the block on a signal; for work that can be repeated, such as a validation."""
        try:
            with cancellable(lambda: self.requested):
                yield
        except Cancelled:
            raise StoppedError("stopped") from None

    def error(self, folder: Path, step: int) -> StoppedError:
        """Return the error that ends the loop after the checkpoint is written."""
        return StoppedError(f"stopped at step {step}; everything is saved in {folder}")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        again, self.requested = self.requested, True
        if again and number == signal.SIGTERM:
            return  # launchers send it to all processes when one has ended
        if not self._heeded or (again and number == signal.SIGINT):
            raise KeyboardInterrupt  # which no `except Exception` on the way can swallow
