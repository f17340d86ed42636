"""Two processes under torchrun: the same training as one, also when one of them dies."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
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
        """Their process numbers, by rank."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self.process.pid:
                    values = (folder / "environ").read_bytes().split(b"\0")
                    pairs = dict(value.split(b"=", 1) for value in values if b"=" in value)
                    found[int(pairs[b"RANK"])] = int(folder.name)
            except (OSError, KeyError, ValueError):
                continue
        return found

    def until(self, condition, seconds=120):
        end = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(self.end())
            time.sleep(0.01)

    def end(self):
        """Its exit code, and what was said."""
        try:
            _, said = self.process.communicate(timeout=150)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGTERM)
            _, said = self.process.communicate(timeout=60)
            raise AssertionError(f"it hangs: {said}") from None
        return self.process.returncode, said


linux = pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One process that takes two batches for an update, with dropout."""
    torch.set_num_threads(1)
    folder = prepare(tmp_path_factory.mktemp("two") / "it")
    train(folder, "one")
    return folder


def length_group(folder, one, other):
    """The same curves, and nearly the same weights."""
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


def test_two_processes_are_one_that_takes_two_batches(whole):
    """Dropout agrees too, for it depends on the batch and not on who reads it."""
    run = Torchrun(*arguments(whole, "two", "--set", "training.accumulate=1"))
    code, said = run.end()
    assert code == 0, said
    assert said.count("all 12 steps are done") == 1  # one of them speaks
    length_group(whole, "one", "two")


class Alone:
    """`saccade train --processes 2`, without torchrun."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "saccade", *arguments, "--processes", "2"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    end = Torchrun.end


def test_so_are_two_that_saccade_starts_itself(whole):
    code, said = Alone(*arguments(whole, "self", "--set", "training.accumulate=1")).end()
    assert code == 0, said
    assert said.count("all 12 steps are done") == 1
    length_group(whole, "one", "self")


def test_its_mistakes_and_signals_are_those_of_one(whole):
    code, said = Alone(*arguments(whole, "one", "--max-steps", "20")).end()
    assert code == 2, said
    assert said.count("holds a run already; go on with it by --resume") == 1
    assert "Traceback" not in said
    run = Alone(*arguments(whole, "stopped", "--max-steps", "100000"))
    deadline = time.monotonic() + 60
    while not (whole / "stopped" / "model.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    run.process.send_signal(signal.SIGTERM)
    code, said = run.end()
    assert code == 130, said
    assert "--processes 2 --resume" in said


@linux
@pytest.mark.parametrize(
    "rank", [0, pytest.param(1, marks=pytest.mark.slow)], ids=["the first", "the other"]
)
def test_a_killed_process_is_replaced(whole, rank):
    out = f"killed-{rank}"
    more = ("--set", "training.accumulate=1", "--set", "training.checkpoint_every=2")
    run = Torchrun(*arguments(whole, out, *more, "--max-steps", "40"), restarts=3)
    run.until(lambda: checkpoint.steps(whole / out / "checkpoints"))
    os.kill(run.workers()[rank], signal.SIGKILL)
    code, said = run.end()
    assert code == 0, said
    assert "going on from step " in said
    train(whole, f"undisturbed-{rank}", "training.checkpoint_every=2", max_steps=40)
    length_group(whole, f"undisturbed-{rank}", out)


@linux
@pytest.mark.slow
def test_a_mistake_is_said_once_and_not_tried_again(whole):
    """A run that exists is refused, and a restart does not take that for leave to resume it."""
    before = (whole / "one" / "metrics.jsonl").read_bytes()
    code, said = Torchrun(*arguments(whole, "one", "--max-steps", "20"), restarts=1).end()
    assert code != 0
    assert "holds a run already; go on with it by --resume" in said
    assert "rank1]: Traceback" not in said
    assert "Connection closed" not in said
    assert (whole / "one" / "metrics.jsonl").read_bytes() == before


@linux
@pytest.mark.slow
def test_sigterm_stops_all_and_says_how_to_go_on(whole):
    more = ("--set", "training.accumulate=1", "--max-steps", "100000")
    run = Torchrun(*arguments(whole, "terminated", *more))
    run.until(lambda: checkpoint.steps(whole / "terminated" / "checkpoints"))
    began = time.monotonic()
    run.process.send_signal(signal.SIGTERM)
    _, said = run.end()
    assert time.monotonic() - began < 15
    assert "rank1]: Traceback" not in said
    assert said.count("To resume:\n  torchrun --nproc-per-node 2 -m saccade train ") == 1
    newest = checkpoint.newest(whole / "terminated" / "checkpoints")
    assert f"stopped at step {newest.step}" in said


# while the first process works alone


@pytest.fixture(scope="module")
def meetings():
    """What two processes come to whose collectives wait a second, by scenario and rank."""
    command = [sys.executable, "-m", "tests.training.meetings", "1.5", "4"]
    child = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    lines = [json.loads(line) for line in child.stdout.splitlines()]
    return {(line.pop("scenario"), line.pop("rank")): line for line in lines}


@linux
def test_work_of_the_first_may_take_longer_than_a_collective(meetings):
    result = {"found": [[1.5, float("inf")], True], "sums": [[2.0], [3.0]]}
    assert meetings["long", 0] == meetings["long", 1] == result


@linux
@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        ("mistake", "RunError: this folder holds a run already"),
        ("failure", "RunError: the first of the processes failed (ValueError: a bug)"),
        ("death", "RunError: the connection to the first of the processes was lost"),
    ],
)
def test_the_others_do_not_wait_for_a_first_that_failed(meetings, scenario, message):
    assert meetings[scenario, 1]["error"].startswith(message)


SLOW_FIRST = """
import sys, time
from datetime import timedelta
from pathlib import Path
from saccade.tasks.text_to_text import Config
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
slowly(Config, "fresh")
slowly(Trainer, "measure")
train(Path(sys.argv[1]), "slow", "training.accumulate=1", world=distributed.from_environment())
"""


@pytest.mark.slow
def test_vocabularies_and_validations_may_take_longer_than_a_collective(whole):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", SLOW_FIRST, str(whole)],
            env={**os.environ, **world, "RANK": rank, "LOCAL_RANK": rank, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in ("0", "1")
    ]
    for rank in ranks:
        said = rank.communicate(timeout=200)[1]
        assert rank.returncode == 0, said
    length_group(whole, "one", "slow")


# each process on a GPU of its own


class Gpus:
    """Four GPUs that are not there: notes what is asked of them."""

    def __init__(self, patch, count=4):
        self.calls = []
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "device_count", lambda: count)
        patch.setattr(torch.cuda, "set_device", lambda device: self.note("set_device", device))
        for name in ("zeros", "tensor"):
            patch.setattr(torch, name, self.on_cpu(name, getattr(torch, name)))
        patch.setattr(distributed, "DistributedDataParallel", self.Wrapped)
        patch.setattr(distributed, "TCPStore", lambda *_, **__: torch.distributed.HashStore())
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


def test_a_process_without_a_gpu_of_its_own_raises(monkeypatch):
    Gpus(monkeypatch, count=2)
    with pytest.raises(RecipeError, match=r"process 2 .* needs a GPU .* there are 2\. Start"):
        pick_device("auto", 2)


def test_a_training_computes_on_the_device_of_its_local_rank(place, monkeypatch):
    """What the command line hands down reaches the group of processes."""

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
    found = [path for path in folder.rglob("*.py") if "torch._C" in path.read_text("utf-8")]
    assert not found


def test_a_world_of_one():
    world = World()
    assert world.first
    assert world.sum([1.5, 2.0]) == [1.5, 2.0]
    world.wait()
    module = torch.nn.Linear(1, 1)
    assert world.wrap(module) is module
    with world.alone(module), distributed.joined(world) as same:
        assert same == world


def test_what_torchrun_says(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    assert distributed.from_environment() == World()
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    assert distributed.from_environment() == World(rank=3, size=4, local_rank=1, attempt=2)
    assert not distributed.from_environment().first
