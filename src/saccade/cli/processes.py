"""Several processes of one command on this machine, which train one model together.

torchrun does the same over several machines and with restarts. Here, it takes one option, and exit
codes and Ctrl-C behave as with a single process.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade import recipes

if TYPE_CHECKING:
    from subprocess import Popen
    from types import FrameType

STOP_SECONDS = 15.0
"""Time that the other processes have to exit after one has failed."""

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
    """Let Linux end this process when the one that started it dies, even by SIGKILL."""
    launcher = os.environ.get(LAUNCHER)
    if launcher is None or not sys.platform.startswith("linux"):
        return
    import ctypes
    import signal

    parent_death_signal = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(parent_death_signal, signal.SIGKILL)
    if os.getppid() != int(launcher):  # it died before that
        sys.exit(1)


def launch(count: int, arguments: list[str]) -> int:
    """Run `saccade` with these arguments in several processes, as ranks of one world.

    Args:
        count: Number of processes.
        arguments: Arguments of the command line.

    Returns:
        Exit code: 0, or that of the first process that failed.
    """
    import signal
    import socket
    import subprocess
    from tempfile import TemporaryFile

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    threads = max(1, (os.cpu_count() or 1) // count)
    world = {
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads)),
        LAUNCHER: str(os.getpid()),
    }
    ranks: list[Popen[bytes]] = []

    def forward(number: int, frame: "FrameType | None") -> None:
        for rank in ranks:
            if rank.poll() is None:
                rank.send_signal(number)

    before = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    with TemporaryFile() as errors:
        try:
            for number in range(count):
                place = {"RANK": str(number), "LOCAL_RANK": str(number)}
                ranks.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "saccade", *arguments],
                        env={**os.environ, **world, **place},
                        stderr=errors if number else None,  # only the first one prints
                        start_new_session=True,  # Ctrl-C reaches each once, through `forward`
                    )
                )
            failed = _first_failed(ranks)
        finally:
            for rank in ranks:
                if rank.poll() is None:
                    rank.kill()
            for number, handler in before.items():
                signal.signal(number, handler)
        if failed is None:
            return 0
        if failed > 0:
            errors.seek(0)
            sys.stderr.write(errors.read().decode(errors="replace"))
        code = ranks[failed].returncode
        if code < 0:
            print(f"process {failed} was killed by signal {-code}", file=sys.stderr)
        return code if code > 0 else 128 - code


def _first_failed(ranks: "list[Popen[bytes]]") -> int | None:
    """Wait for all processes, but not long for the others once one has failed."""
    failed: int | None = None
    deadline = float("inf")
    while any(rank.poll() is None for rank in ranks) and time.monotonic() < deadline:
        if failed is None:
            failed = next((i for i, rank in enumerate(ranks) if rank.returncode), None)
            deadline = deadline if failed is None else time.monotonic() + STOP_SECONDS
        time.sleep(0.1)
    if failed is None:
        failed = next((i for i, rank in enumerate(ranks) if rank.returncode), None)
    return failed
