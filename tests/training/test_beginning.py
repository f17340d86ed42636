"""A training that fails before its first update leaves nothing behind."""

import os
import signal
from pathlib import Path

import pytest

from saccade.data import sources
from saccade.errors import DataError, RecipeError, RunError, StoppedError
from saccade.training import session
from saccade.training.loop import Trainer
from saccade.training.run import Run
from tests.training.runs import arguments, prepare, train

TOO_LONG = "source\ttarget\n" + "a " * 400 + "\tb\n"


def stop(*args):
    signal.raise_signal(signal.SIGINT)


def fail(*args):
    raise ValueError("a fault")


def hidden(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.exists() else []


@pytest.mark.parametrize("out", ["run", "deep/er/run", "there"])
def test_the_same_command_works_with_fixed_data(place, out):
    (place / "there").mkdir()
    before = hidden(place)
    fixed = (place / "data" / "valid.tsv").read_text()
    (place / "data" / "valid.tsv").write_text(TOO_LONG)
    with pytest.raises(DataError, match="no row of valid can be used"):
        train(place, out)
    assert set(hidden(place)) - {"cache"} == set(before)
    assert hidden(place / "there") == []
    (place / "data" / "valid.tsv").write_text(fixed)
    train(place, out, max_steps=1)
    assert Run(place / out).exists()


@pytest.mark.parametrize(
    ("owner", "name", "act", "error"),
    [
        (sources, "open_corpus", stop, StoppedError),
        (Run, "begin", stop, StoppedError),
        (Trainer, "restore", fail, ValueError),
        (Trainer, "restore", stop, StoppedError),
        (Trainer, "update", fail, ValueError),
    ],
)
def test_a_fault_or_signal_before_the_first_update_leaves_nothing(
    place, monkeypatch, owner, name, act, error
):
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, act if act is fail else _after(act, getattr(owner, name)))
        with pytest.raises(error):
            train(place, "run")
    assert not (place / "run").exists()
    train(place, "run", max_steps=1)


def _after(act, plain):
    def call(*args, **options):
        result = plain(*args, **options)
        act()
        return result

    return call


def test_a_fault_after_the_first_update_keeps_the_run(place, monkeypatch):
    monkeypatch.setattr(Trainer, "save", fail)
    with pytest.raises(ValueError, match="a fault"):
        train(place, "run")
    assert Run(place / "run").exists()
    with pytest.raises(RunError, match="already holds a run"):
        train(place, "run")


def test_a_killed_beginning_is_not_a_run(place, forks):
    child = forks.start(arguments(place, "run"), "slow encoding")
    child.until((place / "there").exists)
    child.send(signal.SIGKILL)
    child.wait()
    assert (place / "run" / "run.json").exists()
    assert not Run(place / "run").exists()
    (place / "run" / "tokenizer.source.json").write_text("of another recipe")
    train(place, "run", max_steps=1)
    assert not (place / "run" / "tokenizer.source.json").exists()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"changes": ["model.dimm=3"]}, RecipeError, "dimm"),
        ({"out": "taken"}, RunError, "already holds a run; resume it with --resume"),
        ({"out": "mine"}, RunError, "is not empty"),
        ({"out": "tiny.toml"}, RunError, "a file has this name"),
        ({"init": "data"}, RunError, "--init takes a run folder"),
        ({"precision": "float8"}, RecipeError, "precision cannot be 'float8'"),
    ],
)
def test_what_needs_no_data_is_checked_before_data_is_read(
    begun, monkeypatch, options, error, message
):
    monkeypatch.setattr(sources, "open_corpus", fail)
    monkeypatch.chdir(begun)
    out, changes = options.pop("out", "new"), options.pop("changes", ())
    with pytest.raises(error, match=message):
        train(begun, out, *changes, **options)
    assert not (begun / "new").exists()


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A folder with a run in it, and one with other files."""
    folder = prepare(tmp_path_factory.mktemp("begun") / "it")
    train(folder, "taken", max_steps=1)
    (folder / "mine").mkdir()
    (folder / "mine" / "notes.txt").write_text("mine")
    return folder


def test_a_folder_that_is_not_writable_is_reported_before_data_is_read(place, monkeypatch):
    monkeypatch.setattr(sources, "open_corpus", fail)

    def mkdir(self, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(RunError, match="cannot be created: Permission denied"):
        train(place, "run")


def test_weights_that_a_recipe_names_are_missed_before_data_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "open_corpus", fail)
    with pytest.raises(RecipeError, match=r"model\.encoder\.weights"):
        session.train("caption-rnn", data="nowhere", out=tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()
