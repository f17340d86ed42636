"""The items of the lectures: all are listed, each with a place that exists and a test."""

import importlib.util
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from saccade import tasks
from saccade.training import recipe as recipes
from tests.docs.pages import LECTURES, ROOT

spec = importlib.util.spec_from_file_location("checklist", ROOT / "tools" / "checklist.py")
checklist = importlib.util.module_from_spec(spec)
spec.loader.exec_module(checklist)

PARTS = {
    **{"A": 11, "B": 8, "C": 4, "D": 6, "E": 8, "F": 4, "G": 12, "H": 9, "I": 10, "J": 7},
    **{"K": 15, "M": 14},
}
ITEMS = checklist.items(LECTURES.read_text(encoding="utf-8"))


def test_every_item_is_listed_once_and_in_order():
    known = [f"{part}{number}" for part, last in PARTS.items() for number in range(1, last + 1)]
    assert [item.key for item in ITEMS] == known


def test_every_item_has_a_test():
    assert list(checklist.faults(ITEMS, checklist.citations(ROOT / "tests"))) == []


def test_every_item_of_parts_a_to_h_has_a_section():
    sections = re.findall(r"^### ([A-H]\d+) ", LECTURES.read_text(encoding="utf-8"), re.MULTILINE)
    assert sections == [item.key for item in ITEMS if item.key[0] in "ABCDEFGH"]


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.key)
def test_every_place_exists(item):
    """Names of the package can be imported, files exist, recipes are built in."""
    names = re.findall(r"`([^`]+)`", item.place)
    for name in names:
        if name.startswith("examples/"):
            assert (ROOT / name).is_file(), name
        elif re.fullmatch(r"saccade(\.\w+)+", name):
            assert resolve(name) is not None
    if recipe := re.search(r"recipes? (`[\w-]+`(?:(?:,| and) `[\w-]+`)*)", item.place):
        assert set(re.findall(r"`([^`]+)`", recipe[1])) <= set(recipes.names())
    for name in re.findall(r"task `(\w+)`", item.place):
        assert name in tasks.names()
    if item.key.startswith("M"):
        assert {other.key for other in ITEMS} >= set(re.findall(r"\b[A-K]\d+\b", item.place))
    else:
        assert names


def resolve(name: str) -> object:
    """Return the module, class or function of a dotted name."""
    module, _, last = name.rpartition(".")
    try:
        return getattr(import_module(module), last)
    except AttributeError:
        return import_module(name)


def test_ids_in_names_and_docstrings():
    assert checklist.cited("test_dot_equals_A1_and_B12") == {"A1", "B12"}
    assert checklist.cited("Every number (L1 to L3), K10.") == {"L1", "L2", "L3", "K10"}
    assert checklist.cited("GA1 A1b test_x_UTF8 H264 BM25") == set()


def test_tests_are_found_by_name_and_by_docstring(tmp_path):
    folder = tmp_path / "tests"
    folder.mkdir()
    by_name, by_docstring = "def test_one_A1():\n    pass\n", 'def test_two():\n    """B2."""\n'
    code = f"{by_name}\n{by_docstring}\ndef helper_C3():\n    pass\n"
    (folder / "test_x.py").write_text(code)
    assert checklist.citations(folder) == {
        "A1": ["tests/test_x.py::test_one_A1"],
        "B2": ["tests/test_x.py::test_two"],
    }


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("| A1 | dot | `Dot` |\n| A2 | cosine | `Cosine` |", "A2 is cited by no test (cosine)"),
        ("| A1 | dot | `Dot` |\n| A1 | dot | `Dot` |", "A1 is listed twice"),
        ("| A1 | dot | |", "A1 has no text or no place"),
        ("| B2 | dot | `Dot` |", "B2 comes before B1"),
    ],
)
def test_faults_name_the_line(rows, message):
    listed = checklist.items(f"# Page\n\n{rows}\n")
    faults = list(checklist.faults(listed, {"A1": ["x"], "B2": ["y"]}))
    assert any(message in fault for fault in faults)
    assert faults[0].startswith(f"docs/explanation/lectures.md:{listed[-1].line}: ")


def test_exit_code(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["checklist.py", "--list"])
    assert checklist.main() == 0
    printed = capsys.readouterr().out
    assert "A1  score by dot product  →  `saccade.attention.Dot`" in printed
    assert "::test_dot_equals_the_sum_of_products_A1" in printed
    monkeypatch.setattr(checklist, "TESTS", Path("nowhere"))
    assert checklist.main() == 1
