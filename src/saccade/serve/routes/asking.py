"""What the routes share: the request that waits, what its log says, and JSON put together."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from saccade.serve.deadlines import Waiting
from saccade.serve.models import Model
from saccade.tasks import Answer

Pieces = Iterable[str]
"""JSON in pieces, which are written when they are wanted."""
PART = 2**18
"""Bytes of an answer that are sent at once."""
FEW = 4
"""Answers without attention that are written at once, without a thread."""


def waiting(request: Request, model: Model, inputs: Sequence[Any]) -> Waiting:
    """The request as one that waits; its log will say for what."""
    passage = request.state.passage
    passage.facts |= {"model": model.name, "inputs": len(inputs)}
    if request.app.state.log_text and model.task.reads != "image":
        passage.facts["text"] = list(inputs)
    return Waiting(request, passage.deadline, passage.size)


def record_of(answer: Answer) -> Pieces:
    """Where it looked, as JSON: records are large and write themselves."""
    return ("null",) if answer.attention is None else answer.attention.json_pieces()


def with_raw(table: dict[str, Any], **fields: Pieces) -> Pieces:
    """The table as JSON, with further fields that are JSON already."""
    yield json.dumps(table, allow_nan=False)[:-1]
    for i, (name, pieces) in enumerate(fields.items()):
        yield f'{", " if table or i else ""}"{name}": '
        yield from pieces
    yield "}"


def listed(items: Iterable[Pieces]) -> Pieces:
    """A list of what is JSON already."""
    yield "["
    for i, pieces in enumerate(items):
        yield ", " if i else ""
        yield from pieces
    yield "]"


async def written(pieces: Pieces, answers: Sequence[Answer], *, attention: bool) -> Response:
    """The answer that these pieces of JSON make; a large one is put together in a thread."""

    def encoded() -> bytes:
        return b"".join(piece.encode() for piece in pieces)

    large = attention or len(answers) > FEW
    return JSONText(await run_in_threadpool(encoded) if large else encoded())


class JSONText(Response):
    """JSON that is sent a part at a time, as fast as the client reads it."""

    media_type = "application/json"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        for at in range(0, len(self.body), PART):
            part = bytes(self.body[at : at + PART])
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
