"""Progress bars: in a notebook one output that is updated in place."""

import builtins
import sys
import time
import types

import pytest

from saccade.training import console as consoles
from saccade.training.console import Console


@pytest.fixture
def outputs(monkeypatch):
    """Pretend to be in a notebook and return its outputs, by their ids."""
    shown: dict[str, list[str]] = {}

    def display(data, *, raw, display_id):
        assert raw
        assert display_id not in shown
        shown[display_id] = [data["text/plain"]]

    def update_display(data, *, raw, display_id):
        assert raw
        shown[display_id].append(data["text/plain"])

    module = types.ModuleType("IPython.display")
    module.display, module.update_display = display, update_display
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    shell = type("ZMQInteractiveShell", (), {})
    monkeypatch.setattr(builtins, "get_ipython", shell, raising=False)
    monkeypatch.setattr(consoles, "NOTEBOOK_EVERY", -1.0)
    return shown


def test_a_bar_in_a_notebook_is_one_line_that_is_updated_and_removed(outputs):
    with Console().counting("predicted:", 10) as bar:
        for count in (3, 7, 10):
            bar.to(count)
    [texts] = outputs.values()
    assert [text.split()[-1] for text in texts[:-1]] == ["0", "3", "7", "10"]
    assert all(text.startswith("predicted:") and "\n" not in text for text in texts[:-1])
    assert texts[-1] == ""


def test_a_bar_in_a_notebook_is_updated_a_few_times_per_second(outputs, monkeypatch):
    monkeypatch.setattr(consoles, "NOTEBOOK_EVERY", 3600.0)
    with Console().counting("rows", 1000) as bar:
        for count in range(1000):
            bar.to(count)
    [texts] = outputs.values()
    assert len(texts) <= 3


def test_a_quiet_console_shows_no_bar_in_a_notebook(outputs):
    with Console(quiet=True).counting("predicted:", 10) as bar:
        bar.to(3)
    assert outputs == {}


def test_a_line_without_a_count_has_no_unit(capsys, monkeypatch):
    monkeypatch.setattr(consoles, "SILENCE", 0.01)
    monkeypatch.setattr(consoles, "LINES_EVERY", 0.01)
    with Console().counting("reading the data, rows:") as bar:
        time.sleep(0.1)
        bar.to(1234)
        time.sleep(0.1)
    lines = capsys.readouterr().err.splitlines()
    assert (lines[0], lines[-1]) == ("reading the data", "reading the data, rows: 1,234")
