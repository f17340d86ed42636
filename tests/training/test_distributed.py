"""Two processes under torchrun: the same training as one, also when one of them is killed."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from saccade.errors import RecipeError
from saccade.training import checkpoint, distributed, session
from saccade.training.console import Console
from saccade.training.distributed import World
from saccade.training.precision import pick_device
from tests.training.runs import arguments, metrics, prepare, train

EXACT = {"rel": 1e-4, "abs": 1e-4}


class Torchrun:
    """`torchrun --nproc-per-node 2 -m saccade ...`."""

    def __init__(self, *arguments, restarts=0, processes=2):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
        command += [f"--max-restarts={restarts}", f"--master-port={port}", "-m", "saccade"]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [*command, *arguments], stderr=subprocess.PIPE, text=True, env=env
        )

    def workers(self):
        """Return the ids of the worker processes, by rank."""
        workers = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self.process.pid:
                    values = (folder / "environ").read_bytes().split(b"\0")
                    pairs = dict(value.split(b"=", 1) for value in values if b"=" in value)
                    workers[int(pairs[b"RANK"])] = int(folder.name)
            except (OSError, KeyError, ValueError):
                continue
        return workers

    def until(self, condition, seconds=120):
        end = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(self.end())
            time.sleep(0.01)

    def end(self):
        """Return the exit code and the output."""
        try:
            _, output = self.process.communicate(timeout=150)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGTERM)
            _, output = self.process.communicate(timeout=60)
            raise AssertionError(f"the processes hang: {output}") from None
        return self.process.returncode, output


linux = pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """A training run by one process with two batches per update and dropout."""
    torch.set_num_threads(1)
    folder = prepare(tmp_path_factory.mktemp("two") / "it")
    train(folder, "one")
    return folder


def assert_same_training(folder, one, other):
    """Compare two runs: the same curves, and nearly the same weights."""
    ours, theirs = metrics(folder / one), metrics(folder / other)
    assert [line["step"] for line in ours] == [line["step"] for line in theirs]
    for mine, yours in zip(ours, theirs, strict=True):
        for name in ("loss", "gradient", "learning_rate", "train_loss", "valid_loss", "epoch"):
            assert mine.get(name, 0) == pytest.approx(yours.get(name, 0), **EXACT), (mine, yours)
        assert mine.get("predictions") == yours.get("predictions")
    weights = [load_file(folder / out / "model.safetensors") for out in (one, other)]
    for name, tensor in weights[0].items():
        assert torch.allclose(tensor, weights[1][name], atol=1e-4), name
    steps = [checkpoint.steps(folder / out / "checkpoints") for out in (one, other)]
    assert steps[0] == steps[1]


@pytest.mark.slow  # `make test` starts two processes with saccade, the same code
def test_two_processes_equal_one(complete):
    """Dropout agrees, too: it depends on the batch, not on the process that reads it."""
    run = Torchrun(*arguments(complete, "two"))
    code, output = run.end()
    assert code == 0, output
    assert output.count("all 12 steps are done") == 1  # only the first process prints
    assert_same_training(complete, "one", "two")


class Alone:
    """`saccade train --processes 2`, without torchrun."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "saccade", *arguments, "--processes", "2"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    end = Torchrun.end


MUON = ("model.dim=16", "model.encoder.dim=16", "model.decoder.dim=32", "training.optim.kind=muon")


def test_two_processes_started_by_saccade_equal_one(complete):
    """They divide the matrices of Muon among them."""
    train(complete, "muon", *MUON)
    changes = [part for change in MUON for part in ("--set", change)]
    code, output = Alone(*arguments(complete, "self", *changes)).end()
    assert code == 0, output
    assert output.count("all 12 steps are done") == 1
    assert "Warning" not in output
    assert_same_training(complete, "muon", "self")


@linux
@pytest.mark.slow
def test_processes_train_an_image_model_without_warnings(tmp_path):
    command = ["train", "vit-tiny", "--data", "builtin:digits", "--out", tmp_path / "run"]
    code, output = Alone(*command, "--max-steps", "3").end()
    assert code == 0, output
    assert "Warning" not in output


def test_processes_started_by_saccade_report_mistakes_and_signals_once(complete):
    code, output = Alone(*arguments(complete, "one", "--max-steps", "20")).end()
    assert code == 2, output
    assert output.count("already holds a run; resume it with --resume") == 1
    assert "Traceback" not in output
    run = Alone(*arguments(complete, "stopped", "--max-steps", "100000"))
    deadline = time.monotonic() + 60
    while not (complete / "stopped" / "model.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    run.process.send_signal(signal.SIGTERM)
    code, output = run.end()
    assert code == 130, output
    assert output.count("\n  saccade train ") == 1
    assert "--processes 2 --resume" in output


@linux
@pytest.mark.slow
def test_a_killed_process_started_by_saccade_is_replaced(complete):
    more = ("--set", "training.checkpoint_every=2", "--max-steps", "40")
    run = Alone(*arguments(complete, "replaced", *more))
    Torchrun.until(run, lambda: checkpoint.steps(complete / "replaced" / "checkpoints"))
    os.kill(Torchrun.workers(run)[1], signal.SIGKILL)
    code, output = run.end()
    assert code == 0, output
    assert "all processes start again from the newest checkpoint" in output
    assert "Traceback" not in output
    train(complete, "not-replaced", "training.checkpoint_every=2", max_steps=40)
    assert_same_training(complete, "not-replaced", "replaced")


@linux
@pytest.mark.slow  # a minute: seven processes start, one after the other
@pytest.mark.parametrize("rank", [0, 1], ids=["first", "other"])
def test_a_killed_process_is_replaced(complete, rank):
    out = f"killed-{rank}"
    more = ("--set", "training.checkpoint_every=2")
    run = Torchrun(*arguments(complete, out, *more, "--max-steps", "40"), restarts=3)
    run.until(lambda: checkpoint.steps(complete / out / "checkpoints"))
    os.kill(run.workers()[rank], signal.SIGKILL)
    code, output = run.end()
    assert code == 0, output
    assert "resuming from step " in output
    train(complete, f"undisturbed-{rank}", "training.checkpoint_every=2", max_steps=40)
    assert_same_training(complete, f"undisturbed-{rank}", out)


@linux
@pytest.mark.slow
def test_a_mistake_is_reported_once_and_not_retried(complete):
    """An existing run raises, and a restart does not resume it."""
    before = (complete / "one" / "metrics.jsonl").read_bytes()
    code, output = Torchrun(*arguments(complete, "one", "--max-steps", "20"), restarts=1).end()
    assert code != 0
    assert "already holds a run; resume it with --resume" in output
    assert "rank1]: Traceback" not in output
    assert "Connection closed" not in output
    assert (complete / "one" / "metrics.jsonl").read_bytes() == before


@linux
@pytest.mark.slow
def test_sigterm_stops_all_processes_and_prints_how_to_resume(complete):
    more = ("--max-steps", "100000")
    run = Torchrun(*arguments(complete, "terminated", *more))
    run.until(lambda: checkpoint.steps(complete / "terminated" / "checkpoints"))
    began = time.monotonic()
    run.process.send_signal(signal.SIGTERM)
    _, output = run.end()
    assert time.monotonic() - began < 15
    assert "rank1]: Traceback" not in output
    used = shlex.join([arg for arg in run.process.args if arg != "--resume"])
    assert output.count(f"\n  {used} --resume") == 1  # the command line that was used
    newest = checkpoint.newest(complete / "terminated" / "checkpoints")
    assert f"stopped at step {newest.step}" in output


# while the first process works alone


@pytest.fixture(scope="module")
def meetings():
    """The outcomes of two processes with a short timeout of collectives, by scenario and rank."""
    command = [sys.executable, "-m", "tests.training.meetings", "1.5", "4"]
    child = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    lines = [json.loads(line) for line in child.stdout.splitlines()]
    return {(line.pop("scenario"), line.pop("rank")): line for line in lines}


def test_processes_of_a_new_attempt_meet_although_the_store_is_not_empty():
    """Agents count their attempts by themselves, and earlier processes leave keys in the store."""
    store = torch.distributed.HashStore()
    for attempts in ((0, 0, 0), (1, 0, 1), (2, 1, 0)):
        worlds = [
            World(rank=rank, size=3, local_rank=int(rank == 2), attempt=attempt)
            for rank, attempt in enumerate(attempts)
        ]
        with ThreadPoolExecutor(3) as threads:
            met = list(threads.map(partial(distributed._met, store), worlds))
        assert len({name for name, _ in met}) == 1
        assert {world.attempt for _, world in met} == {max(attempts)}
        assert {world.leaders for _, world in met} == {(0, 1)}


@linux
def test_work_of_the_first_process_may_outlast_the_timeout_of_collectives(meetings):
    result = {"result": [[1.5, float("inf")], True], "sums": [[2.0], [3.0]]}
    assert meetings["long", 0] == meetings["long", 1] == result


@linux
@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        ("mistake", "RunError: this folder already holds a run"),
        ("failure", "LostProcessError: the first process failed (ValueError: a bug)"),
        ("death", "LostProcessError: the connection to the first process was lost"),
    ],
)
def test_other_processes_raise_when_the_first_fails(meetings, scenario, message):
    assert meetings[scenario, 1]["error"].startswith(message)


SLOW_FIRST = """
import sys, time
from datetime import timedelta
from pathlib import Path
from saccade.tasks.text_to_text import TextToTextConfig
from saccade.training import distributed
from saccade.training.loop import Trainer
from tests.training.runs import train

def slowly(owner, name):
    plain = getattr(owner, name)
    def slow(*args, **options):
        time.sleep(10)
        return plain(*args, **options)
    setattr(owner, name, slow)

distributed.LIMIT = timedelta(seconds=5)
slowly(TextToTextConfig, "create")
slowly(Trainer, "measure")
train(Path(sys.argv[1]), "slow", world=distributed.from_environment())
"""


@pytest.mark.slow
def test_vocabularies_and_validations_may_outlast_the_timeout_of_collectives(complete):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", SLOW_FIRST, str(complete)],
            env={**os.environ, **world, "RANK": rank, "LOCAL_RANK": rank, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in ("0", "1")
    ]
    for rank in ranks:
        output = rank.communicate(timeout=200)[1]
        assert rank.returncode == 0, output
    assert_same_training(complete, "one", "slow")


# each process on a GPU of its own


class Gpus:
    """Imaginary GPUs that record how they are used."""

    def __init__(self, patch, count=4):
        self.calls = []
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "device_count", lambda: count)
        patch.setattr(torch.cuda, "set_device", lambda device: self.note("set_device", device))
        for name in ("zeros", "tensor"):
            patch.setattr(torch, name, self.on_cpu(name, getattr(torch, name)))
        patch.setattr(distributed, "DistributedDataParallel", self.Wrapped)
        patch.setattr(distributed, "TCPStore", lambda *_, **__: torch.distributed.HashStore())
        patch.setattr(distributed, "_met", lambda store, world: ("met", world))
        patch.setattr(torch.distributed, "init_process_group", self.init)
        patch.setattr(
            torch.distributed, "destroy_process_group", lambda: self.note("destroy", None)
        )
        patch.setattr(torch.distributed, "all_reduce", lambda values: values.mul_(2))

    class Wrapped(torch.nn.Module):
        def __init__(self, module, device_ids):
            super().__init__()
            self.device_ids = device_ids

    def note(self, name, device):
        self.calls.append((name, device))

    def on_cpu(self, name, plain):
        def call(*args, device=None, **options):
            self.note(name, device)
            return plain(*args, **options)

        return call

    def init(self, backend, *, device_id, **_):
        self.note(backend, device_id)


@pytest.mark.parametrize("name", ["auto", "cuda", "cuda:0"])
@pytest.mark.parametrize("rank", [0, 3])
def test_each_process_uses_the_gpu_of_its_local_rank(monkeypatch, name, rank):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "0")
    gpus = Gpus(monkeypatch)
    own = torch.device("cuda", rank)
    world = World(rank=rank + 4, size=8, local_rank=rank, device=pick_device(name, rank))
    with distributed.joined(world) as world:
        assert world.wrap(torch.nn.Linear(1, 1)).device_ids == [own]
        assert world.sum([1.0, 2.0]) == [2.0, 4.0]
    order = ["zeros", "set_device", "nccl", "tensor", "destroy"]
    assert gpus.calls == [(call, None if call == "destroy" else own) for call in order]


def test_raises_if_a_process_has_no_gpu_of_its_own(monkeypatch):
    Gpus(monkeypatch, count=2)
    with pytest.raises(
        RecipeError, match=r"process 2 .* needs a GPU .* number of GPUs is 2\. Start"
    ):
        pick_device("auto", 2)


def test_a_training_computes_on_the_device_of_its_local_rank(place, monkeypatch):
    """The device that `train` picks reaches the group of processes."""

    class Reached(Exception):
        pass

    def joined(world):
        raise Reached(str(world.device))

    Gpus(monkeypatch)
    monkeypatch.setattr(distributed, "joined", joined)
    with pytest.raises(Reached, match="cuda:1"):
        session.train(
            place / "tiny.toml",
            data=place / "data",
            out=place / "run",
            device="auto",
            precision="float32",
            world=World(rank=1, size=2, local_rank=1),
            console=Console(quiet=True),
        )


def test_no_private_names_of_torch_distributed():
    folder = Path(distributed.__file__).parents[1]
    private = re.compile(r"torch\._C\._(distributed|c10d)|torch\.distributed\._")
    assert not [path for path in folder.rglob("*.py") if private.search(path.read_text("utf-8"))]


def test_a_single_process_needs_no_group():
    world = World()
    assert world.first
    assert world.sum([1.5, 2.0]) == [1.5, 2.0]
    world.wait()
    module = torch.nn.Linear(1, 1)
    assert world.wrap(module) is module
    with world.alone(module), distributed.joined(world) as same:
        assert same == world


def test_world_is_read_from_the_environment_of_torchrun(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    assert distributed.from_environment() == World()
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    assert distributed.from_environment() == World(rank=3, size=4, local_rank=1, attempt=2)
    assert not distributed.from_environment().first
