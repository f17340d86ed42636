"""The small verbs, and the help of all verbs."""

import os
import re
import subprocess
import sys
from inspect import Parameter, signature
from typing import get_type_hints

import pytest

from saccade import __version__, cli
from saccade.cli import demo
from saccade.training import precision
from saccade.training import recipe as recipes

DEMO = sys.modules["saccade.cli.demo"]


def test_recipes_lists_recipes_and_data(saccade):
    result = saccade("recipes")
    assert result.code == 0
    for name in recipes.names():
        assert f"  {name} " in result.out
        assert recipes.description(name) in result.out
    assert "  pronounce " in result.out.split("Built-in data")[1]


@pytest.mark.parametrize("name", recipes.names())
def test_printed_recipe_equals_the_recipe(saccade, tmp_path, name):
    path = tmp_path / "mine.toml"
    path.write_text(saccade("recipes", name).out)
    assert recipes.load(path) == recipes.load(name)
    assert "max_steps = " in path.read_text()


def test_raises_on_an_unknown_recipe(saccade):
    result = saccade("recipes", "transformer-tony")
    assert result.code == 2
    assert "Did you mean transformer-tiny?" in result.err


def test_doctor(saccade, monkeypatch):
    monkeypatch.setattr(precision, "works", lambda device: False)
    result = saccade("doctor")
    assert result.code == 0
    assert f"saccade {__version__}, Python 3." in result.out
    assert "bfloat16: does NOT work here" in result.out
    assert "--precision auto uses float32" in result.out
    assert "GFLOP/s" in result.out
    assert "pocketsphinx" in result.out


def test_version_and_unknown_verbs(saccade):
    assert saccade("--version").out == f"saccade {__version__}\n"
    result = saccade("translate")
    assert result.code == 2
    assert "No such command 'translate'" in result.err
    assert saccade("train", "reverse").code == 2  # neither --data nor --out
    assert "Usage:" in saccade().out + saccade().err


PARAMETERS = [
    pytest.param(hint.__metadata__[0], default, hint.__origin__ is bool, id=f"{verb} {name}")
    for verb, run in (*cli.VERBS.items(), ("", cli._front))
    for name, hint in get_type_hints(run, include_extras=True).items()
    if name != "return"
    for default in [signature(run).parameters[name].default]
]
"""Help and default of each argument and option, and whether it is a flag."""


@pytest.mark.parametrize("verb", sorted(cli.VERBS))
def test_every_verb_has_help(saccade, verb):
    result = saccade(verb, "--help")
    assert result.code == 0
    assert f"Usage: saccade {verb}" in result.out
    summary = cli.VERBS[verb].__doc__.partition("\n")[0]
    assert summary.endswith(".")
    assert len(summary.split(". ")[0]) <= 64, "the list of verbs would cut it"
    usage, _, arguments = result.out.partition("Arguments:\n")
    assert not re.search(r"[{}<>]", usage), "arguments are shown by their names alone"
    for line in arguments.partition("\n\n")[0].splitlines():
        assert re.match(r"  \[?[A-Z]+\]? +\w|    ", line), "every argument is described"


@pytest.mark.parametrize(("parameter", "default", "flag"), PARAMETERS)
def test_every_parameter_explains_its_effect_and_its_default(parameter, default, flag):
    text = parameter.help or ""
    assert len(text) >= 27, "say what the option changes, its unit and its default"
    assert text[0].isupper()
    assert text.endswith(".")
    required = default is Parameter.empty
    shown = default is not None and parameter.show_default
    if not (required or shown or flag):
        assert "Default: " in text, "the default is not shown, so the help must name it"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_lists_verbs_and_options(shell):
    """As a shell calls it after `saccade --install-completion`."""
    for words, expected in (("saccade pre", "predict"), ("saccade predict run --top", "--top-p")):
        environment = {
            **os.environ,
            "_SACCADE_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
            "_TYPER_COMPLETE_ARGS": words,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }
        command = [sys.executable, "-c", "from saccade.cli import main; main()"]
        result = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
        assert expected in result.stdout, result.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["predict", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments):
    code = f"""
import sys
sys.argv = ["saccade", *{arguments}]
from saccade import cli
try:
    cli.main()
except SystemExit as end:
    assert not end.code, end.code
heavy = {{"torch", "numpy", "tokenizers", "matplotlib", "sacrebleu", "rich.progress", "pydantic"}}
imported = heavy & set(sys.modules)
assert not imported, imported
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert ended.stderr == b""
    assert ended.returncode == 0


def test_demo_trains_predicts_and_resumes(saccade, tmp_path, monkeypatch, pairs):
    changed = recipes.load("reverse", ["training.max_steps=3", "training.validate_items=2"])
    (tmp_path / "tiny.toml").write_text(changed.to_toml())
    tiny = DEMO.Demo("a test", str(tmp_path / "tiny.toml"), str(pairs), 1.0, ("a b c", "d"))
    monkeypatch.setitem(DEMO.DEMOS, "tiny", tiny)
    where = ["--out", tmp_path / "deep" / "run", "--cache", tmp_path / "cache"]
    first = saccade("demo", "tiny", *where)
    assert first.code == 0
    assert "Training for 1 minute into" in first.out
    assert "On 10 inputs that it was not trained on:\n  exact_match " in first.out
    assert "\n  a b c -> " in first.out
    for name in ("attention.png", "report.html", "model.safetensors"):
        assert (tmp_path / "deep" / "run" / name).stat().st_size > 1000
    weights = (tmp_path / "deep" / "run" / "model.safetensors").read_bytes()
    again = saccade("demo", "tiny", *where)
    assert again.code == 0
    assert "Resuming " in again.out
    assert again.out.split("\n")[2:] == first.out.split("\n")[2:]
    assert (tmp_path / "deep" / "run" / "model.safetensors").read_bytes() == weights


def test_demo_raises_on_invalid_arguments(saccade, tmp_path):
    assert "unknown demo 'poetry'; choose one of: pronounce" in saccade("demo", "poetry").err
    result = saccade("demo", "reverse", "--minutes", 0, "--out", tmp_path / "run")
    assert result.code == 2
    assert "training.minutes cannot be 0.0" in result.err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("keep me")
    result = saccade("demo", "reverse", "--out", tmp_path / "mine")
    assert result.code == 2
    assert "is not empty (letter.txt)" in result.err


def test_every_demo_uses_an_existing_recipe():
    assert demo is DEMO.run
    for example in DEMO.DEMOS.values():
        assert example.recipe in recipes.names()
        assert example.minutes <= 5
