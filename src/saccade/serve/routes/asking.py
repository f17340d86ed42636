"""What the routes share: the request that waits, what its log says, and JSON put together."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from saccade.serve.models import Model
from saccade.serve.waiting import Waiting
from saccade.tasks.base import Answer

FEW = 4
"""Answers without attention that are written at once, without a thread."""


def waiting(request: Request, model: Model, inputs: Sequence[Any]) -> Waiting:
    """The request as one that waits; its log will say for what."""
    passage = request.state.passage
    passage.facts |= {"model": model.name, "inputs": len(inputs)}
    if request.app.state.log_text and model.task.reads != "image":
        passage.facts["text"] = list(inputs)
    return Waiting(request, passage.deadline, passage.size)


def record_of(answer: Answer) -> str:
    """Where it looked, as JSON: records are large and write themselves."""
    return "null" if answer.attention is None else answer.attention.to_json()


def with_raw(table: dict[str, Any], **fields: str) -> str:
    """The table as JSON, with further fields that are JSON already."""
    parts = [json.dumps(table, allow_nan=False)[1:-1], *(f'"{k}": {v}' for k, v in fields.items())]
    return f"{{{', '.join(part for part in parts if part)}}}"


def listed(texts: Iterable[str]) -> str:
    """A list of what is JSON already."""
    return f"[{', '.join(texts)}]"


async def written(
    write: Callable[[], str], answers: Sequence[Answer], *, attention: bool
) -> Response:
    """The answer that `write` writes as JSON; a large one in a thread."""

    def encoded() -> bytes:
        return write().encode()

    large = attention or len(answers) > FEW
    content = await run_in_threadpool(encoded) if large else encoded()
    return Response(content, media_type="application/json")
