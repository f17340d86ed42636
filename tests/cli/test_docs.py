"""The pages: their commands can be given, their Python runs, their links and tables hold."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest
import typer

from saccade import cli, tasks
from saccade.training import recipe as recipes
from saccade.training import session
from tests.cli.conftest import SMALL

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    """The code of a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    """Every `saccade ...` that a page tells the reader to type."""
    found = []
    for page in PAGES:
        for block in blocks(page, "sh"):
            for line in block.replace("\\\n", " ").splitlines():
                for part in line.split(" #")[0].split("|"):
                    if part.strip().startswith("saccade "):
                        found.append(part.split(" > ")[0].strip())
    return found


def test_there_are_commands():
    assert len(commands()) > 20


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_commands_are_understood(command):
    """Options and their values are checked, nothing is run."""
    group = typer.main.get_command(cli.app)
    verb, *arguments = shlex.split(command)[1:]
    if verb.startswith("-"):
        return
    context = group.make_context("saccade", [verb, *arguments])
    chosen = group.get_command(context, verb)
    given = chosen.make_context(verb, list(arguments)).params
    assert verb in group.commands
    if given.get("recipe") in recipes.names():
        assert recipes.load(given["recipe"], given["set_"] or []).task in tasks.names()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_list_of_keys_is_up_to_date():
    script = ROOT / "docs" / "make_recipe_keys.py"
    spec = importlib.util.spec_from_file_location("make_recipe_keys", script)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert made.page() == made.PAGE.read_text(encoding="utf-8"), f"run python {script}"
    assert "| `training.max_steps` | whole number from 0 | 20000 | updates at most |" in made.page()


def test_the_python_page_runs(tmp_path, monkeypatch, pairs):
    changes = [*SMALL[3:], "model.dim=16", "model.encoder.num_layers=1", "text.source.size=270"]
    small = recipes.load("transformer-tiny", changes)
    (tmp_path / "small.toml").write_text(small.to_toml())
    (tmp_path / "pairs.tsv").write_bytes((pairs / "train.tsv").read_bytes())
    (tmp_path / "test.tsv").write_bytes((pairs / "test.tsv").read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "default_cache", lambda: tmp_path / "cache")
    code = "".join(blocks(ROOT / "docs" / "python.md", "python"))
    assert code.count("max_steps=2000") == 1
    code = code.replace("max_steps=2000", "max_steps=2").replace("transformer-tiny", "small.toml")
    names: dict[str, object] = {}
    exec(compile(code, "docs/python.md", "exec"), names)
    assert set(names["scores"]) == {"bleu", "chrf"}
    assert names["record"].layers[0] == "decoder.layers.0.cross"
    assert "encoder.layers.0.self_attention" in names["seen"].keys()  # noqa: SIM118
    assert names["logits"].shape == (3, 5, 400)
    assert (tmp_path / "look.png").exists()
