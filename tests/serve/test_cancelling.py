"""Cancellation: generation ends between tokens, encoding between layers and images.

The model is then free for the next request.
"""

import asyncio
import json
import time
from dataclasses import replace
from typing import Any

import pytest
import torch

from saccade.cancellation import Cancelled, cancellable
from saccade.layers.residual import Residual
from saccade.serve.batcher import PredictionJob
from saccade.tasks._shared import images
from tests.serve.conftest import INPUTS, client, send_request
from tests.serve.fakes import eventually

LIMIT = 5
"""Units of work after which the work is cancelled."""
LONG = "a b c d e f " * 6
WRITERS = {"en-fr": LONG, "book": "the cat", "captions": INPUTS["captions"][0]}
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"beam": 1, "sample": False},
    "beam": {"beam": 3},
    "sample": {"sample": True},
    "attention": {"beam": 1, "sample": False, "attention": True},
}
READERS = {
    "mood": "i am happy",
    "nli": ["a cat", "a dog"],
    "holes": "the [MASK] cat",
    "photos": INPUTS["photos"][0],
}


class Counter:
    """Counter of the calls of a function; `slow` is the time added to each, in seconds."""

    def __init__(self, slow: float = 0.0) -> None:
        self.calls, self.slow = 0, slow

    def around(self, monkeypatch, owner, name):
        plain = getattr(owner, name)

        def counted(*args, **options):
            self.calls += 1
            time.sleep(self.slow)
            return plain(*args, **options)

        monkeypatch.setattr(owner, name, counted)


def endless(monkeypatch, task):
    """Make all answers as long as allowed."""
    output = type(task.writes)
    plain = output.limits

    def limits(self, max_length):
        return replace(plain(self, max_length), min_length=max_length)

    monkeypatch.setattr(output, "limits", limits)


def require_end(counter, work):
    """Check that cancelled work starts no further unit; each thread may be within one."""
    with cancellable(lambda: counter.calls >= LIMIT), pytest.raises(Cancelled):
        work()
    assert LIMIT <= counter.calls < LIMIT + torch.get_num_threads()
    counter.calls = 0
    work()
    assert counter.calls > 2 * LIMIT  # much was left to do


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", WRITERS)
def test_generation_is_cancelled_between_tokens(tasks, monkeypatch, name, way):
    task, counter = tasks[name], Counter()
    endless(monkeypatch, task)
    counter.around(monkeypatch, type(task.model), "step")
    inputs = [task.from_json(WRITERS[name])] * 3
    require_end(counter, lambda: task.predict(inputs, max_length=20, **WAYS[way]))


@pytest.mark.parametrize("attention", [False, True])
@pytest.mark.parametrize("name", READERS)
def test_encoding_is_cancelled_between_layers(tasks, monkeypatch, name, attention):
    task, counter = tasks[name], Counter()
    counter.around(monkeypatch, Residual, "forward")
    inputs = [task.from_json(READERS[name])] * 12
    require_end(counter, lambda: task.predict(inputs, batch_size=1, attention=attention))


@pytest.mark.parametrize("unit", ["decode_image", "resized"])
@pytest.mark.parametrize("name", ["photos", "captions"])
def test_image_decoding_is_cancelled_between_images(tasks, monkeypatch, name, unit):
    task, counter = tasks[name], Counter()
    counter.around(monkeypatch, images, unit)
    inputs = [task.from_json(INPUTS[name][0])] * 12
    require_end(counter, lambda: task.predict(inputs))


HEAVY: dict[str, dict[str, Any]] = {
    "en-fr": {"beam": 3, "max_length": 60},
    "book": {"sample": True, "max_length": 60},
    "captions": {"beam": 3, "max_length": 60},
    "photos": {},
}


async def miss_deadline(middleware, body, counter):
    async with client(middleware) as http:
        assert (await http.post("/v1/predict", json=body)).status_code == 504


async def disconnect(middleware, body, counter):
    """Disconnect as soon as the work has begun."""
    content = json.dumps(body).encode()
    parts = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive():
        while not parts and counter.calls == 0:
            await asyncio.sleep(0.01)
        return parts.pop() if parts else {"type": "http.disconnect"}

    async def send(message):
        pass

    headers = {"host": "localhost", "content-type": "application/json"}
    headers["content-length"] = str(len(content))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/predict",
        "raw_path": b"/v1/predict",
        "root_path": "",
        "query_string": b"",
        "headers": [(key.encode(), value.encode()) for key, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await middleware(scope, receive, send)


async def cancel_request(middleware, body, counter):
    """Cancel a running request, as uvicorn does after --grace."""
    async with client(middleware) as http:
        request = asyncio.ensure_future(http.post("/v1/predict", json=body))
        while counter.calls == 0:
            await asyncio.sleep(0.01)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request


@pytest.mark.parametrize(
    ("how", "seconds"), [(miss_deadline, 0.4), (disconnect, 60.0), (cancel_request, 60.0)]
)
@pytest.mark.parametrize("name", HEAVY)
def test_model_is_free_after_its_request_is_cancelled(
    build, tasks, monkeypatch, name, how, seconds
):
    task, counter, options = tasks[name], Counter(slow=0.05), HEAVY[name]
    if options:
        endless(monkeypatch, task)
        counter.around(monkeypatch, type(task.model), "step")
    else:
        counter.around(monkeypatch, images, "decode_image")
    middleware = build(name, timeout=seconds)
    value = WRITERS.get(name, INPUTS[name][0])
    asyncio.run(how(middleware, {"inputs": [value] * 60, **options}, counter))
    begun = counter.calls
    time.sleep(0.3)  # enough for six steps, of which none may begin
    assert counter.calls <= begun + torch.get_num_threads()
    [model] = middleware.models
    small = PredictionJob([task.from_json(value)], {"max_length": 1} if options else {})
    model._batcher.submit(small)
    assert len(small.future.result(20)) == 1


def test_abandoned_stream_is_cancelled_between_tokens(build, tasks, monkeypatch):
    """Also if it has nothing to send, such as incomplete characters."""
    task, counter = tasks["book"], Counter(slow=0.02)
    endless(monkeypatch, task)
    counter.around(monkeypatch, type(task.model), "step")
    monkeypatch.setattr(task, "continuation", lambda context, written: "")
    middleware = build("book", timeout=0.4)
    body = {"model": "book", "prompt": "the", "max_tokens": 500, "stream": True}
    assert send_request(middleware, "POST", "/v1/completions", json=body).status_code == 504
    begun = counter.calls
    time.sleep(0.2)
    assert counter.calls <= begun + 1
    [model] = middleware.models
    assert eventually(lambda: not model._streamer._running)
