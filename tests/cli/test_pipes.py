"""saccade predict with pipes, in a process of its own."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WAIT = 120.0  # seconds, for busy machines


@contextmanager
def started(*arguments: object) -> Iterator[Any]:
    """Run `saccade` with pipes for stdin, stdout and stderr; kill it at the end."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "saccade", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as process:
        limit = threading.Timer(WAIT, process.kill)
        limit.start()
        try:
            yield process
        finally:
            limit.cancel()
            process.kill()


def send(process: Any, text: str) -> None:
    process.stdin.write(text.encode())
    process.stdin.flush()


def test_prediction_is_printed_before_the_next_line_arrives(run: Path):
    with started("predict", run, "--json") as process:
        send(process, "a b c\n")
        assert b'"input": "a b c"' in process.stdout.readline()
        send(process, "é 中\nlast")
        assert '"input": "é 中"' in process.stdout.readline().decode()
        process.stdin.close()
        assert b'"input": "last"' in process.stdout.readline()
        assert process.wait() == 0
        assert process.stderr.read() == b""


def test_closed_stdout_is_not_an_error(run: Path):
    with started("predict", run) as process:
        send(process, "a b c\n")
        process.stdout.readline()
        process.stdout.close()
        send(process, "a b c\n")
        assert process.wait() in (0, 1)
        assert process.stderr.read() == b""


def test_error_exits_although_stdin_is_open(without_attention: Path):
    with started("predict", without_attention, "--align") as process:
        send(process, "a b c\n")  # and the pipe stays open
        assert process.wait() == 2
        result = process.stderr.read().decode()
    assert result == (
        "error: this model has no attention: it never looks back at what it read; use a model with "
        "attention\n"
    )
