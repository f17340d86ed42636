"""Language models in the shape of OpenAI's API for completions, whole or as a stream."""

import json
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from saccade.serve.deadlines import Waiting
from saccade.serve.json_body import StrictRoute
from saccade.serve.models import Model, Models
from saccade.serve.problems import WORK, Problem, documented
from saccade.serve.routes.asking import Pieces, listed, record_of, waiting, with_raw, written
from saccade.serve.schemas import CompletionAnswer, CompletionRequest
from saccade.serve.stop_sequences import Ends
from saccade.serve.streamer import End
from saccade.tasks import Answer

EVENTS = "text/event-stream"


def router(models: Models) -> APIRouter:
    """/v1/completions."""
    routes = APIRouter(route_class=StrictRoute, tags=["language models"])

    @routes.post(
        "/v1/completions",
        response_model=None,
        responses={
            200: {
                "model": CompletionAnswer,
                "content": {EVENTS: {"schema": {"type": "string"}}},
            },
            **documented("no_such_model", *WORK),
        },
    )
    async def complete(asked: CompletionRequest, request: Request) -> Response:
        """Go on with a text or several."""
        model = models.find(asked.model)
        if not model.streams:
            raise Problem("invalid", f"{model.name} is no language model; ask /v1/predict")
        prompts = [asked.prompt] if isinstance(asked.prompt, str) else asked.prompt
        completion = Completion(asked, model, prompts)
        wait = waiting(request, model, prompts)
        return await (completion.stream(wait) if asked.stream else completion.whole(wait))

    return routes


class Completion:
    """What is said to one request."""

    def __init__(self, asked: CompletionRequest, model: Model, prompts: list[str]) -> None:
        self.asked, self.model, self.options = asked, model, _options(asked)
        self.prompts = [prompt for prompt in prompts for _ in range(asked.n or 1)]
        stops = [asked.stop] if isinstance(asked.stop, str) else asked.stop or []
        self.stops = [stop for stop in stops if stop]
        self._about = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": model.name,
        }

    async def whole(self, wait: Waiting) -> Response:
        """The texts when they are done."""
        attention = self.asked.attention
        found = await self.model.answers(self.prompts, self.options, wait, attention=attention)
        choices = (self._choice(*each) for each in enumerate(found))
        pieces = with_raw(self._about, choices=listed(choices))
        return await written(pieces, found, attention=attention)

    async def stream(self, wait: Waiting) -> Response:
        """The text as it is written, from the first piece on."""
        if len(self.prompts) > 1 or self.asked.attention:
            raise Problem("invalid", "stream is for one prompt, n = 1, without attention")
        pieces = self._pieces(wait)
        first = await anext(pieces)  # what is refused is refused with a status
        return EventStream(self._events(first, pieces))

    def _choice(self, index: int, answer: Answer) -> Pieces:
        ends = Ends(self.stops)
        text = ends.add(answer.text) + ends.rest()
        before = self.prompts[index] if self.asked.echo else ""
        reason = "stop" if ends.reached or answer.finished else "length"
        choice = self._piece(before + text, reason, index)
        return with_raw(
            choice, **({"attention": record_of(answer)} if self.asked.attention else {})
        )

    def _piece(self, text: str, reason: str | None, index: int = 0) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": None, "finish_reason": reason}

    async def _pieces(self, wait: Waiting) -> AsyncGenerator[dict[str, Any], None]:
        """What each event says; the last one says why it is the last."""
        ends, finished = Ends(self.stops), False
        before = self.prompts[0] if self.asked.echo else ""
        async with aclosing(self.model.pieces(self.prompts[0], self.options, wait)) as said:
            async for piece in said:
                if isinstance(piece, End):
                    finished = piece.finished
                elif text := before + ends.add(piece):
                    yield self._piece(text, None)
                    before = ""
                if ends.reached:
                    wait.enough = True
                    break
        reason = "stop" if ends.reached or finished else "length"
        yield self._piece(before + ends.rest(), reason)

    async def _events(
        self, first: dict[str, Any], rest: AsyncGenerator[dict[str, Any], None]
    ) -> AsyncIterator[str]:
        async with aclosing(rest):
            yield _event({**self._about, "choices": [first]})
            try:
                async for piece in rest:
                    yield _event({**self._about, "choices": [piece]})
            except Problem as problem:
                yield _event(problem.body())
                return
        yield "data: [DONE]\n\n"


class EventStream(StreamingResponse):
    """Server-sent events; what makes them ends when nobody reads them any more."""

    def __init__(self, events: AsyncIterator[str]) -> None:
        super().__init__(events, media_type=EVENTS)
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them."""
        async with aclosing(self._events):  # type: ignore[type-var]
            await super().__call__(scope, receive, send)


def _event(table: dict[str, Any]) -> str:
    return f"data: {json.dumps(table, allow_nan=False)}\n\n"


def _options(asked: CompletionRequest) -> dict[str, Any]:
    """As tasks know them."""
    seed = secrets.randbelow(2**32) if asked.seed is None else asked.seed
    options: dict[str, Any] = {"max_length": asked.max_tokens, "seed": seed}
    if asked.temperature == 0:
        return {**options, "beam": 1}
    drawn = {"temperature": asked.temperature, "top_p": asked.top_p}
    given = {name: value for name, value in drawn.items() if value is not None}
    return {**options, **given, **({"sample": True} if given else {})}
