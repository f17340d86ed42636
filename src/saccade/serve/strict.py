"""Bodies as JSON and nothing else: no NaN, no halves of characters, no endless nesting."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from saccade.serve.problems import Problem
from saccade.serve.waiting import QUICK

MOST_SAID = 5
"""Mistakes of one body that are named."""


class StrictRequest(Request):
    """A request whose body is read strictly."""

    async def json(self) -> Any:
        """The value of the body."""
        body = await self.body()
        try:
            if len(body) <= QUICK:
                return from_json(body, allow_inf_nan=False, cache_strings="none")
            return await run_in_threadpool(
                from_json, body, allow_inf_nan=False, cache_strings="none"
            )
        except ValueError as error:  # says the place, and none of the body
            raise Problem("bad_json", f"the body is no JSON that can be read: {error}") from None


class StrictRoute(APIRoute):
    """A route for such requests."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handler(StrictRequest(request.scope, request.receive))

        return strict


def invalid(error: RequestValidationError) -> Problem:
    """What is wrong with the fields of a body, without repeating their values."""
    said = []
    for each in error.errors()[:MOST_SAID]:
        where = ".".join(str(part) for part in each["loc"][1:]) or "the body"
        said.append(f"{where[:100]}: {each['msg']}")
    return Problem("invalid", "; ".join(said))


def usual(error: HTTPException) -> Problem:
    """Errors of the framework, such as an unknown path, in the shape of ours."""
    if isinstance(error, Problem):
        return error
    codes = {400: "bad_json", 404: "not_found", 405: "wrong_method"}
    problem = Problem(codes.get(error.status_code, "failed"), str(error.detail))
    problem.headers = {**(error.headers or {}), **(problem.headers or {})}
    return problem
