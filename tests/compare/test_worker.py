"""A training run in a process of its own: killed, resumed, failed, and interrupted."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from saccade.compare.training_job import TrainingJob, completed
from saccade.compare.worker import perform_in_worker
from saccade.errors import TrainingError
from saccade.training import checkpoint
from saccade.training import recipe as recipes
from tests.compare.tiny import place

pytestmark = (
    pytest.mark.slow
)  # each worker imports torch; tests/cli/test_compare.py starts two as well


def job_in(folder, *changes):
    (folder / "it.toml").write_text(recipes.load(folder / "tiny.toml", changes).to_toml())
    return TrainingJob(
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
    """Return the running processes that this one started."""
    listed = f"/proc/{os.getpid()}/task/{threading.get_native_id()}/children"
    with open(listed) as file:
        return [int(number) for number in file.read().split()]


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs Linux's list of children")
def test_killed_training_is_reported_and_resumed(tmp_path):
    folder = place(tmp_path / "it")
    job = job_in(folder, "training.max_steps=40", "training.log_every=1")
    lines, before = [], set(children())

    def kill(line):
        lines.append(line)
        if line.startswith("step 8 "):  # a validation, after a checkpoint of step 6
            (worker,) = set(children()) - before
            os.kill(worker, signal.SIGKILL)

    with pytest.raises(TrainingError, match="ended by signal 9"):
        perform_in_worker(job, kill)
    assert completed(job) is None
    saved = checkpoint.steps(folder / "run" / "checkpoints")[-1]
    assert 6 <= saved < 40
    perform_in_worker(job, lines.append)
    assert f"resuming from step {saved}" in lines
    measurements = completed(job)
    assert measurements.training.steps == 40
    assert measurements.training.peak_memory > 50e6
    assert recipes.load(folder / "run" / "recipe.toml").training.seed == 3


def test_error_message_is_the_last_line_of_the_worker(tmp_path):
    folder = place(tmp_path / "it")
    job = job_in(folder)
    (folder / "data" / "train.tsv").write_text("first\tsecond\na\tb\n")
    lines = []
    with pytest.raises(TrainingError, match='has no column "source"'):
        perform_in_worker(job, lines.append)
    assert not any("Traceback" in line for line in lines)


def test_interrupted_comparison_saves_and_prints_how_to_resume(tmp_path):
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
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert "everything is saved in" in errors
    assert errors.splitlines()[-1].strip() == "saccade " + " ".join(arguments)
    steps = checkpoint.steps(folder / "out" / "runs" / "tiny-0" / "checkpoints")
    progress = json.loads((folder / "out" / "measured" / "tiny-0" / "trained.json").read_text())
    assert steps[-1] > 5
    assert progress["budget"] is None
    assert progress["peak_memory"] > 50e6
