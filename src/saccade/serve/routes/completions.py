"""Completions of language models in the shape of OpenAI's API, at once or as a stream."""

import json
import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from saccade.serve.batcher import GenerationOptions
from saccade.serve.deadlines import Deadline
from saccade.serve.json_body import StrictRoute
from saccade.serve.models import ModelRegistry, ServedModel
from saccade.serve.problems import WORK, Problem, documented
from saccade.serve.routes.responses import (
    JsonPieces,
    attention_json,
    deadline_of,
    json_array,
    json_object,
    json_response,
)
from saccade.serve.schemas import CompletionAnswer, CompletionRequest
from saccade.serve.stop_sequences import StopSequences
from saccade.tasks import Answer

EVENT_STREAM = "text/event-stream"
NAMES = {"max_length": "max_tokens", "inputs": "prompts", "input": "prompt"}
"""Fields of this route by the words for them in messages of the models."""
Choices = AsyncGenerator[dict[str, object], None]
"""Choices of a stream, one per event."""


def router(models: ModelRegistry) -> APIRouter:
    """Return the router of /v1/completions."""
    routes = APIRouter(route_class=StrictRoute, tags=["language models"])

    @routes.post(
        "/v1/completions",
        summary="Complete",
        response_model=None,
        responses={
            200: {
                "model": CompletionAnswer,
                "description": (
                    "Completions, or with `stream` server-sent events: one object of the same "
                    "shape per piece of text, then `[DONE]`."
                ),
                "content": {EVENT_STREAM: {"schema": {"type": "string"}}},
            },
            **documented("no_such_model", *WORK),
        },
    )
    async def complete(body: CompletionRequest, request: Request) -> Response:
        """Continue one prompt or several, in the shape of OpenAI's completions API."""
        model = models.find(body.model)
        if not model.streams:
            raise Problem(
                "invalid", f"{model.name} is not a language model; send its inputs to /v1/predict"
            )
        completion = Completion(body, model)
        deadline = deadline_of(request, model, body.prompts)
        try:
            return await (
                completion.stream(deadline) if body.stream else completion.answer(deadline)
            )
        except Problem as problem:
            raise problem.renamed(NAMES) from None

    return routes


class Completion:
    """Response to one completion request.

    Args:
        body: The request.
        model: Model that generates.
    """

    def __init__(self, body: CompletionRequest, model: ServedModel) -> None:
        self.body, self.model, self.options = body, model, _options(body)
        self.prompts = [prompt for prompt in body.prompts for _ in range(body.n or 1)]
        self._head: Mapping[str, object] = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": model.name,
        }

    async def answer(self, deadline: Deadline) -> Response:
        """Return the response with all texts, once they are complete."""
        attention = self.body.attention
        answers = await self.model.predict(
            self.prompts, self.options, deadline, attention=attention
        )
        choices = (self._encoded(*numbered) for numbered in enumerate(answers))
        pieces = json_object(self._head, choices=json_array(choices))
        return await json_response(pieces, answers, attention=attention)

    async def stream(self, deadline: Deadline) -> Response:
        """Return the response that sends the text while it is generated."""
        if len(self.prompts) > 1 or self.body.attention:
            raise Problem(
                "invalid",
                "stream supports one prompt with n = 1 and without attention; send one request "
                "per prompt",
            )
        choices = self._choices(deadline)
        first = await anext(choices)  # an error before the first piece gets a status
        return EventStream(self._events(first, choices))

    def _encoded(self, index: int, answer: Answer) -> JsonPieces:
        stop = StopSequences(self.body.stop_sequences)
        text = stop.feed(answer.text) + stop.flush()
        before = self.prompts[index] if self.body.echo else ""
        reason = "stop" if stop.reached or answer.finished else "length"
        attention = {"attention": attention_json(answer)} if self.body.attention else {}
        choice = _choice(before + text, reason, index, truncated=answer.truncated)
        return json_object(choice, **attention)

    async def _choices(self, deadline: Deadline) -> Choices:
        """Yield the choice of each event; the last one has the finish reason."""
        stop, finished, cut = StopSequences(self.body.stop_sequences), False, False
        before = self.prompts[0] if self.body.echo else ""
        stream = self.model.stream(self.prompts[0], self.options, deadline)
        async with aclosing(stream) as pieces:
            async for piece in pieces:
                cut = piece.truncated
                if piece.finished is not None:
                    finished = piece.finished
                elif text := before + stop.feed(piece.text):
                    yield _choice(text, None, truncated=cut)
                    before = ""
                if stop.reached:
                    deadline.satisfied = True
                    break
        reason = "stop" if stop.reached or finished else "length"
        yield _choice(before + stop.flush(), reason, truncated=cut)

    async def _events(self, first: dict[str, object], rest: Choices) -> AsyncGenerator[str, None]:
        async with aclosing(rest):
            yield _event({**self._head, "choices": [first]})
            try:
                async for choice in rest:
                    yield _event({**self._head, "choices": [choice]})
            except Problem as problem:
                yield _event(problem.renamed(NAMES).body())
                return
        yield "data: [DONE]\n\n"


class EventStream(StreamingResponse):
    """Server-sent events, whose generator is closed when the client stops reading."""

    def __init__(self, events: AsyncGenerator[str, None]) -> None:
        super().__init__(events, media_type=EVENT_STREAM)
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        async with aclosing(self._events):
            await super().__call__(scope, receive, send)


def _choice(text: str, reason: str | None, index: int = 0, *, truncated: bool) -> dict[str, object]:
    return {
        "index": index,
        "text": text,
        "logprobs": None,
        "finish_reason": reason,
        "truncated": truncated,
    }


def _event(table: Mapping[str, object]) -> str:
    return f"data: {json.dumps(table, allow_nan=False)}\n\n"


def _options(body: CompletionRequest) -> GenerationOptions:
    """Return the options that the request sets, as tasks take them."""
    seed = secrets.randbelow(2**32) if body.seed is None else body.seed
    options: GenerationOptions = {"max_length": body.max_tokens, "seed": seed}
    if body.temperature == 0:
        return {**options, "beam": 1}
    sampling = {"temperature": body.temperature, "top_p": body.top_p}
    chosen = {name: value for name, value in sampling.items() if value is not None}
    return {**options, **chosen, **({"sample": True} if chosen else {})}
