"""Measurements of a run: metrics.jsonl and, if the package is installed, TensorBoard.

Events are written one by one by tensorboard's own record writer. torch's SummaryWriter leaves that
to a thread, which cannot tell the loop that the disk is full.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from saccade.files import disk_errors
from saccade.training.run import Run


class MetricLog:
    """The measurements of a run.

    Args:
        run: the run folder that they are written to.
        step: the step that the run is resumed from, or 0.
    """

    def __init__(self, run: Run, step: int) -> None:
        self._run, self._step = run, step
        self._board: Board | None = None
        self._opened = False

    def note(self, record: Mapping[str, object]) -> None:
        """Add the measurements of a step: `record` holds the step, and numbers by name."""
        self._run.note(record)
        if not self._opened:  # only now, since a finished run writes nothing
            self._opened = True
            self._board = open_board(self._run, self._step)
        if self._board is not None:
            self._board.note(record)

    def close(self) -> None:
        """Close the file of events, if one was opened."""
        if self._board is not None:
            self._board.close()


def open_board(run: Run, step: int) -> Board | None:
    """Return a new file of events for the steps after `step`; None without tensorboard."""
    try:
        return Board(run, step)
    except ImportError:
        return None


class Board:
    """A file of TensorBoard events, which replaces what older files hold of later steps."""

    def __init__(self, run: Run, step: int) -> None:
        events = import_module("tensorboard.compat.proto.event_pb2")
        records = import_module("tensorboard.summary.writer.record_writer")
        self._event = events.Event
        self._summary = import_module("tensorboard.compat.proto.summary_pb2").Summary
        self._path = run.folder / "tensorboard" / f"events.out.tfevents.{time.time_ns()}"
        with disk_errors(self._path):
            self._path.parent.mkdir(exist_ok=True)
            self._file = self._path.open("xb")
        self._writer = records.RecordWriter(self._file)
        self._write(file_version="brain.Event:2")
        if step:
            start = events.SessionLog(status=events.SessionLog.START)
            self._write(step=step + 1, session_log=start)

    def note(self, record: Mapping[str, object]) -> None:
        """Add the finite numbers of a record."""
        values = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in record.items()
            if name != "step" and isinstance(value, int | float) and math.isfinite(value)
        ]
        self._write(step=record["step"], summary=self._summary(value=values))

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # a full disk was reported when it was written
            self._file.close()

    def _write(self, **event: Any) -> None:
        with disk_errors(self._path):
            self._writer.write(self._event(wall_time=time.time(), **event).SerializeToString())
            self._writer.flush()
