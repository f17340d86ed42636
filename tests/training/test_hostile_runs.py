"""Damaged and hostile run folders load, or raise a SaccadeError that names the fault."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tomlkit

import saccade
from saccade import cli
from saccade.errors import SaccadeError
from saccade.training.manifest import MANIFEST
from tests.training import hostile


def tried(folder: Path, rounds: int, seed: int, timeout: float) -> dict[str, int]:
    """Count the outcomes; fail if one is neither a prediction nor a SaccadeError."""
    log = folder / "log"
    with log.open("w") as file:
        try:
            ended = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "tests.training.hostile",
                    str(folder),
                    f"{rounds}",
                    f"{seed}",
                ],
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=timeout,
                cwd=Path(__file__).parents[2],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            ).returncode
        except subprocess.TimeoutExpired:
            ended = "too long"
    lines = log.read_text().splitlines()
    faults = [line for line in lines if line.startswith("fault ")]
    assert not faults, "\n".join("\n".join(json.loads(line[6:])) for line in faults[:5])
    assert ended == 0, (ended, lines[-5:])
    return json.loads(lines[-1].removeprefix("done "))


def test_damaged_runs_load_or_raise_saccade_error(tmp_path):
    counts = tried(tmp_path, rounds=20, seed=0, timeout=250)
    assert counts["answer"] > 5
    assert counts["error"] > 50


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(1, 4))
def test_many_damaged_runs_load_or_raise_saccade_error(tmp_path, seed):
    tried(tmp_path, rounds=500, seed=seed, timeout=1500)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of two tasks, and data."""
    folder = tmp_path_factory.mktemp("hostile")
    hostile.write_data(folder / "data")
    for task in ("transformer", "text_classification"):
        hostile.make_run(task, folder / "data", folder / task)
    return folder


@pytest.fixture
def run(runs, tmp_path):
    shutil.copytree(runs / "text_classification", tmp_path / "run")
    (tmp_path / "run" / MANIFEST).unlink()
    return tmp_path / "run"


def set_key(path: Path, key: str, value: object) -> None:
    """In a JSON or TOML file."""
    reader, writer = (
        (tomlkit.parse, tomlkit.dumps) if path.suffix == ".toml" else (json.loads, json.dumps)
    )
    table = reader(path.read_text())
    *owners, last = key.split("/")
    owner = table
    for name in owners:
        owner = owner[name]
    owner[last] = value
    path.write_text(writer(table))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def token_far_away(path: Path) -> None:
    table = json.loads(path.read_text())
    table["model"]["vocab"][next(reversed(table["model"]["vocab"]))] = 4_000_000_000
    path.write_text(json.dumps(table))


DAMAGE = {
    "a width beyond all numbers": (
        lambda run: set_key(run / "recipe.toml", "model/dim", 99999999999999999999),
        "cannot be built",
    ),
    "a width of terabytes": (
        lambda run: set_key(run / "recipe.toml", "model/dim", 2**20),
        r"model\.safetensors: .* has shape .*, the model needs",
    ),
    "a billion layers": (
        lambda run: set_key(run / "recipe.toml", "model/encoder/num_layers", 10**9),
        r"recipe\.toml describes a model of more than \d+ tensors",
    ),
    "a pipe as recipe": (lambda run: pipe(run / "recipe.toml"), "recipe.toml.*named pipe"),
    "a pipe as run.json": (lambda run: pipe(run / "run.json"), "run.json.*named pipe"),
    "a pipe as weights": (lambda run: pipe(run / "model.safetensors"), "named pipe"),
    "a pipe as vocabulary": (lambda run: pipe(run / "tokenizer.json"), "named pipe"),
    "a pipe as labels": (lambda run: pipe(run / "labels.json"), "labels.json.*named pipe"),
    "deep JSON": (
        lambda run: (run / "classifier.json").write_text("[" * 200_000),
        "classifier.json cannot be read: .*nested too deeply",
    ),
    "deep TOML": (
        lambda run: (run / "recipe.toml").write_text("x = " + "[" * 20_000),
        r"recipe\.toml",
    ),
    "a token far away": (lambda run: token_far_away(run / "tokenizer.json"), "4,000,000,000"),
    "no number": (
        lambda run: set_key(run / "classifier.json", "temperature", float("nan")),
        "temperature must be a number above 0, got nan",
    ),
    "labels that are no texts": (
        lambda run: set_key(run / "labels.json", "names", [1, 2]),
        "labels.json cannot be read: .*names must be a list of texts",
    ),
    "a folder as labels": (
        lambda run: (os.unlink(run / "labels.json"), os.mkdir(run / "labels.json")),
        "labels.json.*it is a folder",
    ),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_damage_is_named_and_exits_with_2(run, how, monkeypatch, capsys):
    damage, message = DAMAGE[how]
    damage(run)
    began = time.monotonic()
    with pytest.raises(SaccadeError, match=f"(?s){message}"):
        saccade.load(run)
    monkeypatch.setattr(sys, "argv", ["saccade", "predict", str(run), "a house"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert "Traceback" not in printed.err
    assert time.monotonic() - began < 30


def test_the_manifest_detects_a_valid_but_changed_file(runs, tmp_path):
    """A vocabulary in which two tokens changed places loads, unless a manifest lists it."""
    run = shutil.copytree(runs / "transformer", tmp_path / "run")
    table = json.loads((run / "tokenizer.json").read_text())
    vocabulary = table["model"]["vocab"]
    one, other = list(vocabulary)[-2:]
    vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]
    (run / "tokenizer.json").write_text(json.dumps(table))
    with pytest.raises(SaccadeError, match=r"tokenizer\.json is damaged or was changed"):
        saccade.load(run)
    (run / MANIFEST).unlink()
    saccade.load(run)
