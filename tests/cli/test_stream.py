"""saccade predict with a language model: streamed text."""

import importlib
import json
import re
from pathlib import Path

import pytest

from saccade.tasks.language_modeling import LanguageModeling
from saccade.training import session
from saccade.training.console import Console

predict = importlib.import_module("saccade.cli.predict")  # the package has the verb by that name


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a language model after one step."""
    folder = tmp_path_factory.mktemp("writer")
    (folder / "text.txt").write_text("the cat sees a naïve dog\n" * 60, encoding="utf-8")
    changes = ["model.dim=16", "model.decoder.num_layers=1", "model.decoder.hidden_dim=16"]
    session.train(
        "gpt-char",
        data=folder / "text.txt",
        out=folder / "run",
        changes=[*changes, "text.block=16", "training.validate_items=1"],
        max_steps=1,
        device="cpu",
        cache=folder / "cache",
        console=Console(quiet=True),
    )
    return folder / "run"


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(predict, "_on_terminal", lambda: True)


def test_one_line_in_a_pipe_and_a_stream_on_a_terminal(saccade, writer, monkeypatch):
    task = session.load(writer)
    answers = task.predict(["the\tcat 😀"] * 40, max_length=40)
    seed, answer = next((i, answer) for i, answer in enumerate(answers) if "\n" in answer.text)
    options = ("--max-length", 40, "--seed", seed)
    piped = saccade("predict", writer, "the\tcat 😀", *options)
    assert piped.out == re.sub("\n+", " ", answer.text) + "\n"
    streamed = saccade("predict", writer, "the\tcat 😀", *options, "--stream")
    assert (streamed.code, streamed.out) == (0, f"the\tcat 😀{answer.text}\n")
    monkeypatch.setattr(predict, "_on_terminal", lambda: True)
    assert saccade("predict", writer, "the\tcat 😀", *options) == streamed
    empty = saccade("predict", writer, "", *options)
    assert empty.out == task.predict([""], max_length=40, seed=seed)[0].text + "\n"


@pytest.mark.usefixtures("terminal")
def test_several_inputs_are_not_streamed(saccade, writer, tmp_path):
    two = saccade("predict", writer, "a", "b", "--max-length", 9)
    assert len(two.lines) == 2
    [line] = saccade("predict", writer, "a", "--json").lines
    assert json.loads(line)["input"] == "a"
    assert len(saccade("predict", writer, "a", "--n-best", 3, "--max-length", 9).lines) == 3
    saved = saccade("predict", writer, "a", "--output", tmp_path / "out.txt")
    assert (saved.code, saved.out) == (0, "")
    looked = saccade(
        "predict", writer, "a", "--max-length", 3, "--attention", tmp_path / "look.json"
    )
    assert len(looked.lines) == 1
    assert json.loads((tmp_path / "look.json").read_text())["wrote"]["tokens"][:2] == ["\\n", "a"]


@pytest.mark.usefixtures("terminal")
def test_ctrl_c_ends_a_stream_with_a_complete_line(saccade, writer, monkeypatch):
    def interrupted(self, prompt, **options):
        yield " goes"
        raise KeyboardInterrupt

    monkeypatch.setattr(LanguageModeling, "stream", interrupted)
    result = saccade("predict", writer, "it")
    assert (result.code, result.out) == (130, "it goes\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "b", "--stream"], "--stream needs exactly one INPUT"),
        (["--stream"], "--stream needs exactly one INPUT"),
        (["a", "--stream", "--json"], "cannot be combined with --output, --json"),
        (["a", "--stream", "--top-p", "0"], "top_p must be above 0"),
        (["a", "--align"], "--align needs word alignments"),
    ],
)
def test_stream_raises_on_incompatible_options(saccade, writer, arguments, message):
    result = saccade("predict", writer, *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_stream_raises_for_other_tasks(saccade, run, monkeypatch):
    result = saccade("predict", run, "a b", "--stream")
    assert result.code == 2
    assert "--stream needs a language model; this run's task is text_to_text" in result.err
    plain = saccade("predict", run, "a b")
    monkeypatch.setattr(predict, "_on_terminal", lambda: True)
    assert saccade("predict", run, "a b") == plain
