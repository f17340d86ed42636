"""saccade compare: what it prints, what it writes, how it ends."""

import json

import pytest

from tests.cli.conftest import SMALL

TINY = [part for change in SMALL for part in ("--set", change)]


def test_two_recipes_one_of_which_fails(saccade, pairs, tmp_path):
    where = ["--data", pairs, "--out", tmp_path / "out", "--cache", tmp_path / "cache"]
    budget = ["--max-steps", 3, "--threads", 1]
    wild = ["wild=reverse", "--set", "wild:training.learning_rate=1e30"]
    said = saccade("compare", "reverse", *wild, *TINY, *where, *budget)
    assert said.code == 1
    assert said.lines[0].startswith("reverse has exact match ")
    assert "on 10 items of test" in said.lines[0]
    assert said.lines[1].startswith("wild, seed 0, did not come to its end: at step ")
    assert said.lines[2].endswith("compare.json is for programs.")
    assert "training 1 of 2: reverse, seed 0" in said.err
    table = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert table["summary"] == said.lines[0]
    assert "<h2>Cost</h2>" in (tmp_path / "out" / "compare.html").read_text()
    alone = saccade("compare", "reverse", *TINY, *where, *budget, "--quiet")
    assert (alone.code, alone.err) == (0, "")
    assert alone.lines[0] == said.lines[0]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["rnn", "rnn"], "two recipes are called rnn"),
        (["rnn", "gpt-mini"], "recipes of a comparison must have the same task"),
        (["rnnn"], "Did you mean rnn?"),
        (["rnn", "--set", "luong:model.dim=3"], "no recipe in this comparison is called 'luong'"),
        (["rnn", "--seeds", 0], "--seeds"),
        (["rnn", "--minutes", 0], "training.minutes cannot be 0.0"),
        (["rnn", "--columns", "source"], "--columns takes name=column"),
        ([], "RECIPE"),
    ],
)
def test_mistakes(saccade, pairs, tmp_path, options, problem):
    said = saccade("compare", *options, "--data", pairs, "--out", tmp_path / "out")
    assert (said.code, said.out) == (2, "")
    assert problem in said.err
    assert not (tmp_path / "out").exists()
