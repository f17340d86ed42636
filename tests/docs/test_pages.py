"""The pages: their commands are valid, their Python runs, their links lead somewhere."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from saccade import cli, tasks
from saccade.data import builtin
from saccade.training import recipe as recipes
from tests.docs.pages import (
    DOCS,
    ELSEWHERE,
    LECTURES,
    PAGES,
    PYTHON,
    ROOT,
    TUTORIALS,
    blocks,
    commands,
    generator,
    name_of,
)

COMMANDS = sorted({command for page in PAGES for command in commands(page)})
GENERATED = re.compile(r"reference/(command-line|recipe-keys|built-in|http-api|python/\w+)\.md$")
"""Pages that are written when the site is built."""


def test_there_are_commands():
    assert len(COMMANDS) > 60


def test_the_built_in_data_is_described():
    page = (DOCS / "reference" / "file-formats.md").read_text()
    assert [name for name in builtin.names() if f"`builtin:{name}`" not in page] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_command_has_valid_verb_options_and_recipes(command):
    group: Any = typer.main.get_command(cli.app)
    verb, *arguments = shlex.split(command)[1:]
    if verb.startswith("-") or "VERB" in command:
        return
    values = group.commands[verb].make_context(verb, list(arguments)).params
    if str(values.get("data")).startswith("builtin:"):
        assert values["data"].partition(":")[2] in builtin.descriptions()
    if verb == "train" and values["recipe"] in recipes.names():
        started = {"kind": "vit"} if values["init"] else None  # has an effect on images only
        loaded = recipes.load(values["recipe"], values["set_"] or [], started)
        assert loaded.task in tasks.names()
    elif verb == "train" and values["recipe"] is not None:
        assert values["recipe"].endswith(".toml") or values["recipe"].isupper(), "unknown recipe"
    if verb == "compare":
        names = [recipe.rpartition("=")[2] for recipe in values["recipes"]]
        assert set(names) <= set(recipes.names()) or "RECIPE" in command


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_options_named_in_the_text_exist(page):
    group: Any = typer.main.get_command(cli.app)
    verbs = [group, *group.commands.values()]
    known = {
        flag
        for verb in verbs
        for param in verb.params
        for flag in (*param.opts, *param.secondary_opts)
    }
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for code in re.findall(r"`([^`\n]+)`", text):
        if code.startswith(OTHER_PROGRAMS):
            continue
        unknown = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", code)) - known - OTHER_OPTIONS
        assert not unknown, f"{code}: {unknown}"


OTHER_PROGRAMS = ("torchrun", "docker", "pip", "benchmarks/", "python ")
OTHER_OPTIONS = {
    "--help",
    "--nnodes",
    "--rdzv-backend",
    "--rdzv-endpoint",
    "--max-restarts",
    "--local-addr",
    "--deadlines",
}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_scripts_and_make_targets_exist(page):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for line in "".join(blocks(page, "sh")).splitlines():
        if line.startswith("make "):
            assert line.split()[1] in targets
        if line.startswith("python "):
            assert (ROOT / line.split()[1]).exists(), line


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        path = (page.parent / target).resolve()
        assert path.exists() or GENERATED.search(path.as_posix()), target


@pytest.mark.parametrize("page", [ROOT / "README.md", *TUTORIALS], ids=name_of)
def test_no_two_commands_of_a_page_write_the_same_run(page):
    """A reader who follows the page literally would be stopped: the run exists already."""
    inline = re.findall(r"`(saccade [^`]*)`", page.read_text())
    typed = [line for line in (*commands(page), *inline) if "--resume" not in line]
    written = [run for line in typed for run in re.findall(r" --out (\S+)", line)]
    python = "".join(blocks(page, "python"))
    written += re.findall(r'train\([^)]*out="([^"]+)"', python)
    assert sorted(written) == sorted(set(written))


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    numbered = re.compile(r"decisions/\d")
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).as_posix()
        assert name in navigation or numbered.match(name), name


def test_every_decision_is_listed_and_has_the_three_parts():
    index = (DOCS / "decisions" / "index.md").read_text()
    for page in DOCS.glob("decisions/0*.md"):
        assert page.name in index
        parts = re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE)
        assert parts == ["Context", "Decision", "Consequences"], page.name


@pytest.mark.parametrize("page", PYTHON, ids=name_of)
def test_python_blocks_run(page, world):
    if page.stem == "compare":
        pytest.skip("trains in other processes: see test_tutorials")
    code = [block for block in blocks(page, "python") if not block.startswith(ELSEWHERE)]
    names: dict[str, Any] = {}
    for number, block in enumerate(code):
        exec(compile(block, f"{name_of(page)}, block {number + 1}", "exec"), names)


def test_blocks_of_the_lectures_run_and_draw_their_pictures(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    generator("make_lectures").run(LECTURES)
    drawn = {path.name for path in tmp_path.glob("*.svg")}
    shown = set(re.findall(r"pictures/lectures/([\w-]+\.svg)", LECTURES.read_text()))
    assert shown - drawn <= {"map.svg"}  # a trained model draws this one
    assert all((DOCS / "pictures" / "lectures" / name).exists() for name in shown)


def test_lectures_page_reports_the_measured_verdicts():
    text = LECTURES.read_text()
    for path in sorted((DOCS / "claims").glob("k*.json")):
        number = int(path.name[1:3])
        row = re.search(rf"^\| \[K{number}\]\(.*\| (.*?) \|$", text, re.MULTILINE)
        assert row is not None, path.name
        assert row[1] == json.loads(path.read_text())["verdict"], path.name


def test_readme_links_only_to_files_of_the_repository():
    for target in re.findall(r"\]\(([^)#]+)", (ROOT / "README.md").read_text()):
        assert "://" not in target
        assert Path(ROOT / target).exists()
