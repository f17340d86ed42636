"""Connections over real sockets: their number, their timeouts, and malformed HTTP."""

import asyncio
import json
import logging
import socket
import sys
import types
from contextlib import asynccontextmanager

import h11
import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from saccade.serve import server as servers
from saccade.serve.connections import CHUNKS, HEAD_BYTES, LingeringTransport
from saccade.serve.middleware import MAX_HEADERS
from tests.serve.conftest import TOKEN, metric
from tests.serve.fakes import Echo, eventually

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


@asynccontextmanager
async def listening(middleware):
    """Serve on a free port, and give the port."""
    sock = servers.listen("127.0.0.1", 0)
    port = sock.getsockname()[1]
    ready = asyncio.Event()
    server = servers.Server(servers.configure(middleware, middleware.limits), middleware, ready.set)
    running = asyncio.create_task(server.serve([sock]))
    try:
        await asyncio.wait_for(ready.wait(), 60)
        yield port
    finally:
        server.should_exit = True
        await asyncio.wait_for(running, 60)


def dropped_by(middleware, reason):
    return metric(middleware, "saccade_connections_dropped_total", reason=reason)


class Client:
    """Client that sends raw bytes over a socket."""

    def __init__(self, port):
        self.port = port

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_):
        self.writer.transport.abort()

    async def send(self, data: bytes):
        self.writer.write(data)
        await asyncio.wait_for(self.writer.drain(), 60)

    async def answer(self):
        """Return the status and body of a response; None if the connection was closed."""
        try:
            head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 60)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        lines = head.decode().lower().splitlines()
        [length] = [int(line.split(":")[1]) for line in lines if line.startswith("content-length")]
        body = await asyncio.wait_for(self.reader.readexactly(length), 60)
        return int(lines[0].split()[1]), json.loads(body)

    async def closed(self, seconds=60):
        """Return whether the server closes the connection in this time."""
        try:
            return await asyncio.wait_for(self.reader.read(), seconds) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False


def on_server(middleware, act):
    """Return the result of `act(port)` while the server listens."""

    async def run():
        async with listening(middleware) as port:
            return await act(port)

    return asyncio.run(run())


@pytest.fixture
def echo(build):
    return lambda **limits: build(others={"echo": Echo()}, **limits)


async def is_healthy(port) -> bool:
    async with Client(port) as client:
        await client.send(GET + b"\r\n")
        return await client.answer() == (200, {"status": "ok"})


def test_oldest_idle_connections_are_evicted(echo, caplog):
    middleware = echo(connections=20, head_seconds=600.0)

    async def act(port):
        clients = [await Client(port).__aenter__() for _ in range(60)]
        for client in clients[::2]:
            await client.send(GET)  # without an end
        healthy = [await is_healthy(port) for _ in range(5)]
        dropped = [await client.closed(0.05) for client in clients]
        for client in clients:
            await client.__aexit__()
        return healthy, dropped

    with caplog.at_level(logging.INFO):
        healthy, dropped = on_server(middleware, act)
    assert healthy == [True] * 5
    assert dropped[:40] == [True] * 40  # the oldest
    assert sum(dropped) <= 46
    assert dropped_by(middleware, "evicted") == sum(dropped)
    lines = [record for record in caplog.records if "limit" in record.getMessage()]
    assert len(lines) == 1
    assert len(caplog.records) < 20  # five of them are about /healthz


def test_connections_with_running_requests_are_not_evicted(echo):
    middleware = echo(connections=3)
    [model] = middleware.models

    async def act(port):
        async with Client(port) as busy, Client(port) as also, Client(port) as third:
            body = b'{"inputs": ["slow"]}'
            for client in (busy, also, third):
                await client.send(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            while model.pending < 3:
                await asyncio.sleep(0.01)
            async with Client(port) as refused:
                await refused.send(GET + b"\r\n")
                closed = await refused.answer() is None
            model.task.go.set()
            return closed, [(await client.answer())[0] for client in (busy, also, third)]

    assert on_server(middleware, act) == (True, [200, 200, 200])
    assert dropped_by(middleware, "limit") == 1


def test_slow_headers_and_idle_connections_time_out(echo):
    """Silent clients, idle ones, and slow lorises that send a byte now and then."""
    middleware = echo(head_seconds=0.4, idle_seconds=0.4)

    async def drip(client, data):
        for _ in range(200):
            try:
                await client.send(data)
            except ConnectionError:
                return True
            if client.reader.at_eof():
                return True
            await asyncio.sleep(0.05)
        return False

    async def act(port):
        async with Client(port) as silent, Client(port) as loris, Client(port) as kept:
            await loris.send(GET + b"A: ")
            await kept.send(GET + b"\r\n")
            first = await kept.answer()
            dripped = await asyncio.gather(drip(loris, b"a"), silent.closed(), kept.closed())
            return first, dripped

    first, closed = on_server(middleware, act)
    assert first == (200, {"status": "ok"})
    assert closed == [True, True, True]


def test_body_of_a_rejected_request_is_cut_off(build):
    """The response comes at once; the rest of the body is read for a while only."""
    middleware = build(others={"echo": Echo()}, token=TOKEN, head_seconds=0.4, idle_seconds=0.4)

    async def act(port):
        async with Client(port) as client:
            await client.send(POST + b"Content-Length: 100000\r\n\r\n")
            status, _ = await client.answer()
            for _ in range(200):
                try:
                    await client.send(b" ")
                except ConnectionError:
                    return status, True
                if client.reader.at_eof():
                    return status, True
                await asyncio.sleep(0.05)
            return status, False

    assert on_server(middleware, act) == (401, True)


def test_connections_are_kept_alive_and_pipelined(echo):
    async def act(port):
        async with Client(port) as client:
            answers = []
            for _ in range(3):
                await client.send(GET + b"\r\n")
                answers.append(await client.answer())
            await client.send((GET + b"\r\n") * 3)  # pipelined
            return answers + [await client.answer() for _ in range(3)]

    assert on_server(echo(), act) == [(200, {"status": "ok"})] * 6


def test_client_that_does_not_read_is_dropped(echo):
    middleware = echo(stall_seconds=0.3)

    async def act(port):
        async def answer(scope, receive, send):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(40):
                await send({"type": "http.response.body", "body": b"a" * 2**20, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

        middleware.app = answer
        link = socket.create_connection(("127.0.0.1", port))
        link.sendall(GET + b"\r\n")
        for _ in range(1000):
            if dropped_by(middleware, "stalled"):
                break
            await asyncio.sleep(0.02)
        link.close()

    on_server(middleware, act)
    assert dropped_by(middleware, "stalled") == 1


@pytest.mark.parametrize("kind", ["json", "chunked"])
def test_client_can_read_the_413_for_a_body_it_still_sends(echo, kind):
    """The client sends its complete body before it reads; the response must not be lost."""
    middleware, size = echo(), 3_000_000

    async def act(port):
        async with Client(port) as client:
            if kind == "json":
                await client.send(POST + b"Content-Length: %d\r\n\r\n" % size)
            else:
                await client.send(POST + CHUNKED + b"\r\n%x\r\n" % size)
            for _ in range(30):
                await client.send(b" " * (size // 30))
                await asyncio.sleep(0.002)
            return await client.answer()

    status, body = on_server(middleware, act)
    assert (status, body["error"]["code"]) == (413, "too_large")
    assert "1,048,576 bytes" in body["error"]["message"]
    assert "multipart/form-data to /v1/predict: up to 8,388,608" in body["error"]["message"]


MALFORMED = {
    "a long header": GET + b"A: " + b"a" * 40_000 + b"\r\n\r\n",
    "many small headers": GET + b"a:\r\n" * HEAD_BYTES + b"\r\n",
    "a few headers too many": GET + b"a:\r\n" * (MAX_HEADERS + 1) + b"\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": GET + b"Host: localhost\r\n\r\n",
    "a space before the colon": GET + b"A : b\r\n\r\n",
    "not HTTP": b"\x16\x03\x01 not HTTP\r\n\r\n",
    "two origins": GET + b"Origin: http://localhost\r\n" * 2 + b"\r\n",
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a signed length": POST + b"Content-Length: +2\r\n\r\n{}",
    "both a length and chunks": POST + CHUNKED + b"Content-Length: 4\r\n\r\n0\r\n\r\n",
    "no chunk": POST + CHUNKED + b"\r\nx\r\n",
    "tiny chunks": POST + CHUNKED + b"\r\n" + b"1\r\n \r\n" * 2 * CHUNKS,
}


@pytest.mark.parametrize("installed", [False, True])
def test_malformed_requests_get_status_400(echo, monkeypatch, installed):
    """The response has the usual shape, whichever other parser is installed."""
    if installed:
        for name in ("httptools", "uvloop"):
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))

    async def act(port):
        answers = {}
        for name, sent in MALFORMED.items():
            async with Client(port) as client:
                await client.send(sent)
                status, body = await client.answer()
                answers[name] = status, body["error"]["code"], await client.closed()
        return answers, await is_healthy(port)

    answers, healthy = on_server(echo(), act)
    assert answers == dict.fromkeys(MALFORMED, (400, "bad_request", True))
    assert healthy


def test_h11_and_asyncio_are_used_whatever_is_installed(echo, monkeypatch):
    for name in ("httptools", "uvloop"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    middleware = echo()
    config = servers.configure(middleware, middleware.limits)
    config.load()
    assert issubclass(config.http_protocol_class.func, H11Protocol)
    assert config.h11_max_incomplete_event_size == HEAD_BYTES
    assert config.get_loop_factory() in (asyncio.SelectorEventLoop, asyncio.new_event_loop)


@pytest.mark.parametrize(
    ("files", "connections", "accepted"), [(64, 32, 2), (1024, 512, 32), (2**20, 1024, 64)]
)
def test_connection_limit_leaves_room_for_other_files(
    echo, monkeypatch, files, connections, accepted
):
    monkeypatch.setattr(servers, "open_files", lambda: files)
    middleware = echo()
    config = servers.configure(middleware, middleware.limits)
    assert (config.http.keywords["pool"].limit, config.backlog) == (connections, accepted)
    assert connections + 4 * accepted < files


def test_closing_a_lost_connection_aborts_it():
    class Gone(asyncio.Transport):
        aborted = False

        def is_closing(self):
            return self.aborted

        def write_eof(self):
            raise OSError(107, "Transport endpoint is not connected")

        def abort(self):
            self.aborted = True

    gone = Gone()
    sending = types.SimpleNamespace(conn=types.SimpleNamespace(their_state=h11.SEND_BODY))
    LingeringTransport(gone, sending).close()
    assert gone.aborted


def test_announced_bytes_are_reserved_and_released(echo):
    """Also if the client leaves, or the body is late or invalid."""
    middleware = echo(total_bytes=10_000, body_seconds=0.3)

    async def act(port):
        statuses = []
        async with Client(port) as leaves:
            await leaves.send(POST + b"Content-Length: 6000\r\n\r\n{")
            while middleware.budget.reserved == 0:
                await asyncio.sleep(0.01)
            async with Client(port) as refused:
                await refused.send(POST + b"Content-Length: 6000\r\n\r\n")
                statuses.append((await refused.answer())[0])
        async with Client(port) as late:
            while middleware.budget.reserved:
                await asyncio.sleep(0.01)
            await late.send(POST + b"Content-Length: 6000\r\n\r\n{")
            statuses.append((await late.answer())[0])
        async with Client(port) as chunked:
            for size in (6000, 6000):
                await chunked.send(POST + CHUNKED + b"\r\n")
                await chunked.send(b"%x\r\n" % size + b" " * size + b"\r\n0\r\n\r\n")
                statuses.append((await chunked.answer())[0])
        return statuses

    assert on_server(middleware, act) == [429, 408, 400, 400]
    assert middleware.budget.reserved == 0


def test_chunked_bodies_reserve_bytes_as_they_grow(echo):
    middleware = echo(total_bytes=10_000)

    async def act(port):
        async with Client(port) as first, Client(port) as second:
            for client in (first, second):
                await client.send(POST + CHUNKED + b"\r\n")
            for client in (first, second):
                await client.send(b"1770\r\n" + b" " * 6000 + b"\r\n")
                await asyncio.sleep(0.1)
            status, body = await second.answer()
            return status, body["error"]["code"], middleware.budget.reserved

    assert on_server(middleware, act) == (429, "full", 6000)
    assert eventually(lambda: middleware.budget.reserved == 0)
