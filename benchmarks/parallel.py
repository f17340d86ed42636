"""One process, replicas (DDP) and shards (FSDP): loss curves, memory and speed.

    python benchmarks/parallel.py --out DIR [--steps 12] [--optimizer muon]

transformer-small with a vocabulary of 2 000 on built-in phrases, without average and with dropout;
updates of two batches. One process has one thread, two processes have one thread each. "held" is
what each process keeps between updates: weights, gradients and state of the optimizer. "peak" is
the most memory of the process (VmHWM), with that of Python and torch.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

from saccade.training import session
from saccade.training.console import Console
from saccade.training.distributed import World
from saccade.training.loop import Trainer
from saccade.training.progress import TrainingProgress, Update
from saccade.training.sharded_tensors import local

SETTINGS = {
    "one process": (1, "ddp", False),
    "two, ddp": (2, "ddp", False),
    "two, fsdp": (2, "fsdp", False),
    "two, fsdp, activations recomputed": (2, "fsdp", True),
}


def held(trainer: Trainer) -> int:
    """Return the bytes of weights, gradients and state of the optimizer in this process."""
    weights = list(trainer.parallel.model.parameters())
    states = [value for state in trainer.optimizer.state.values() for value in state.values()]
    tensors = [*weights, *(w.grad for w in weights if w.grad is not None), *states]
    return sum(local(tensor).numel() * tensor.element_size() for tensor in tensors)


def train(out: Path, name: str, rank: int, port: int, options: argparse.Namespace) -> None:
    """Train as one process; write what was measured."""
    size, kind, recompute = SETTINGS[name]
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    session.write_report = lambda *_, **__: None  # type: ignore[attr-defined]
    losses, seconds, bytes_held = list[float](), list[float](), list[int]()
    plain = Trainer.update

    def update(self: Trainer, progress: TrainingProgress) -> tuple[TrainingProgress, Update]:
        began = time.monotonic()
        progress, report = plain(self, progress)
        seconds.append(time.monotonic() - began)
        losses.append(report.loss)
        bytes_held.append(held(self))
        return progress, report

    Trainer.update = update  # type: ignore[method-assign]
    changes = [
        "text.source.size=2000",
        "training.update_tokens=2048",
        "training.batch_tokens=1024",
        f"training.optim.kind={options.optimizer}",
        "training.average.kind=none",
        f"training.validate_every={options.steps}",
        "training.validate_items=0",
        "training.select_by=loss",
        "training.optim.warmup=5",
        "training.adapt=false",
        f"training.recompute={json.dumps(recompute)}",
    ]
    session.train(
        "transformer-small",
        data="builtin:phrases",
        out=out / name.replace(" ", "-"),
        changes=changes,
        max_steps=options.steps,
        cache=out / "cache",
        device="cpu",
        parallel=kind,  # type: ignore[arg-type]
        world=World(rank=rank, size=size, local_rank=rank, local_size=size),
        console=Console(quiet=True),
    )
    status = Path("/proc/self/status").read_text(encoding="ascii")
    result = {
        "losses": losses,
        "seconds": statistics.median(seconds[2:]),
        "held": max(bytes_held) / 2**20,
        "peak": int(status.split("VmHWM:")[1].split()[0]) / 1024,
    }
    (out / f"{name}-{rank}.json").write_text(json.dumps(result))


def measure(out: Path, name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Train in forks of this process; return the measurements of each."""
    shutil.rmtree(out / name.replace(" ", "-"), ignore_errors=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = range(SETTINGS[name][0])
    children = []
    for rank in ranks:
        child = os.fork()
        if child == 0:
            try:
                train(out, name, rank, port, options)
            except BaseException as error:
                print(f"{name}: {error!r}", file=sys.stderr)
                os._exit(1)
            os._exit(0)
        children.append(child)
    if any(os.waitpid(child, 0)[1] for child in children):
        raise SystemExit(f"{name} failed")
    return [json.loads((out / f"{name}-{rank}.json").read_text()) for rank in ranks]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--optimizer", choices=("adamw", "muon"), default="muon")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    results = {name: measure(options.out, name, options) for name in SETTINGS}
    one, ddp = results["one process"][0], results["two, ddp"][0]
    print(
        "| processes | largest difference of losses | MiB held | of ddp | MiB peak | s per update |"
    )
    print("|---|---|---|---|---|---|")
    for name, ranks in results.items():
        pairs = zip(one["losses"], ranks[0]["losses"], strict=True)
        difference = max(abs(mine - yours) / mine for mine, yours in pairs)
        kept = max(rank["held"] for rank in ranks)
        peak = max(rank["peak"] for rank in ranks)
        print(
            f"| {name} | {difference:.1e} | {kept:.1f} | {kept / ddp['held']:.0%} | {peak:.0f} | "
            f"{ranks[0]['seconds']:.3f} |"
        )


if __name__ == "__main__":
    main()
