"""A training in a process of its own: killed, gone on with, failed, and told to stop."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from saccade.compare.child import in_child
from saccade.compare.work import Job, found
from saccade.errors import TrainingError
from saccade.training import checkpoint
from saccade.training import recipe as recipes
from tests.compare.tiny import place

pytestmark = pytest.mark.slow  # each child loads torch; tests/cli/test_compare.py has two, too


def job_in(folder, *changes):
    (folder / "it.toml").write_text(recipes.load(folder / "tiny.toml", changes).to_toml())
    return Job(
        name="it",
        seed=3,
        recipe=str(folder / "it.toml"),
        run=str(folder / "run"),
        measured=str(folder / "measured"),
        data=str(folder / "data"),
        cache=str(folder / "cache"),
        threads=1,
    )


def until(there, seconds=240.0):
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end
        time.sleep(0.05)


def children():
    """The processes that this one started and that run."""
    listed = f"/proc/{os.getpid()}/task/{threading.get_native_id()}/children"
    with open(listed) as file:
        return [int(number) for number in file.read().split()]


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs Linux's list of children")
def test_a_killed_training_is_reported_and_goes_on(tmp_path):
    folder = place(tmp_path / "it")
    job = job_in(folder, "training.max_steps=40", "training.log_every=1")
    said, before = [], set(children())

    def kill(line):
        said.append(line)
        if line.startswith("step 8 "):  # a validation, after a checkpoint of step 6
            (child,) = set(children()) - before
            os.kill(child, signal.SIGKILL)

    with pytest.raises(TrainingError, match="ended by signal 9"):
        in_child(job, kill)
    assert found(job) is None
    saved = checkpoint.steps(folder / "run" / "checkpoints")[-1]
    assert 6 <= saved < 40
    in_child(job, said.append)
    assert f"resuming from step {saved}" in said
    told = found(job)
    assert told.training.steps == 40
    assert told.training.peak_memory > 50e6
    assert recipes.load(folder / "run" / "recipe.toml").training.seed == 3


def test_a_failure_is_its_last_line(tmp_path):
    folder = place(tmp_path / "it")
    job = job_in(folder)
    (folder / "data" / "train.tsv").write_text("first\tsecond\na\tb\n")
    said = []
    with pytest.raises(TrainingError, match='has no column "source"'):
        in_child(job, said.append)
    assert not any("Traceback" in line for line in said)


def test_a_comparison_that_is_told_to_stop_saves_and_says_how_to_go_on(tmp_path):
    folder = place(tmp_path / "it")
    arguments = ["compare", str(folder / "tiny.toml"), "--data", str(folder / "data")]
    arguments += ["--out", str(folder / "out"), "--max-steps", "100000", "--threads", "1"]
    arguments += ["--cache", str(folder / "cache")]
    process = subprocess.Popen(
        [sys.executable, "-m", "saccade", *arguments], stderr=subprocess.PIPE, text=True
    )
    metrics = folder / "out" / "runs" / "tiny-0" / "metrics.jsonl"
    until(lambda: metrics.exists() and metrics.read_bytes().count(b"\n") > 10)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert "everything is saved in" in said
    assert said.splitlines()[-1].strip() == "saccade " + " ".join(arguments)
    steps = checkpoint.steps(folder / "out" / "runs" / "tiny-0" / "checkpoints")
    noted = json.loads((folder / "out" / "measured" / "tiny-0" / "trained.json").read_text())
    assert steps[-1] > 5
    assert noted["budget"] is None
    assert noted["peak_memory"] > 50e6
