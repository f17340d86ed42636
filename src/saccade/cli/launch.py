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
    try:
        for number in range(count):
            place = {"RANK": str(number), "LOCAL_RANK": str(number)}
            command = [sys.executable, "-m", "saccade", *arguments]
            # a session of its own: Ctrl-C reaches each once, through pass_on
            ranks.append(
                subprocess.Popen(
                    command, env={**os.environ, **world, **place}, start_new_session=True
                )
            )
        return _outcome(ranks)
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
        for each, handler in before.items():
            signal.signal(each, handler)


def _outcome(ranks: list[subprocess.Popen[bytes]]) -> int:
    """Wait for all; when one fails, the others get a moment to say why, and are ended."""
    while any(rank.poll() is None for rank in ranks):
        if any(rank.returncode for rank in ranks):
            deadline = time.monotonic() + 15
            while time.monotonic() < deadline and any(rank.poll() is None for rank in ranks):
                time.sleep(0.1)
            break
        time.sleep(0.1)
    for number, rank in enumerate(ranks):
        if rank.returncode and rank.returncode < 0:
            print(f"process {number} was ended by signal {-rank.returncode}", file=sys.stderr)
    codes = [rank.returncode for rank in ranks]
    return next((abs(code) for code in codes if code), 0)
