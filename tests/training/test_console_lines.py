"""Signs of long work without a terminal."""

import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from saccade.training import console
from saccade.training.console import Console


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
