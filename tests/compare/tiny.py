"""Comparisons of tiny recipes, trained in this process."""

from pathlib import Path

import pytest

from saccade.compare import compare
from saccade.compare.training_job import perform
from saccade.lens.drawing.chart import Chart
from saccade.training import session as training
from saccade.training.console import Console
from tests.training.runs import prepare

QUICK = ("training.max_steps=6", "metrics.samples=100", "training.accumulate=1")
BOTH = ("looks={folder}/tiny.toml", "plain={folder}/tiny.toml")
PLAIN = "plain:model.decoder.attention=none"


def undrawn():
    """Leave charts undrawn, which would take most of the time of a page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Chart, "data_url", lambda chart, theme="light": f"data:,{theme}")
        yield


class RecordingConsole(Console):
    """A quiet console that keeps its messages."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.lines: list[str] = []

    def notify(self, text: str) -> None:
        self.lines.append(text)


def perform_here(job, notify):
    """Perform a job in this process."""
    perform(job, Console(quiet=True))


def place(folder: Path) -> Path:
    """Return the folder, filled with a recipe and data."""
    return prepare(folder)


def run(folder: Path, *recipes: str, changes=(), out="out", **options):
    """Compare recipes on the data of a folder; return the comparison and the messages."""
    console = RecordingConsole()
    specs = [text.format(folder=folder) for text in recipes or BOTH]
    if not recipes:
        changes = (PLAIN, *changes)
    options = {"data": folder / "data", "max_steps": 6, "perform": perform_here, **options}
    with pytest.MonkeyPatch.context() as patch:  # reports take longer than such training runs
        patch.setattr(training, "write_report", lambda *_, **__: None)
        patch.setattr(training, "looked_into", lambda task, evaluation: evaluation)
        comparison = compare(
            specs,
            out=folder / out,
            changes=(*QUICK, *changes),
            cache=folder / "cache",
            device="cpu",
            console=console,
            **options,
        )
    return comparison, console.lines
