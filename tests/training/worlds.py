"""Trainings in several processes, which are forks of one that has torch loaded already.

As a script it reads jobs from a file, one JSON object per line, and runs their parts one after the
other: `python -m tests.training.worlds FOLDER JOBS`. A part of a job is one start of a training:

    {"out": "run", "recipe": "tiny.toml", "parts": [{"world": 2, "stop": 5}, {"world": 1}]}

A part with "stop" is interrupted at that step. Trainings are in float64 unless a job has another
"dtype". Each process writes how many bytes of weights, gradients and optimizer it holds at its last
checkpoint into `OUT-RANK.bytes`.
"""

import json
import os
import socket
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path

import torch

from saccade.errors import StoppedError
from saccade.training import distributed, session
from saccade.training.console import Console
from saccade.training.distributed import World
from saccade.training.loop import Trainer
from saccade.training.sharded_tensors import local

TRANSFORMER = """
task = "text_to_text"

[text]
source = { kind = "token", size = 60 }

[model]
dim = 16
share_embeddings = true

[model.encoder]
kind = "transformer"
num_layers = 2
num_heads = 2
hidden_dim = 32
dropout = 0.2

[model.decoder]
kind = "transformer"
num_layers = 1
num_heads = 2
hidden_dim = 32
dropout = 0.2

[generation]
max_length = 12

[metrics]
names = ["exact_match"]

[training]
max_steps = 8
batch_tokens = 80
update_tokens = 160
learning_rate = 0.005
validate_every = 4
validate_items = 4
checkpoint_every = 3
log_every = 1
adapt = false

[training.optim]
schedule = "constant"
warmup = 5
"""


def held(trainer):
    """Return the bytes of weights, gradients and state of the optimizer in this process."""
    weights = list(trainer.parallel.model.parameters())
    states = [value for state in trainer.optimizer.state.values() for value in state.values()]
    tensors = [*weights, *(w.grad for w in weights if w.grad is not None), *states]
    return sum(local(tensor).numel() * tensor.element_size() for tensor in tensors)


def take_part(folder, job, part, rank, port):
    """Train as one process of a world."""
    world, out, stop = part.pop("world"), job["out"], part.pop("stop", None)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_default_dtype(getattr(torch, job.get("dtype", "float64")))
    session.write_report = lambda *_, **__: None  # takes longer than the training
    save, update = Trainer.save, Trainer.update

    def counted(trainer, progress):
        (folder / f"{out}-{rank}.bytes").write_text(str(held(trainer)))
        save(trainer, progress)

    def interrupted(trainer, progress):
        trainer.interruption.requested = progress.step + 1 == stop
        return update(trainer, progress)

    Trainer.save, Trainer.update = counted, interrupted
    session.train(
        folder / job.get("recipe", "tiny.toml"),
        data=folder / "data",
        out=folder / out,
        changes=job.get("changes", ()),
        cache=folder / "cache",
        device="cpu",
        console=Console(quiet=True),
        resume=True,
        world=World(rank=rank, size=world, local_rank=rank, local_size=world),
        **part,
    )


def run(folder, job, part):
    """Run one part of a job; raise if one of its processes fails."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for rank in range(part["world"]):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with suppress(StoppedError):
                    take_part(folder, job, dict(part), rank, port)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if any(codes):
        raise SystemExit(f"{job['out']}: the processes ended with {codes}")


def train_in_worlds(folder, jobs):
    """Run jobs; the tests call this."""
    path = folder / "jobs.json"
    path.write_text("\n".join(map(json.dumps, jobs)))
    command = [sys.executable, "-m", "tests.training.worlds", str(folder), str(path)]
    child = subprocess.run(
        command,
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert child.returncode == 0, child.stderr[-6000:]


def main(folder, jobs):
    distributed.PAUSE = 0.01
    for line in Path(jobs).read_text().splitlines():
        job = json.loads(line)
        for part in job["parts"]:
            run(Path(folder), job, part)


if __name__ == "__main__":
    main(*sys.argv[1:])
