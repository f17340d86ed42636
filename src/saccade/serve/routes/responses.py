"""Helpers that the routes share: deadlines of requests, and JSON responses built in pieces."""

import json
from collections.abc import Iterable, Mapping, Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from saccade.serve.deadlines import Deadline
from saccade.serve.models import ServedModel
from saccade.tasks import Answer

JsonPieces = Iterable[str]
"""Pieces of JSON text, generated when they are needed."""
PART_BYTES = 2**18
"""Bytes of a response that are sent at once."""
FEW_ANSWERS = 4
"""Answers without attention that are encoded in the event loop, without a thread."""


def deadline_of(request: Request, model: ServedModel, inputs: Sequence[object]) -> Deadline:
    """Return the deadline of a request, after adding its model and inputs to the log."""
    context = request.state.context
    context.facts |= {"model": model.name, "inputs": len(inputs)}
    if request.app.state.log_text and not model.task.describe().reads.suffixes:
        context.facts["text"] = list(inputs)
    return Deadline(request, context.deadline, context.size)


def attention_json(answer: Answer) -> JsonPieces:
    """Return the attention record of an answer as JSON."""
    return ("null",) if answer.attention is None else answer.attention.json_pieces()


def json_object(table: Mapping[str, object], **fields: JsonPieces) -> JsonPieces:
    """Yield a table as JSON, followed by fields that are JSON already."""
    yield json.dumps(table, allow_nan=False)[:-1]
    for i, (name, pieces) in enumerate(fields.items()):
        yield f'{", " if table or i else ""}"{name}": '
        yield from pieces
    yield "}"


def json_array(items: Iterable[JsonPieces]) -> JsonPieces:
    """Yield a list of items that are JSON already."""
    yield "["
    for i, pieces in enumerate(items):
        yield ", " if i else ""
        yield from pieces
    yield "]"


async def json_response(
    pieces: JsonPieces, answers: Sequence[Answer], *, attention: bool
) -> Response:
    """Return the response with this JSON; a large one is encoded in a thread."""

    def encoded() -> bytes:
        return b"".join(piece.encode() for piece in pieces)

    large = attention or len(answers) > FEW_ANSWERS
    return PartedJSONResponse(await run_in_threadpool(encoded) if large else encoded())


class PartedJSONResponse(Response):
    """JSON response that is sent in parts, as fast as the client reads them."""

    media_type = "application/json"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        for at in range(0, len(self.body), PART_BYTES):
            part = bytes(self.body[at : at + PART_BYTES])
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
