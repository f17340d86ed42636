"""Hostile requests: how long they delay the answers to other clients.

    python benchmarks/serving_hostile.py

`saccade serve` runs in a separate process, on loopback, with small models that are trained here for
a few steps. One client requests /healthz continuously while another one sends requests that are as
expensive to parse as the limits allow: many numbers, many keys, deep nesting, long strings, errors
in every field, tiny chunks, large headers, uploads. Then many connections are opened that send
nothing, or one byte of header per second. The exit code is 1 if a requirement is not met.
"""

import argparse
import asyncio
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from serving import TRANSLATOR, WRITER, Demands, Server, make_runs, serving

MOST_SECONDS = 0.1
"""The longest time that /healthz may take during a hostile request."""
JSON, BOUNDARY = "application/json", "b" * 70
ROUTES = {
    "/v1/predict": (b'"model": "en-fr"', b'"inputs"'),
    "/translate": (b'"source": "en", "target": "fr"', b'"q"'),
    "/v1/completions": (b'"model": "book"', b'"prompt"'),
}
"""The routes that read a body: their required fields, and the field that holds the texts."""
OPEN_FILES = 1_024
"""The server's limit on open files, a common default."""


def filled(head: bytes, unit: bytes, tail: bytes, size: int) -> bytes:
    """Return as many units as fit into this size, without the last comma."""
    count = (size - len(head) - len(tail)) // len(unit)
    return head + (unit * count).removesuffix(b",") + tail


def bodies(needed: bytes, field: bytes, size: int) -> Iterator[tuple[str, bytes]]:
    """Yield JSON bodies of this size, with what is hostile about them."""
    start = b"{%s, %s: " % (needed, field)
    for name, unit in {
        "numbers": b"0,",
        "floats": b"1.5,",
        "empty lists": b"[],",
        "empty objects": b"{},",
        "empty strings": b'"",',
        "long numbers": b"9" * 4_000 + b",",
        "nested lists": b"[" * 190 + b"]" * 190 + b",",
        "nested objects": b'{"a":' * 90 + b"0" + b"}" * 90 + b",",
    }.items():
        yield name, filled(start + b"[", unit, b"]}", size)
    for name, unit in {
        "a long string": b"a",
        "escaped letters": rb"\u00e9",
        "surrogate pairs": rb"\ud83d\ude00",
        "escaped quotes": rb"\"",
        "backslashes": rb"\\",
        "commas in a string": b",",
    }.items():
        yield name, filled(start + b'["', unit, b'"]}', size)
    yield "unknown keys", b"{%s}" % b",".join(b'"%07x": 0' % n for n in range(size // 13))
    yield "the same key", filled(b"{", field + b": 0,", b"}", size)
    yield "a wrong last item", start + b"[%s, 0]}" % b",".join([b'"a"'] * 1_900)
    yield "many wrong items", start + b"[%s]}" % b",".join([b"0"] * 1_900)
    yield "not JSON", b"[" * size


def request(path: str, body: bytes, kind: str = JSON, head: str = "") -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{head}"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def raw_requests() -> Iterator[tuple[str, bytes]]:
    """Yield requests that are hostile in other ways than by their JSON."""
    start = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    yield "tiny chunks", start + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 170_000
    yield "many headers", start + b"a:\r\n" * 60_000 + b"\r\n"
    yield "a long header", start + b"A: " + b"a" * 1_000_000 + b"\r\n\r\n"
    upload = f"multipart/form-data; boundary={BOUNDARY}"
    size, edge = 8 * 2**20, f"--{BOUNDARY}".encode()
    part = edge + b'\r\nContent-Disposition: form-data; name="image"\r\n\r\n'
    near = b"\r\n" + edge[:-1] + b"a"
    for name, unit in (("one letter", b"b"), ("near boundaries", near), ("CRLF", b"\r\n")):
        body = filled(part, unit, b"\r\n" + edge + b"--\r\n", size)
        yield f"an upload of {name}", request("/v1/predict", body, upload)
    body = filled(b"", part + b"a\r\n", edge + b"--\r\n", size)
    yield "an upload of many parts", request("/v1/predict", body, upload)


async def health(port: int, done: asyncio.Event) -> list[float]:
    """Return the seconds of each request for /healthz until `done` is set."""
    times: list[float] = []
    while not done.is_set():
        started = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200"), answer[:100]
        times.append(time.monotonic() - started)
        writer.close()
        await asyncio.sleep(0.002)
    return times


async def attack(port: int, data: bytes) -> str:
    """Send a request and return the status of the response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        line = await asyncio.wait_for(reader.readline(), 60)
        return line.decode().split()[1] if line else "closed"
    except (TimeoutError, OSError) as error:
        return type(error).__name__
    finally:
        writer.transport.abort()


async def beside(port: int, data: bytes) -> tuple[str, float]:
    """Return the status of a request, and the longest time of /healthz during it."""
    done = asyncio.Event()
    watching = asyncio.create_task(health(port, done))
    await asyncio.sleep(0.02)
    try:
        status = await attack(port, data)
        await asyncio.sleep(0.02)
    finally:
        done.set()
    return status, max(await watching)


async def idle(port: int, count: int) -> tuple[int, float]:
    """Open idle connections; return how many were accepted, and the longest time of /healthz."""
    opened = []
    for number in range(count):
        with suppress(OSError):
            link = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), 5)
            link[1].write(b"GET / HTTP/1.1\r\n" if number % 2 else b"")
            opened.append(link[1])
    done = asyncio.Event()
    watching = asyncio.create_task(health(port, done))
    for _ in range(3):
        await asyncio.sleep(1)
        for writer in opened:
            with suppress(OSError):
                writer.write(b"a")
    done.set()
    try:
        longest = max(await asyncio.wait_for(watching, 30))
    except TimeoutError:
        longest = float("inf")
    for writer in opened:
        writer.transport.abort()
    return len(opened), longest


async def measure(server: Server, connections: int, log: Path) -> Demands:
    demands, port = Demands(), server.port
    attacks = [
        (f"{path}: {name}", request(path, body))
        for path, fields in ROUTES.items()
        for name, body in bodies(*fields, 2**20)
    ]
    required = f"{1000 * MOST_SECONDS:.0f} ms"
    for name, data in [*attacks, *raw_requests()]:
        status, seconds = await beside(port, data)
        measured = f"{status}, /healthz within {1000 * seconds:.0f} ms"
        demands.add(name, measured, required, met=seconds <= MOST_SECONDS)
    before = server.mib()
    count, seconds = await idle(port, connections)
    demands.add(
        f"{count} connections without a request",
        f"/healthz within {1000 * seconds:.0f} ms",
        "1000 ms",  # it waits behind all connections that are accepted and closed
        met=seconds <= 1,
    )
    errors = log.read_text(encoding="utf-8").count('"level": "error"')
    demands.add("errors logged", f"{errors}", "0", met=errors == 0)
    demands.note(
        "memory before and with these connections", f"{before:.0f}, {server.mib():.0f} MiB"
    )
    return demands


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--connections", type=int, default=1_100, help="idle connections")
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = make_runs(Path(folder), 2, None)
        named = {"en-fr": runs[TRANSLATOR], "book": runs[WRITER]}
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, OPEN_FILES), hard))
        log = Path(folder) / "log"
        with serving(named, log, "--queue", "64") as server:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            demands = asyncio.run(measure(server, options.connections, log))
            server.process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                server.process.wait(60)
    print(demands.table())
    if options.markdown is not None:
        options.markdown.write_text(demands.table() + "\n", encoding="utf-8")
    sys.exit(not all(met for *_, met in demands.rows))


if __name__ == "__main__":
    main()
