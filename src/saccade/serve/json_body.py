"""Bodies of requests: strict JSON of bounded size, and uploads.

JSON may hold no NaN, no half of a surrogate pair and no endless nesting. Its values are counted
before it is parsed, because objects cost far more time and memory than the bytes they come from.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from saccade.serve.limits import Limits
from saccade.serve.middleware import UPLOAD
from saccade.serve.multipart import boundary_of, parts_of
from saccade.serve.problems import Problem, shortened

MOST_SAID = 5
"""Mistakes of one body that are named."""
MOST_KEYS = 64
"""Keys of a request; no schema has as many."""
LONGEST_PLACE = 100
"""Characters of the name of a field in a message."""
REQUEST, IMAGE = "request", "image"
"""The names of the parts of an upload."""


class StrictRequest(Request):
    """A request whose body is read strictly.

    An upload is read as the JSON of its part `request`, with the files of its parts `image` as
    `inputs`.
    """

    def __init__(self, scope: Scope, receive: Receive) -> None:
        kind = Headers(scope=scope).get("content-type", "")
        self._boundary: str | None = None
        if kind.partition(";")[0].strip().lower() == UPLOAD:
            self._boundary = boundary_of(kind)
            # FastAPI sees the JSON that the upload stands for
            scope = {**scope, "headers": list(scope["headers"])}
            MutableHeaders(scope=scope)["content-type"] = "application/json"
        super().__init__(scope, receive)

    async def json(self) -> Any:
        """The value of the body."""
        body, limits = await self.body(), self.state.passage.limits
        if self._boundary is None:
            return parsed(body, limits)
        return uploaded(body, self._boundary, limits)


def parsed(body: bytes, limits: Limits) -> Any:
    """Return the value of a JSON body, unless it is too large or not valid."""
    if count_values(body, limits.values) > limits.values:
        raise Problem(
            "invalid",
            f"the body has more than {limits.values:,} values; send fewer inputs per request",
        )
    try:
        value = from_json(body, allow_inf_nan=False, cache_strings="none")
    except ValueError as error:  # says the place, and none of the body
        raise Problem("bad_json", f"the body is not valid JSON: {error}") from None
    if isinstance(value, dict) and len(value) > MOST_KEYS:
        raise Problem("invalid", f"the body has {len(value):,} keys; see /openapi.json")
    return value


def count_values(body: bytes, most: int) -> int:
    """Count the commas and opening brackets outside strings: as many as values, or a few more.

    Above `most` the count need not be exact. It takes some passes in C over the bytes.
    """
    total = _separators(body)
    if total <= most:  # even with those inside strings
        return total
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"")
    if (quotes := bare.count(b'"')) > 4 * most:  # each value has a string and perhaps a key
        return quotes
    return _separators(b"".join(bare.split(b'"')[::2]))


def _separators(text: bytes) -> int:
    return sum(map(text.count, (b",", b"[", b"{")))


def uploaded(body: bytes, boundary: str, limits: Limits) -> dict[str, Any]:
    """Return what an upload stands for: its request, with the images as inputs."""
    request: Any = None
    images: list[bytes] = []
    for part in parts_of(body, boundary, most=limits.inputs + 1):
        if part.name == IMAGE:
            images.append(part.content)
        elif part.name == REQUEST and request is None:
            if len(part.content) > limits.json:
                raise Problem("too_large", f"the part request may have {limits.json:,} bytes")
            request = parsed(part.content, limits)
        else:
            raise Problem(
                "invalid",
                f"unexpected part {shortened(part.name, LONGEST_PLACE)!r}; an upload has one part "
                f"named {REQUEST} (JSON), and one named {IMAGE} per image",
            )
    request = {} if request is None else request
    if not isinstance(request, dict) or "inputs" in request:
        raise Problem("invalid", f"the part {REQUEST} must be a JSON object without inputs")
    return {**request, "inputs": images}


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
        said.append(f"{shortened(where, LONGEST_PLACE)}: {each['msg']}")
    return Problem("invalid", "; ".join(said))


def usual(error: HTTPException) -> Problem:
    """Errors of the framework, such as an unknown path, in the shape of ours."""
    if isinstance(error, Problem):
        return error
    codes = {400: "bad_json", 404: "not_found", 405: "wrong_method"}
    problem = Problem(codes.get(error.status_code, "failed"), str(error.detail))
    problem.headers = {**(error.headers or {}), **(problem.headers or {})}
    return problem
