"""The small verbs, and what all have in common."""

import subprocess
import sys

import pytest

from saccade import __version__
from saccade.cli import demo
from saccade.cli.options import parse_columns
from saccade.errors import DataError
from saccade.training import precision
from saccade.training import recipe as recipes

DEMO = sys.modules["saccade.cli.demo"]


def test_recipes_lists_recipes_and_data(saccade):
    said = saccade("recipes")
    assert said.code == 0
    for name in recipes.names():
        assert f"  {name} " in said.out
        assert recipes.description(name) in said.out
    assert "  pronounce " in said.out.split("Built-in data")[1]


@pytest.mark.parametrize("name", recipes.names())
def test_a_recipe_in_full_is_the_recipe(saccade, tmp_path, name):
    path = tmp_path / "mine.toml"
    path.write_text(saccade("recipes", name).out)
    assert recipes.load(path) == recipes.load(name)
    assert "max_steps = " in path.read_text()


def test_a_recipe_that_is_not_there(saccade):
    said = saccade("recipes", "transformer-tony")
    assert said.code == 2
    assert "Did you mean transformer-tiny?" in said.err


def test_doctor(saccade, monkeypatch):
    monkeypatch.setattr(precision, "works", lambda device: False)
    said = saccade("doctor")
    assert said.code == 0
    assert f"saccade {__version__}, Python 3." in said.out
    assert "bfloat16: does NOT work here" in said.out
    assert "--precision auto takes float32" in said.out
    assert "GFLOP/s" in said.out
    assert "pocketsphinx" in said.out


def test_version_and_wrong_verbs(saccade):
    assert saccade("--version").out == f"saccade {__version__}\n"
    said = saccade("translate")
    assert said.code == 2
    assert "No such command 'translate'" in said.err
    assert saccade("train", "reverse").code == 2  # neither --data nor --out
    assert "Usage:" in saccade().out + saccade().err


VERBS = [
    "train",
    "evaluate",
    "predict",
    "compare",
    "export",
    "import",
    "demo",
    "recipes",
    "doctor",
    "accept",
]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_and_option_says_what_it_is_for(saccade, verb):
    said = saccade(verb, "--help")
    assert said.code == 0
    assert "Usage:" in said.out


@pytest.mark.parametrize("arguments", [["--help"], ["predict", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments):
    more = ["pydantic"] if arguments == ["--help"] else []  # else typer's
    code = f"""
import sys
sys.argv = ["saccade", *{arguments}]
from saccade import cli
try:
    cli.main()
except SystemExit as end:
    assert not end.code, end.code
heavy = {{"torch", "numpy", "tokenizers", "matplotlib", "sacrebleu", "rich.progress", *{more}}}
found = heavy & set(sys.modules)
assert not found, found
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert ended.stderr == b""
    assert ended.returncode == 0


def test_columns():
    assert parse_columns(None) is None
    assert parse_columns("source=english, target = french") == {
        "source": "english",
        "target": "french",
    }
    assert parse_columns("source=a=b") == {"source": "a=b"}
    for wrong in ("", "source", "source=", "=x", "source=a,,target=b"):
        with pytest.raises(DataError, match="--columns takes name=column"):
            parse_columns(wrong)


def test_demo_trains_answers_and_goes_on(saccade, tmp_path, monkeypatch, pairs):
    changed = recipes.load("reverse", ["training.max_steps=3", "training.validate_items=2"])
    (tmp_path / "tiny.toml").write_text(changed.to_toml())
    tiny = DEMO.Demo("a test", str(tmp_path / "tiny.toml"), str(pairs), 1.0, ("a b c", "d"))
    monkeypatch.setitem(DEMO.DEMOS, "tiny", tiny)
    where = ["--out", tmp_path / "deep" / "run", "--cache", tmp_path / "cache"]
    first = saccade("demo", "tiny", *where)
    assert first.code == 0
    assert "Training for 1 minutes into" in first.out
    assert "On 10 inputs that it was not trained on:\n  exact_match|" in first.out
    assert "\n  a b c -> " in first.out
    for name in ("attention.png", "report.html", "model.safetensors"):
        assert (tmp_path / "deep" / "run" / name).stat().st_size > 1000
    weights = (tmp_path / "deep" / "run" / "model.safetensors").read_bytes()
    again = saccade("demo", "tiny", *where)
    assert again.code == 0
    assert "Going on with" in again.out
    assert again.out.split("\n")[2:] == first.out.split("\n")[2:]
    assert (tmp_path / "deep" / "run" / "model.safetensors").read_bytes() == weights


def test_demo_mistakes(saccade, tmp_path):
    assert "there is no demo 'poetry'; there are: pronounce" in saccade("demo", "poetry").err
    said = saccade("demo", "reverse", "--minutes", 0, "--out", tmp_path / "run")
    assert said.code == 2
    assert "training.minutes cannot be 0.0" in said.err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("keep me")
    said = saccade("demo", "reverse", "--out", tmp_path / "mine")
    assert said.code == 2
    assert "is not empty (letter.txt)" in said.err


def test_every_demo_is_of_a_recipe_and_data_that_are_there():
    assert demo is DEMO.run
    for each in DEMO.DEMOS.values():
        assert each.recipe in recipes.names()
        assert each.minutes <= 5
