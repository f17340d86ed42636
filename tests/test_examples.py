"""The examples run and print their result."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PRINTED = {
    "lecture_numbers": "58 of 58",
    "rejected_score": "differ by up to 0.0000",
    "which_parts": "parameters",
}


def test_every_example_is_listed():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == PRINTED.keys()


@pytest.mark.parametrize("name", PRINTED)
def test_examples_run_and_print_their_result(name, tmp_path):
    run = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert PRINTED[name] in run.stdout
