"""Two processes that wait for each other while the first works long, fails or dies.

As a script it prints one line of JSON per scenario and process; the processes are forks, so that
torch is loaded once: `python -m tests.training.meetings LIMIT WORK`, both in seconds.
"""

import json
import os
import socket
import sys
import time
from datetime import timedelta

from saccade.errors import RunError
from saccade.training import distributed
from saccade.training.distributed import World


def long_work(seconds):
    time.sleep(seconds)
    return [[1.5, float("inf")], True]


def mistake(seconds):
    raise RunError("this folder already holds a run")


def failure(seconds):
    raise ValueError("a bug")


def death(seconds):
    os._exit(9)


SCENARIOS = {"long": long_work, "mistake": mistake, "failure": failure, "death": death}


def meet(rank, port, work, seconds):
    """Return the results of one process, or the error it ends with."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    try:
        with distributed.joined(World(rank=rank, size=2)) as world:
            began = world.sum([1.0])
            result = world.from_first(lambda: work(seconds))
            world.wait()
            return {"result": result, "sums": [began, world.sum([rank + 1.0])]}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main(limit, seconds):
    distributed.LIMIT = timedelta(seconds=limit)
    for name, work in SCENARIOS.items():
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        children = []
        for rank in (0, 1):
            child = os.fork()
            if child == 0:
                line = {"scenario": name, "rank": rank, **meet(rank, port, work, seconds)}
                os.write(1, f"{json.dumps(line)}\n".encode())  # in one piece
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
