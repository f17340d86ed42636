"""saccade predict with a language model: text as it is written."""

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
    """A language model after a step."""
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


def test_lines_in_a_pipe_and_text_on_a_terminal(saccade, writer, monkeypatch):
    task = session.load(writer)
    found = task.predict(["the\tcat 😀"] * 40, max_length=40)
    seed, answer = next((i, each) for i, each in enumerate(found) if "\n" in each.text)
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
def test_what_is_no_single_text_comes_in_lines_on_a_terminal_too(saccade, writer, tmp_path):
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
def test_ctrl_c_ends_a_stream_with_a_whole_line(saccade, writer, monkeypatch):
    def interrupted(self, prompt, **options):
        yield " goes"
        raise KeyboardInterrupt

    monkeypatch.setattr(LanguageModeling, "stream", interrupted)
    said = saccade("predict", writer, "it")
    assert (said.code, said.out) == (130, "it goes\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a", "b", "--stream"], "--stream is for one INPUT"),
        (["--stream"], "--stream is for one INPUT"),
        (["a", "--stream", "--json"], "without --output, --json"),
        (["a", "--stream", "--top-p", "0"], "top_p must be above 0"),
        (["a", "--align"], "--align is for translators and their like, not for language_modeling"),
    ],
)
def test_what_cannot_be_streamed(saccade, writer, arguments, said):
    refused = saccade("predict", writer, *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err


def test_other_tasks_do_not_stream(saccade, run, monkeypatch):
    refused = saccade("predict", run, "a b", "--stream")
    assert refused.code == 2
    assert "--stream is for language models, not for text_to_text" in refused.err
    plain = saccade("predict", run, "a b")
    monkeypatch.setattr(predict, "_on_terminal", lambda: True)
    assert saccade("predict", run, "a b") == plain
