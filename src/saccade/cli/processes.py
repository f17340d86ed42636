"""Several processes of one command on this machine, which train one model together.

torchrun does the same over several machines. Here, it takes one option, and exit codes and Ctrl-C
behave as with a single process.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from saccade import recipes

RESTARTS = 3
"""How often the processes are started again after one has died."""

GPUS = ("/dev/nvidiactl", "/dev/kfd")
"""Device files of GPUs; each GPU trains in one process."""
LAUNCHER = "SACCADE_LAUNCHER"
"""Environment variable with the id of the process that started this one."""
DIVIDED = 2
"""Batches of an update of the recipes that are chosen by the data."""


def usual_count(recipe: str | None, changes: Sequence[str], *, device: str) -> int:
    """Return how many processes train a recipe fastest on this machine.

    On the cores of a CPU, small models train faster in processes of one thread each. Their recipes
    divide an update into batches (`training.update_tokens`), so that it stays the same in one
    process and in several. Nothing heavy is imported.

    Args:
        recipe: the recipe; None if it is chosen by the data.
        changes: assignments to its keys.
        device: what it is trained on.
    """
    on_cpu = device == "cpu" or (device == "auto" and not any(Path(gpu).exists() for gpu in GPUS))
    if not on_cpu or not sys.platform.startswith("linux"):
        return 1
    cores = len(os.sched_getaffinity(0))
    cores = min(cores, int(os.environ.get("OMP_NUM_THREADS") or cores))
    batches = DIVIDED if recipe is None else _batches_per_update(recipe, changes)
    return max(n for n in range(1, max(1, min(cores, batches)) + 1) if batches % n == 0)


def _batches_per_update(recipe: str, changes: Sequence[str]) -> int:
    """Return the batches of an update; 1 if that cannot be read, which training reports."""
    import tomllib

    try:
        builtin = recipe in recipes.names()
        text = recipes.text(recipe) if builtin else Path(recipe).read_text(encoding="utf-8")
        training: dict[str, Any] = dict(tomllib.loads(text).get("training", {}))
        for change in changes:
            key, _, value = change.partition("=")
            if key.strip().startswith("training."):
                training[key.strip().removeprefix("training.")] = value.strip()
        if int(training.get("accumulate", 1)) > 1:
            return 1
        update = int(training.get("update_tokens", 0))
        return max(1, -(-update // int(training["batch_tokens"])))
    except (OSError, ValueError, TypeError, LookupError, ArithmeticError):
        return 1


def end_with_launcher() -> None:
    """Let Linux end this process when the one that started it dies, even by SIGKILL.

    Otherwise it would keep the lock of the run folder. The one that started it is `launch` or an
    agent of torchrun.
    """
    launcher = os.environ.get(LAUNCHER)
    started = launcher is not None or "TORCHELASTIC_RUN_ID" in os.environ
    if not started or not sys.platform.startswith("linux"):
        return
    import ctypes
    import signal

    parent, parent_death_signal = os.getppid(), 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(parent_death_signal, signal.SIGKILL)
    if os.getppid() != int(launcher or parent):  # it died before that
        sys.exit(1)


def command_line(arguments: Sequence[str]) -> list[str]:
    """Return the command that started this training, with these arguments of saccade.

    Under torchrun, it is the command line of its agent, which is the process that started this one.
    """
    if LAUNCHER in os.environ or "TORCHELASTIC_RUN_ID" not in os.environ:
        return ["saccade", *arguments]
    own = sys.argv[1:]
    try:
        content = Path(f"/proc/{os.getppid()}/cmdline").read_bytes()
        started = [part.decode() for part in content.rstrip(b"\0").split(b"\0")]
    except (OSError, UnicodeDecodeError):  # not on Linux
        started = []
    if len(started) > len(own) and started[len(started) - len(own) :] == own:
        started = started[: len(started) - len(own)]
        if len(started) > 1 and Path(started[1]).name == "torchrun":
            started = ["torchrun", *started[2:]]  # without the Python that runs the script
        return [*started, *arguments]
    machines, processes = os.environ["GROUP_WORLD_SIZE"], os.environ["LOCAL_WORLD_SIZE"]
    return [
        "torchrun",
        "--nnodes",
        machines,
        "--nproc-per-node",
        processes,
        "-m",
        "saccade",
        *arguments,
    ]


def launch(count: int, arguments: list[str]) -> int:
    """Run `saccade` with these arguments in several processes, as ranks of one world.

    torchrun's agent starts them. When one dies, it starts all of them again, and they resume from
    the newest checkpoint.

    Args:
        count: Number of processes.
        arguments: Arguments of the command line.

    Returns:
        Exit code: 0, or that of the process that failed.
    """
    import logging
    import uuid
    from tempfile import TemporaryDirectory
    from unittest.mock import patch

    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
    from torch.distributed.elastic.rendezvous import RendezvousParameters, registry

    from saccade.cli.agent import Agent, WorkerSpec

    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)
    threads = max(1, (os.cpu_count() or 1) // count)
    place = RendezvousParameters(
        "c10d", "localhost:0", uuid.uuid4().hex, 1, 1, local_addr="localhost"
    )
    variables = {
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads)),
        LAUNCHER: str(os.getpid()),
    }
    with TemporaryDirectory() as folder, patch.dict(os.environ, variables):
        # only the first process prints
        logs = DefaultLogsSpecs(folder, redirects=dict.fromkeys(range(1, count), Std.ERR))
        spec = WorkerSpec(
            role="saccade",
            local_world_size=count,
            entrypoint=sys.executable,
            args=("-m", "saccade", *arguments),
            rdzv_handler=registry.get_rendezvous_handler(place),
            max_restarts=RESTARTS,
            monitor_interval=0.1,
            local_addr="localhost",
        )
        failed = Agent(spec, logs).failed()
        if failed is None:
            return 0
        rank, code = failed
        if rank > 0:
            attempts = Path(folder).glob(f"*/attempt_*/{rank}/stderr.log")
            newest = max(attempts, key=lambda path: path.stat().st_mtime, default=None)
            sys.stderr.write(newest.read_text(errors="replace") if newest else "")
        if code < 0:
            print(f"process {rank} was killed by signal {-code}", file=sys.stderr)
        return code if code > 0 else 128 - code
