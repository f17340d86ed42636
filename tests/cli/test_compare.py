"""saccade compare: its output, its files and its exit codes."""

import json

import pytest

from tests.cli.conftest import SMALL

TINY = [part for change in SMALL for part in ("--set", change)]


def test_prints_the_verdict_and_names_a_failed_training(saccade, pairs, tmp_path):
    where = ["--data", pairs, "--out", tmp_path / "out", "--cache", tmp_path / "cache"]
    budget = ["--max-steps", 3, "--threads", 1]
    wild = ["wild=reverse", "--set", "wild:training.learning_rate=1e30"]
    result = saccade("compare", "reverse", *wild, *TINY, *where, *budget)
    assert result.code == 1
    assert result.lines[0].startswith("No recipe has learned enough to be compared (exact match).")
    assert "on 10 items of test" in result.lines[0]
    assert result.lines[1].startswith("wild (seed 0) failed: at step ")
    assert result.lines[2:] == [
        f"Report: {tmp_path / 'out' / 'compare.html'}",
        f"As JSON: {tmp_path / 'out' / 'compare.json'}",
    ]
    assert "training 1 of 2: reverse, seed 0" in result.err
    table = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert table["summary"] == result.lines[0]
    assert table["verdict"] == "not_learned"
    assert "<h2>Cost</h2>" in (tmp_path / "out" / "compare.html").read_text()
    alone = saccade("compare", "reverse", *TINY, *where, *budget, "--quiet")
    assert (alone.code, alone.err) == (0, "")
    assert alone.lines[0] == result.lines[0]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["rnn", "rnn"], "two recipes are called rnn"),
        (["rnn", "gpt-mini"], "recipes of a comparison must have the same task"),
        (["rnnn"], "Did you mean rnn?"),
        (["rnn", "--set", "luong:model.dim=3"], "no recipe in this comparison is called 'luong'"),
        (["rnn", "--seeds", 0], "--seeds"),
        (["rnn", "--minutes", 0], "training.minutes cannot be 0.0"),
        (["rnn", "--columns", "source"], "is not a valid assignment. Expected name=column"),
        ([], "RECIPE"),
    ],
)
def test_raises_on_invalid_arguments(saccade, pairs, tmp_path, options, problem):
    result = saccade("compare", *options, "--data", pairs, "--out", tmp_path / "out")
    assert (result.code, result.out) == (2, "")
    assert problem in result.err
    assert not (tmp_path / "out").exists()
