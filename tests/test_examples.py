"""The examples run, and say what they are there to say."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SAID = {
    "lecture_numbers": "58 of 58",
    "rejected_score": "differ by up to 0.0000",
    "which_parts": "parameters",
}


def test_each_is_here():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == SAID.keys()


@pytest.mark.parametrize("name", SAID)
def test_it_runs(name, tmp_path):
    run = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert SAID[name] in run.stdout
