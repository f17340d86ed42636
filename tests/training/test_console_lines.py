"""Signs of work where there is no terminal."""

import time

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
