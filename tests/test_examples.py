"""The examples run and print their result."""

import json
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


def test_the_notebook_runs_and_shows_what_its_model_depends_on():
    notebook = json.loads((EXAMPLES / "any_model.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    cells = notebook["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    names: dict[str, object] = {}
    for cell in cells:
        assert cell.keys() >= {"cell_type", "id", "metadata", "source"}
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    assert list(names["seen"]) == [f"encoder.layers.{i}.self_attn" for i in range(2)]
    assert names["record"].read.words == tuple(names["text"].split())
    assert names["measures"]["comprehensiveness"] > 0.3
    assert names["measures"]["comprehensiveness_over_random"] > 0
