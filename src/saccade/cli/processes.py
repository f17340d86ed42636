"""Several processes of one command on this machine, which train one model together.

torchrun does this too, over several machines and with restarts. Here it is one option away, and
exit codes and Ctrl-C are those of a single process.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from tempfile import TemporaryFile
from types import FrameType


def launch(count: int, arguments: list[str]) -> int:
    """Run `saccade` with these arguments `count` times, as ranks of one world; the exit code."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    world |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    threads = max(1, (os.cpu_count() or 1) // count)
    world.setdefault("OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", str(threads)))
    ranks: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        for rank in ranks:
            if rank.poll() is None:
                rank.send_signal(number)

    before = {each: signal.signal(each, pass_on) for each in (signal.SIGINT, signal.SIGTERM)}
    with TemporaryFile() as whispered:
        try:
            for number in range(count):
                place = {"RANK": str(number), "LOCAL_RANK": str(number)}
                ranks.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "saccade", *arguments],
                        env={**os.environ, **world, **place},
                        stderr=whispered if number else None,  # one of them speaks
                        start_new_session=True,  # Ctrl-C reaches each once, through pass_on
                    )
                )
            failed = _first_to_fail(ranks)
        finally:
            for rank in ranks:
                if rank.poll() is None:
                    rank.kill()
            for each, handler in before.items():
                signal.signal(each, handler)
        if failed is None:
            return 0
        if failed > 0:
            whispered.seek(0)
            sys.stderr.write(whispered.read().decode(errors="replace"))
        code = ranks[failed].returncode
        if code < 0:
            print(f"process {failed} was ended by signal {-code}", file=sys.stderr)
        return code if code > 0 else 128 - code


def _first_to_fail(ranks: list[subprocess.Popen[bytes]]) -> int | None:
    """Wait for all; when one fails, the others get a moment to leave."""
    failed: int | None = None
    deadline = float("inf")
    while any(rank.poll() is None for rank in ranks) and time.monotonic() < deadline:
        if failed is None:
            failed = next((i for i, rank in enumerate(ranks) if rank.returncode), None)
            deadline = deadline if failed is None else time.monotonic() + 15
        time.sleep(0.1)
    if failed is None:
        failed = next((i for i, rank in enumerate(ranks) if rank.returncode), None)
    return failed
