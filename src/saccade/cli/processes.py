"""Several processes of one command on this machine, which train one model together.

torchrun does the same over several machines and with restarts. Here, it takes one option, and exit
codes and Ctrl-C behave as with a single process.
"""

import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subprocess import Popen
    from types import FrameType

STOP_SECONDS = 15.0
"""Time that the other processes have to exit after one has failed."""


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
