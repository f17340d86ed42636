"""Training progress on the console: a bar on a terminal, a line now and then in a log.

In a notebook a bar is one output that is updated in place.
"""

from __future__ import annotations

import io
import signal
import threading
import time
import uuid
from collections import deque
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rich import console as rich_console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saccade.training.progress import TrainingProgress, Update, Validation
    from saccade.training.recipe import TrainingConfig

NOTEBOOK_EVERY = 0.2
"""Seconds between updates of a bar in a notebook."""
NOTEBOOK_WIDTH = 120
"""Characters of a bar in a notebook."""
LINES_EVERY = 30.0
"""Seconds between lines without a terminal."""
SILENCE = 2.0
"""Seconds of work after which the first line is printed without a terminal."""
ESTIMATED, LONG = 10.0, 900.0
"""Seconds of updates after which the time of all steps is known, and from which on it is long."""
WINDOW = 50
"""Updates over which the speed is averaged."""
NOT_METRICS = ("step", "epoch", "seconds", "train_loss", "valid_loss")
"""Names in the record of a validation that are printed in their own way."""


class Console:
    """Messages and progress bars on stderr.

    Args:
        quiet: print nothing.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.console = rich_console.Console(stderr=True, quiet=quiet, highlight=False)

    def notify(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, markup=False, soft_wrap=True)

    def counting(self, label: str, total: int | None = None) -> Counting:
        """Return a bar that counts something, such as rows."""
        columns = BarColumn(bar_width=24), TextColumn("{task.completed:,.0f}")
        return Counting(self.console, label, columns, total)

    def working(self, label: str) -> Counting:
        """Return a sign of work that has nothing to count, such as "loading runs/en-de"."""
        return Counting(self.console, label, (SpinnerColumn(), TimeElapsedColumn()))

    def training(
        self, progress: TrainingProgress, config: TrainingConfig, unit: str = "tokens"
    ) -> TrainingBar:
        """Return the bar of a training that continues from `progress`.

        Args:
            progress: how far it has come.
            config: its budget.
            unit: what it predicts, in the plural.
        """
        if progress.step:
            self.notify(f"resuming from step {progress.step}")
        return TrainingBar(self, progress, config, unit)


class TrainingBar:
    """The progress of training; see `Console.training`."""

    def __init__(
        self, console: Console, progress: TrainingProgress, config: TrainingConfig, unit: str
    ) -> None:
        self._console, self._config, self._unit = console, config, unit
        self._recent: deque[tuple[float, int, float]] = deque(maxlen=WINDOW)
        self._last_line = time.monotonic()
        self._estimated = config.minutes is not None
        self._bar = _bar_on(
            console.console,
            SpinnerColumn(),
            TextColumn("step {task.fields[step]}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[status]}"),
            TimeRemainingColumn(compact=True),
        )
        self._row = self._bar.add_task("", total=1.0, step=progress.step, status="")

    def __enter__(self) -> TrainingBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def updated(self, progress: TrainingProgress, update: Update) -> float:
        """Show an update; return the speed in predictions per second."""
        now = time.monotonic()
        self._recent.append((now, update.predictions, update.loss))
        seconds = now - self._recent[0][0]
        predictions = sum(count for _, count, _ in list(self._recent)[1:])
        speed = predictions / seconds if seconds > 0 else 0.0
        loss = sum(loss for *_, loss in self._recent) / len(self._recent)
        status = f"loss {loss:.3f} · {speed:,.0f} {self._unit}/s"
        fraction = min(1.0, progress.fraction(self._config))
        self._bar.update(self._row, completed=fraction, step=progress.step, status=status)
        left = progress.seconds * (1 - fraction) / fraction if fraction else 0.0
        if not self._estimated and progress.seconds > ESTIMATED:
            self._estimated = True
            if left > LONG:
                self._console.notify(
                    f"all {self._config.max_steps:,} steps will take about {_duration(left)} more; "
                    "--minutes 10 sets a shorter budget, and Ctrl-C saves the run at any time"
                )
        if self._bar.disable and now - self._last_line > LINES_EVERY:
            self._last_line = now
            self._console.notify(
                f"step {progress.step} · {fraction:.0%} · {status} · {_duration(left)} left"
            )
        return round(speed, 1)

    def validated(self, validation: Validation) -> None:
        """Show a validation."""
        record = validation.record
        parts = [
            f"step {record['step']}",
            f"epoch {record['epoch']:.1f}",
            _duration(record["seconds"]),
            f"train loss {record['train_loss']:.3f}",
            f"valid loss {record['valid_loss']:.3f}",
            *(f"{name} {value:.4g}" for name, value in record.items() if name not in NOT_METRICS),
        ]
        if validation.better:
            parts.append("best so far")
        self._console.notify(" · ".join(parts))


class Counting:
    """A bar that counts; `to` sets the count inside its `with` block.

    Without a terminal, a line is printed after `SILENCE` seconds, then every `LINES_EVERY`.
    """

    def __init__(
        self,
        console: rich_console.Console,
        label: str,
        columns: Sequence[ProgressColumn],
        total: int | None = None,
    ) -> None:
        self._console, self._label = console, label
        self._count: int | None = None
        self._ended = threading.Event()
        self._bar = _bar_on(
            console,
            TextColumn(label, markup=False),
            *columns,
        )
        self._row = self._bar.add_task("", total=total)

    def __enter__(self) -> Counting:
        self._bar.start()
        if self._bar.disable and not self._console.quiet:
            _start_without_signals(threading.Thread(target=self._print_lines, daemon=True))
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._bar.stop()

    def to(self, count: int) -> None:
        """Set the count."""
        self._count = count
        self._bar.update(self._row, completed=count)

    def _print_lines(self) -> None:
        seconds = SILENCE
        while not self._ended.wait(seconds):
            count = "" if self._count is None else f" {self._count:,}"
            # without a count, "reading the data" of "reading the data, rows:"
            line = f"{self._label}{count}" if count else self._label.split(",")[0].removesuffix(":")
            self._console.print(line, markup=False, soft_wrap=True)
            seconds = LINES_EVERY


def _start_without_signals(thread: threading.Thread) -> None:
    """Start a thread that receives no signal, so that Ctrl-C interrupts the main thread at once."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        thread.start()
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        thread.start()  # it inherits the mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class NotebookBar(Progress):
    """A bar in a notebook: one output of the cell, which is updated in place and removed at last.

    rich itself would need ipywidgets for that.
    """

    def __init__(self, *columns: ProgressColumn) -> None:
        super().__init__(
            *columns,
            console=rich_console.Console(
                file=io.StringIO(), width=NOTEBOOK_WIDTH, force_jupyter=False, color_system=None
            ),
            auto_refresh=False,
        )
        self._notebook = import_module("IPython.display")
        self._shown, self._output = 0.0, ""

    def start(self) -> None:
        """Show the bar."""
        self._output = uuid.uuid4().hex
        self._notebook.display(self._data(), raw=True, display_id=self._output)

    def stop(self) -> None:
        """Remove the bar."""
        self._notebook.update_display({"text/plain": ""}, raw=True, display_id=self._output)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Change the state, and show it unless that was done a moment ago."""
        super().update(*args, **kwargs)
        if (now := time.monotonic()) - self._shown > NOTEBOOK_EVERY:
            self._shown = now
            self._notebook.update_display(self._data(), raw=True, display_id=self._output)

    def _data(self) -> dict[str, str]:
        with self.console.capture() as capture:
            self.console.print(self.make_tasks_table(self.tasks), end="")
        return {"text/plain": capture.get().strip()}


def _bar_on(console: rich_console.Console, *columns: ProgressColumn) -> Progress:
    """Return a bar for a terminal or a notebook; elsewhere it shows nothing."""
    if console.is_jupyter and not console.quiet:
        return NotebookBar(*columns)
    disable = not console.is_terminal or console.quiet
    return Progress(*columns, console=console, transient=True, disable=disable)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
