"""A server in a process of its own: signals, clients that leave, slow clients, tokens."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from saccade.serve.server import listen
from tests.serve.fakes import eventually

SLOW = {"model": "book", "prompt": "the", "stream": True, "max_tokens": 512, "temperature": 1}


@dataclass
class Server:
    """A running server process and its port."""

    process: subprocess.Popen[str]
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def metric(self, name: str, **headers: str) -> float:
        """Return the sum of the metrics with this name."""
        text = httpx.get(f"{self.url}/metrics", headers=headers, timeout=60).text
        values = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(name)]
        return sum(map(float, values))

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; return the exit code and the log."""
        self.process.send_signal(number)
        _, logged = self.process.communicate(timeout=100)
        return self.process.returncode, logged


@contextmanager
def serving(*arguments: object, **environment: str) -> Iterator[Server]:
    """Run `saccade serve` on a free port."""
    command = [sys.executable, "-m", "saccade", "serve", *map(str, arguments), "--port", "0"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )
    try:
        ready, _, _ = select.select([process.stdout], [], [], 250)
        first = process.stdout.readline() if ready else ""
        assert first.startswith("serving "), first or process.stderr.read()
        yield Server(process, int(first.strip().rpartition(":")[2]))
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def test_server_process_from_start_to_shutdown(runs: dict[str, Path]):
    """One process for all of this, since starting one takes seconds."""
    with serving(f"en-fr={runs['en-fr']}", runs["book"], "--grace", 30) as server:
        body = {"q": "a b", "source": "en", "target": "fr"}
        assert httpx.post(f"{server.url}/translate", json=body, timeout=60).status_code == 200
        _leave_during_responses(server)
        _send_slowly(server)
        _send_invalid_http(server)
        code, logged = _stop_while_streaming(server)
    assert code == 0
    lines = [json.loads(line) for line in logged.splitlines()]
    assert lines[-1]["event"] == "ended"
    assert {line["status"] for line in lines if line["event"] == "request"} <= {200, 499, 503}
    assert not any("text" in line for line in lines)


def _leave_during_responses(server: Server) -> None:
    """Leave streams after their first piece, and leave the queue."""
    for _ in range(6):
        with httpx.stream("POST", f"{server.url}/v1/completions", json=SLOW, timeout=60) as answer:
            next(answer.iter_lines())
    body = json.dumps({"model": "book", "inputs": ["the"] * 64, "max_length": 512}).encode()
    for _ in range(6):
        _post(server, body).close()
    assert eventually(lambda: server.metric("saccade_pending") == 0, 100)
    assert httpx.get(f"{server.url}/readyz", timeout=60).status_code == 200


def _post(server: Server, body: bytes, announced: int | None = None) -> socket.socket:
    """Return a connection on which a request was sent, perhaps incomplete."""
    link = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    head = (
        f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body) if announced is None else announced}\r\n\r\n"
    )
    link.sendall(head.encode() + body)
    return link


def _send_slowly(server: Server) -> None:
    """Send an incomplete body, which must not block other clients."""
    with _post(server, b"{", announced=100):
        assert httpx.get(f"{server.url}/healthz", timeout=60).status_code == 200


def _send_invalid_http(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as link:
        link.sendall(b"\x16\x03\x01 not HTTP\r\n\r\n")
        assert link.recv(100).startswith(b"HTTP/1.1 400")


def _stop_while_streaming(server: Server) -> tuple[int, str]:
    """Stop the server; the running stream is finished, and no new request is accepted."""
    url = f"{server.url}/v1/completions"
    with httpx.stream("POST", url, json=SLOW, timeout=100) as answer:
        lines = answer.iter_lines()
        next(lines)
        server.process.send_signal(signal.SIGTERM)
        assert eventually(lambda: _is_closed(server), 60)
        assert [line for line in lines if line][-1] == "data: [DONE]"
    _, logged = server.process.communicate(timeout=100)
    return server.process.returncode, logged


def _is_closed(server: Server) -> bool:
    try:
        return httpx.get(f"{server.url}/readyz", timeout=60).status_code not in (200, 503)
    except httpx.TransportError:
        return True


def test_token_from_the_environment_and_shutdown_by_ctrl_c(runs: dict[str, Path]):
    token = "nobody would guess this"
    with serving(runs["mood"], "--host", "0.0.0.0", SACCADE_TOKEN=token) as server:
        bearer = {"authorization": f"Bearer {token}"}
        assert httpx.get(f"{server.url}/healthz", timeout=60).status_code == 200
        assert httpx.get(f"{server.url}/v1/models", timeout=60).status_code == 401
        assert httpx.get(f"{server.url}/v1/models", headers=bearer, timeout=60).status_code == 200
        code, logged = server.end(signal.SIGINT)
    assert code == 0
    assert token not in logged


def test_listen_raises_on_a_taken_port():
    from saccade.errors import ServeError

    with listen("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(ServeError, match=r"cannot listen at 127.0.0.1, port \d+"):
            listen("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(ServeError, match="cannot listen at 256"):
        listen("256.0.0.1", 0)
