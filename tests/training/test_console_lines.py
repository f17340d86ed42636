"""Signs of long work without a terminal."""

import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from saccade.training import console
from saccade.training.console import Console
from saccade.training.progress import TrainingProgress, Update
from saccade.training.recipe import TrainingConfig


def lines_of(capsys) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_long_work_prints_a_line(monkeypatch, capsys):
    monkeypatch.setattr(console, "SILENCE", 0.01)
    monkeypatch.setattr(console, "LINES_EVERY", 60.0)
    with Console().working("loading runs/en-de"):
        time.sleep(0.2)
    assert lines_of(capsys) == ["loading runs/en-de"]


def test_lines_repeat_with_the_count(monkeypatch, capsys):
    monkeypatch.setattr(console, "SILENCE", 0.05)
    monkeypatch.setattr(console, "LINES_EVERY", 0.05)
    with Console().counting("rows read:") as bar:
        bar.to(12_000)
        time.sleep(0.3)
    lines = lines_of(capsys)
    assert len(lines) > 1
    assert set(lines) == {"rows read: 12,000"}


def test_short_or_quiet_work_prints_nothing(monkeypatch, capsys):
    with Console().working("loading runs/en-de"):
        pass
    monkeypatch.setattr(console, "SILENCE", 0.01)
    with Console(quiet=True).working("loading runs/en-de"):
        time.sleep(0.1)
    assert lines_of(capsys) == []


@pytest.mark.parametrize(
    ("steps", "seconds", "minutes", "remarks"),
    [
        pytest.param(1000, 11.0, None, 1, id="three hours"),
        pytest.param(1000, 11.0, 3.0, 0, id="a budget in minutes"),
        pytest.param(1000, 0.5, None, 0, id="too early to know"),
        pytest.param(10, 11.0, None, 0, id="short"),
    ],
)
def test_long_training_without_minutes_is_announced_once(capsys, steps, seconds, minutes, remarks):
    config = TrainingConfig(max_steps=steps, minutes=minutes)
    update = Update(loss=1.0, predictions=8, padding=0.0, gradient=1.0, learning_rate=0.1)
    with Console().training(TrainingProgress(), config) as bar:
        for step in (1, 2, 3):
            bar.updated(TrainingProgress(step=step, seconds=seconds * step), update)
    lines = [line for line in lines_of(capsys) if "more; --minutes 10" in line]
    assert len(lines) == remarks
    assert all(line.startswith("all 1,000 steps will take about 3:03:09 more") for line in lines)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the mask of a thread in /proc")
def test_the_thread_of_lines_receives_no_signal():
    """A signal that another thread received would not interrupt a long call of the main thread."""
    before = {thread.native_id for thread in threading.enumerate()}
    with Console().working("loading runs/en-de"):
        [thread] = [t for t in threading.enumerate() if t.native_id not in before]
        status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
    [blocked] = [int(line.split()[1], 16) for line in status.splitlines() if "SigBlk" in line]
    for number in (signal.SIGINT, signal.SIGTERM):
        assert blocked >> (number - 1) & 1
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {signal.SIGINT, signal.SIGTERM}
