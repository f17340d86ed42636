"""Comparisons whose training runs several processes share out."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
import torch

from saccade.compare import joining
from saccade.compare.leases import Leases
from saccade.compare.worker import SupersededError, perform_in_worker
from saccade.errors import RunError
from tests.compare.test_worker import job_in, until
from tests.compare.tiny import BOTH, PLAIN, QUICK, perform_here, place, run, undrawn
from tests.training.runs import metrics

quick = pytest.fixture(scope="module", autouse=True)(undrawn)

MEASURED = {"seconds", "tokens_per_second", "peak_memory", "latency_seconds", "inputs_per_second"}
"""Measurements of time and memory, which differ from one training to the next."""
SHORT = 0.4
"""Seconds after which a process of these tests counts as dead."""


def comparable(table):
    """A part of compare.json without times, and without the folder of the data."""
    if isinstance(table, dict):
        kept = {name: value for name, value in table.items() if name not in MEASURED | {"data"}}
        return {name: comparable(value) for name, value in kept.items()}
    return [comparable(value) for value in table] if isinstance(table, list) else table


def results(folder):
    return comparable(json.loads((folder / "out" / "compare.json").read_text()))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The comparison by one process."""
    torch.set_num_threads(1)
    folder = place(tmp_path_factory.mktemp("alone") / "it")
    run(folder)
    return folder


def test_takes_over_the_training_of_a_dead_process_and_ends_like_one_process(alone, tmp_path):
    folder = place(tmp_path / "it")
    (folder / "out").mkdir()
    terms = {"recipes": ["looks", "plain"], "seeds": [0], "budget": "6 steps"}
    session = joining.join(folder / "out", terms)
    dead = Leases(session, holder="node7:99-dead").take("looks-0")
    done = []

    def note(job, notify):
        done.append(job.name)
        perform_here(job, notify)
        dead.beat()  # its last heartbeat, while plain is trained

    _, lines = run(folder, join=True, perform=note, lease_seconds=SHORT)
    assert done == ["plain", "looks"]
    assert "waiting for the training runs of others: looks, seed 0 (node7, process 99)" in lines
    assert results(folder) == results(alone)
    assert (folder / "out" / "compare.html").exists()
    assert joining.unfinished(folder / "out") is None


def test_failure_is_reported_by_every_process_and_tried_once(tmp_path):
    folder, attempts = place(tmp_path / "it"), []

    def refuse(job, notify):
        attempts.append(job.name)
        if job.name == "looks":
            raise RunError("looks cannot be trained here; try elsewhere")
        if len(attempts) == 2:
            raise KeyboardInterrupt
        perform_here(job, notify)

    with pytest.raises(KeyboardInterrupt):
        run(folder, join=True, perform=refuse)
    with pytest.raises(RunError, match=r"--join have begun to work .*join them.*remove"):
        run(folder, perform=refuse)
    comparison, _ = run(folder, join=True, perform=refuse)
    assert attempts == ["looks", "plain", "plain"]
    assert comparison.failures == [("looks", 0, "looks cannot be trained here; try elsewhere")]
    comparison, _ = run(folder, join=True, perform=perform_here)  # a new session tries it again
    assert comparison.failures == []


def test_process_that_lost_its_training_leaves_it_to_its_successor(tmp_path):
    folder, calls = place(tmp_path / "it"), []

    def superseded(job, notify):
        calls.append(job.name)
        if len(calls) == 1:
            raise SupersededError("another process has taken this training over")
        perform_here(job, notify)

    comparison, lines = run(folder, "{folder}/tiny.toml", join=True, perform=superseded)
    assert "tiny, seed 0: another process has taken this training over" in lines
    assert (calls, comparison.failures) == (["tiny", "tiny"], [])


WORKER = """
import sys
from saccade.compare import compare
folder, *changes = sys.argv[1:]
compare(
    [f"looks={folder}/tiny.toml", f"plain={folder}/tiny.toml"], data=f"{folder}/data",
    out=f"{folder}/out", changes=changes, max_steps=120, seeds=(0, 1), device="cpu", threads=1,
    cache=f"{folder}/cache", join=True, lease_seconds=8.0,
)
"""


def start(folder, log):
    changes = (*QUICK, PLAIN, "training.max_steps=120", "training.validate_every=60")
    command = [sys.executable, "-c", WORKER, str(folder), *changes]
    with log.open("a") as stream:
        return subprocess.Popen(command, stderr=stream)


def runs_of(process):
    """The training runs that a process holds."""
    names = set()
    for path in (process.folder / "out" / ".join").glob("*/*.[0-9]*"):
        text = path.read_text()
        if f":{process.pid}-" in text and '"held"' in text:
            names.add(path.stem)
    return names


@pytest.mark.slow
@pytest.mark.timeout(600)  # nine processes begin
def test_three_processes_one_killed_twice_train_everything_once(tmp_path):
    """Each training is made of one series of steps, and the results are those of one process."""
    folder, log = place(tmp_path / "it"), tmp_path / "log"
    workers = [start(folder, log) for _ in range(3)]
    for _ in range(2):
        victim = workers.pop(0)
        victim.folder = folder

        def is_training(victim=victim):
            names = runs_of(victim) - {"page"}
            files = [folder / "out" / "runs" / name / "metrics.jsonl" for name in names]
            return any(file.exists() and file.read_bytes().count(b"\n") > 10 for file in files)

        until(is_training)
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()
        workers.append(start(folder, log))
    for worker in workers:
        assert worker.wait(240) == 0, log.read_text()
    text = log.read_text()
    assert "resuming from step" in text
    finished = Counter(
        path.stem
        for path in (folder / "out" / ".join" / "1").glob("*.[0-9]*")
        if '"done"' in path.read_text()
    )
    names = ["looks-0", "looks-1", "plain-0", "plain-1"]
    assert finished == Counter([*names, "page"])
    for name in names:
        steps = [line["step"] for line in metrics(folder / "out" / "runs" / name)]
        assert steps == sorted(steps)
    single = place(tmp_path / "single")
    changes = ("training.validate_every=60",)
    run(single, *BOTH, changes=(PLAIN, *changes), max_steps=120, seeds=(0, 1))
    assert results(folder) == results(single)
    for name in names:
        mine, theirs = (root / "out" / "runs" / name for root in (folder, single))
        assert (mine / "model.safetensors").read_bytes() == (
            theirs / "model.safetensors"
        ).read_bytes()


@pytest.mark.slow
def test_training_whose_process_is_killed_saves_and_ends(tmp_path):
    folder = place(tmp_path / "it")
    job = job_in(folder, "training.max_steps=100000")
    code = "import sys, json; from saccade.compare import worker, training_job; "
    code += "worker.perform_in_worker(training_job.TrainingJob(**json.loads(sys.argv[1])), print)"
    parent = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(vars(job))], stdout=subprocess.DEVNULL
    )
    file = folder / "run" / "metrics.jsonl"
    until(lambda: file.exists() and file.read_bytes().count(b"\n") > 10)
    parent.kill()
    parent.wait()
    progress = folder / "measured" / "trained.json"
    until(progress.exists, 30)  # it is written when training has saved
    before = file.read_bytes()
    time.sleep(1)
    assert file.read_bytes() == before


@pytest.mark.slow
def test_training_ends_when_another_process_has_taken_it_over(tmp_path):
    folder = place(tmp_path / "it")
    job = job_in(folder, "training.max_steps=100000")
    job = type(job)(**{**vars(job), "successor": str(folder / "job.2")})

    def supersede(line):
        if line.startswith("step "):
            (folder / "job.2").touch()

    with pytest.raises(SupersededError, match="taken this training over"):
        perform_in_worker(job, supersede)
