"""Every number of part L of the checklist, as examples/lecture_numbers.py computes it."""

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import pytest
import torch

PATH = Path(__file__).parents[2] / "examples" / "lecture_numbers.py"


def load_example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lecture_numbers", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


example = load_example()
with torch.random.fork_rng():
    CHECKS = list(example.all_checks())


@pytest.fixture(autouse=True)
def _own_random_numbers():
    """The example seeds the generator; restore it for the tests that follow."""
    with torch.random.fork_rng():
        yield


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_number_equals_the_printed_one(check):
    """Every number of L1 to L11."""
    assert check.passes, (
        f"off by {check.off}, allowed {check.tolerance}: "
        f"computed {check.computed[:20]}, expected {check.expected[:20]}"
    )


def test_every_item_of_part_l_is_checked():
    assert {check.item for check in CHECKS} == {f"L{i}" for i in range(1, 12)}


def test_names_of_checks_are_unique():
    assert len({check.name for check in CHECKS}) == len(CHECKS)


def test_all_pass_and_the_summary_reports_it(capsys):
    assert example.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"{len(CHECKS)} of {len(CHECKS)} pass"
    assert len(lines) == len(CHECKS) + 1
    assert all(line.startswith("PASS L") for line in lines[:-1])


@pytest.mark.parametrize(
    ("constant", "wrong", "name"),
    [
        ("SCORE_2_3", 14.3687, "L3 omega_2,3"),
        ("TRANSFORMER_SIZE", 44_140_545, "L10 transformer parameters"),
        ("PATCHES_SHAPE", (195, 768), "L11 224 x 224 x 3 in patches of 16"),
        ("COLUMN_SUMS", (1.0,) * 8, "L1 columns sum to"),
        ("GREETING_COLUMN_SUMS", (1.15, 1.0, 1.0), "L8 columns sum to"),
    ],
)
def test_a_wrong_number_fails(monkeypatch, capsys, constant, wrong, name):
    monkeypatch.setattr(example, constant, wrong)
    assert example.main([]) != 0
    out = capsys.readouterr().out
    item, what = name.split(" ", 1)
    failed = [line.split() for line in out.splitlines() if line.startswith("FAIL")]
    assert ["FAIL", item, *what.split(), "="] in [line[: 3 + len(what.split())] for line in failed]
    assert f"{len(CHECKS) - len(failed)} of {len(CHECKS)} pass" in out


@pytest.mark.parametrize(
    ("computed", "expected", "passes"),
    [
        ((1.0, 2.0), (1.0, 2.0), True),
        ((1.0, 2.00009), (1.0, 2.0), True),
        ((1.0, 2.00011), (1.0, 2.0), False),
        ((1.0,), (1.0, 2.0), False),
        ((1.0, math.nan), (1.0, 2.0), False),
        ((math.nan, 2.0), (1.0, 2.0), False),
        ((math.inf, 2.0), (1.0, 2.0), False),
    ],
)
def test_a_check_passes_within_its_tolerance(computed, expected, passes):
    assert example.Check("L0", "a pair", computed, expected, tolerance=1e-4).passes is passes


def test_a_relative_check_scales_its_tolerance():
    computed, expected = (2.2319e-9, 1.0), (2.2317e-9, 1.0)
    assert not example.Check("L0", "weights", computed, expected, 1e-5, relative=True).passes
    assert example.Check("L0", "weights", computed, expected, 1e-4, relative=True).passes


def test_columns_are_aligned():
    lines = example.report(CHECKS).splitlines()[:-1]
    assert len({line.index("(expected") for line in lines}) == 1


def test_pictures_are_written_only_with_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    example.main([])
    assert list(tmp_path.iterdir()) == []
    assert example.main(["--out", "pictures"]) == 0
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == {
        *("self_attention.png", "self_attention.json"),
        *("positions.png", "positions.json"),
    }
    assert "wrote " in capsys.readouterr().out
