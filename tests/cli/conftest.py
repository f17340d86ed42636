"""A tiny run for the tests of the command line, and a way to call verbs in this process."""

import io
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from saccade import cli
from saccade.data import sources
from saccade.training import console, session
from saccade.training import recipe as recipes
from saccade.training.console import Console
from saccade.training.run import Run

SMALL = (
    "model.dim=16",
    "model.encoder.dim=16",
    "model.decoder.dim=16",
    "training.batch_tokens=256",
    "training.validate_items=4",
    "generation.max_length=8",
)


@dataclass(frozen=True)
class Result:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.removesuffix("\n").split("\n")


def letters(count: int) -> list[str]:
    """Return different short sequences of letters."""
    sequences = []
    for number in range(count):
        digits = f"{number * 7919 % 65536:x}"
        sequences.append(" ".join("abcdefghijklmnop"[int(digit, 16)] for digit in digits))
    return sequences


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.tsv and test.tsv: letters, and the same letters reversed."""
    folder = tmp_path_factory.mktemp("pairs")
    rows = [f"{text}\t{' '.join(reversed(text.split()))}\n" for text in letters(80)]
    (folder / "train.tsv").write_text("source\ttarget\n" + "".join(rows[:70]))
    (folder / "test.tsv").write_text("source\ttarget\n" + "".join(rows[70:]))
    return folder


@pytest.fixture(scope="session")
def run(pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of an RNN with attention after a few steps."""
    folder = tmp_path_factory.mktemp("runs") / "reverse"
    session.train(
        "reverse",
        data=pairs,
        out=folder,
        changes=SMALL,
        max_steps=6,
        device="cpu",
        cache=folder.parent / "cache",
        console=Console(quiet=True),
    )
    return folder


def begin(folder: Path, name: str, data: Path, *changes: str, weights: bool = True) -> Path:
    """Create a run that has not been trained."""
    chosen = recipes.load(name, [*SMALL, *changes])
    corpus = sources.open_corpus(data, chosen.options.columns)
    task = chosen.options.create(corpus.splits["train"])
    folder.mkdir()
    Run(folder).begin(chosen, task, {})
    if weights:
        Run(folder).keep_best(task.model)
    return folder


@pytest.fixture(scope="session")
def without_attention(pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of an RNN without attention."""
    return begin(tmp_path_factory.mktemp("runs") / "rnn", "rnn", pairs, "text.source.size=300")


Call = Callable[..., Result]


@pytest.fixture
def saccade(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Call:
    """Give `saccade(verb, option, ..., stdin=...)`, which runs a command in this process."""

    def call(*arguments: object, stdin: bytes | None = b"") -> Result:
        stream = None if stdin is None else io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", stream)
        monkeypatch.setattr(sys, "argv", ["saccade", *map(str, arguments)])
        monkeypatch.setattr(console, "SILENCE", threading.TIMEOUT_MAX)  # also on a busy machine
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capfdbinary.readouterr()
        result = Result(int(ended.value.code or 0), out.decode(), err.decode())
        assert "Traceback" not in result.err
        return result

    return call
