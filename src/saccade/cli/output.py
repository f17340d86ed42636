"""Output of predict and evaluate: predictions as lines, scores, and a progress bar."""

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO

import typer

from saccade.errors import DataError, DiskFullError

if TYPE_CHECKING:
    from saccade.metrics.score import MetricScore
    from saccade.training.console import Counting

PERCENT = {
    "accuracy",
    "balanced_accuracy",
    "exact_match",
    "pointing",
    "span_precision",
    "span_recall",
}
"""Metrics that are fractions and printed as per cent, beside F1 scores and error rates."""


class LineWriter:
    """Writer of lines to a file, or to stdout in UTF-8 whatever the terminal's locale is.

    Used as a context manager, which opens and closes the file.

    Args:
        path: File to write; None writes to stdout.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    def __enter__(self) -> "LineWriter":
        try:
            self._file: BinaryIO = (
                sys.stdout.buffer if self._path is None else self._path.open("wb")
            )
        except OSError as error:
            raise DataError(
                f"{self._path} cannot be written: {error.strerror}. Choose a file in a folder that "
                "exists and is writable"
            ) from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        from saccade.files import disk_full

        errors = [error]
        if self._path is not None:
            try:
                self._file.close()
            except OSError as late:
                errors.append(late)
        if any(isinstance(one, OSError) and disk_full(one) for one in errors):
            raise DiskFullError(
                errno.ENOSPC,
                f"the disk is full; {self._path or 'the output'} is incomplete. Free some space "
                "and run the command again",
            ) from None

    def write(self, text: str, *, keep_lines: bool = False) -> None:
        """Write one line; line breaks inside the text become spaces unless `keep_lines` is set."""
        text = text if keep_lines else re.sub(r"[\r\n]+", " ", text)
        self._file.write(text.encode("utf-8", "replace") + b"\n")

    def flush(self) -> None:
        """Write what is buffered, for readers of a pipe."""
        self._file.flush()


class PredictionProgress:
    """Progress bar that counts predicted inputs.

    Args:
        bar: Bar to update; None if none is shown.
        total: Number of inputs, if it is known; the count never exceeds it.
    """

    def __init__(self, bar: "Counting | None", total: int | None) -> None:
        self._bar, self._count, self._total = bar, 0, total

    def __call__(self, count: int) -> None:
        """Add a batch of inputs."""
        after = self._count + count
        self.set(after if self._total is None else min(after, self._total))

    def set(self, count: int) -> None:
        """Set the count, which includes blank inputs."""
        self._count = count
        if self._bar is not None:
            self._bar.to(count)


@contextmanager
def prediction_progress(
    *, shown: bool = True, total: int | None = None
) -> Iterator[PredictionProgress]:
    """Show a progress bar on stderr, if that is a terminal and `shown` is true."""
    if not shown:
        yield PredictionProgress(None, total)
        return
    from saccade.training.console import Console

    with Console().counting("predicted:", total) as bar:
        yield PredictionProgress(bar, total)


def print_score(score: "MetricScore", indent: str = "") -> None:
    """Print a score: its value and 95 % confidence interval, then its signature in grey.

    Fractions that people read as per cent are printed so: accuracy 61.0 % [55.7, 66.7].
    """
    words = score.name.split("_")
    percent = score.name in PERCENT or "rate" in words or words[-1] == "f1"
    scale, form = (100, ".1f") if percent else (1, ".4g")
    line = f"{indent}{score.name} {scale * score.value:{form}}{' %' if percent else ''}"
    if score.interval is not None:
        low, high = score.interval
        line += f" [{scale * low:{form}}, {scale * high:{form}}]"
    signature = typer.style(score.signature, dim=True)
    typer.echo(f"{line}  {signature}", color=False if "NO_COLOR" in os.environ else None)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: 1 item, 1,200 items."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size_text(count: int) -> str:
    """Return a number of bytes for people: 87 B, 1.2 MB.

    Examples:
        >>> size_text(1_234_567)
        '1.2 MB'
    """
    size, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:.0f} B" if units[0] == "B" else f"{size:.1f} {units[0]}"
