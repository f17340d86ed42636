"""What people see of a training: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich import console as rich_console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from saccade.tasks import Evaluation
    from saccade.training import loop
    from saccade.training.recipe import TrainingConfig

LINES_EVERY = 30.0
"""Seconds between lines where there is no terminal."""
WINDOW = 50
"""Updates over which the speed is averaged."""


class Console:
    """Progress on stderr; `quiet` shows nothing."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.console = rich_console.Console(stderr=True, quiet=quiet, highlight=False)
        self._bar: Progress | None = None
        self._recent: deque[tuple[float, int, float]] = deque(maxlen=WINDOW)
        self._said = time.monotonic()

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def notify(self, text: str) -> None:
        """A line for people."""
        self.console.print(text, markup=False, soft_wrap=True)

    def counting(self, what: str, total: int | None = None) -> Counting:
        """A bar for something that is counted, such as rows read."""
        return Counting(self.console, what, total)

    def begin(self, progress: loop.Progress, config: TrainingConfig, unit: str = "tokens") -> None:
        """Show a training that goes from here to its budget's end; `unit` is what it predicts."""
        self._config, self._unit = config, unit
        if progress.step:
            self.notify(f"going on from step {progress.step}")
        if self.console.is_terminal:
            self._bar = Progress(
                SpinnerColumn(),
                TextColumn("step {task.fields[step]}"),
                BarColumn(bar_width=24),
                TextColumn("{task.percentage:>3.0f} %"),
                TextColumn("{task.fields[told]}"),
                TimeRemainingColumn(compact=True),
                console=self.console,
                transient=True,
            )
            self._row = self._bar.add_task("", total=1.0, step=progress.step, told="")
            self._bar.start()

    def updated(self, progress: loop.Progress, update: loop.Update) -> float:
        """Show an update; gives the speed in predictions a second."""
        now = time.monotonic()
        self._recent.append((now, update.predictions, update.loss))
        seconds = now - self._recent[0][0]
        tokens = sum(count for _, count, _ in list(self._recent)[1:])
        speed = tokens / seconds if seconds > 0 else 0.0
        loss = sum(loss for *_, loss in self._recent) / len(self._recent)
        told = f"loss {loss:.3f} · {speed:,.0f} {self._unit}/s · padding {update.padding:.0%}"
        share = min(1.0, progress.share(self._config))
        if self._bar is not None:
            self._bar.update(self._row, completed=share, step=progress.step, told=told)
        elif now - self._said > LINES_EVERY:
            self._said = now
            left = progress.seconds * (1 - share) / share if share else 0.0
            self.notify(f"step {progress.step} · {share:.0%} · {told} · {_duration(left)} left")
        return round(speed, 1)

    def validated(
        self, record: Mapping[str, Any], evaluation: Evaluation | None, *, better: bool
    ) -> None:
        """Show a validation."""
        scores = {} if evaluation is None else evaluation.values()
        told = " · ".join(f"{name} {value:.4g}" for name, value in scores.items())
        mark = " · best so far" if better else ""
        self.notify(
            f"step {record['step']} · epoch {record['epoch']:.1f} · {_duration(record['seconds'])}"
            f" · train loss {record['train_loss']:.3f} · valid loss {record['valid_loss']:.3f}"
            + (f" · {told}" if told else "")
            + mark
        )


class Counting:
    """A bar that counts, as a context whose `to` is called with the number so far."""

    def __init__(self, console: rich_console.Console, what: str, total: int | None) -> None:
        self._bar = Progress(
            TextColumn(what),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:,.0f}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._row = self._bar.add_task("", total=total)

    def __enter__(self) -> Counting:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def to(self, count: int) -> None:
        """Show that it has come this far."""
        self._bar.update(self._row, completed=count)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
