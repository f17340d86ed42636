"""Request bodies: strict JSON of bounded size, and uploads.

JSON must not contain NaN, lone surrogates or deep nesting. Its values are counted before it is
parsed, because objects cost far more time and memory than the bytes they come from.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from saccade.serve.limits import RequestLimits
from saccade.serve.middleware import UPLOAD
from saccade.serve.multipart import Part, boundary_of, parts_of
from saccade.serve.problems import MAX_PLACE, Problem, shortened
from saccade.serve.schemas import PredictRequest

MAX_KEYS = 64
"""Keys of a request body; no schema has as many."""
REQUEST, IMAGE, VECTORS = "request", "image", "vectors"
"""Names of the parts of an upload."""
TEXT_FIELDS = ("model", "split")
FORM_FIELDS = tuple(name for name in PredictRequest.model_fields if name != "inputs")
"""Fields of a request that may be parts of an upload; the values of some are always texts."""
MAX_FIELD = 1_024
"""Bytes of such a part."""


class StrictRequest(Request):
    """Request with a strictly parsed body.

    An upload is read as the JSON of its part `request`, with the files of its parts `image` or
    `vectors` as `inputs`.
    """

    def __init__(self, scope: Scope, receive: Receive) -> None:
        content_type = Headers(scope=scope).get("content-type", "")
        self._boundary: str | None = None
        if content_type.partition(";")[0].strip().lower() == UPLOAD:
            self._boundary = boundary_of(content_type)
            # FastAPI sees the JSON that the upload stands for
            scope = {**scope, "headers": list(scope["headers"])}
            MutableHeaders(scope=scope)["content-type"] = "application/json"
        super().__init__(scope, receive)

    async def json(self) -> object:
        """Return the JSON value of the body."""
        body, limits = await self.body(), self.state.context.limits
        if self._boundary is None:
            return parse_json(body, limits)
        return parse_upload(body, self._boundary, limits)


class StrictRoute(APIRoute):
    """Route whose requests are `StrictRequest`s."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handler(StrictRequest(request.scope, request.receive))

        return strict


def parse_json(body: bytes, limits: RequestLimits) -> object:
    """Return the value of a JSON body.

    Raises:
        Problem: The body has too many values or keys, or is not valid JSON.
    """
    if count_values(body, limits.json_values) > limits.json_values:
        raise Problem(
            "invalid",
            f"the body has more than {limits.json_values:,} values; send fewer inputs per request",
        )
    try:
        value = from_json(body, allow_inf_nan=False, cache_strings="none")
    except ValueError as error:  # its message has the position, but nothing of the body
        raise Problem(
            "bad_json", f"the body is not valid JSON: {error}; send a JSON object"
        ) from None
    if isinstance(value, dict) and len(value) > MAX_KEYS:
        raise Problem(
            "invalid",
            f"the body has {len(value):,} keys, more than the {MAX_KEYS} allowed; "
            "see /openapi.json",
        )
    return value


def count_values(body: bytes, most: int) -> int:
    """Count the commas and opening brackets outside strings: as many as values, or a few more.

    Above `most` the count need not be exact. Takes a few passes in C over the bytes.
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


def parse_upload(body: bytes, boundary: str, limits: RequestLimits) -> dict[str, object]:
    """Return the request that an upload stands for, with its files as `inputs`."""
    request: object = None
    files: list[bytes] = []
    fields: dict[str, object] = {}
    for part in parts_of(body, boundary, most=limits.inputs + 1 + len(FORM_FIELDS)):
        if part.name in (IMAGE, VECTORS):
            files.append(part.content)
        elif part.name == REQUEST and request is None:
            if len(part.content) > limits.json_bytes:
                raise Problem(
                    "too_large",
                    f"the part {REQUEST} has {len(part.content):,} bytes, more than the "
                    f"{limits.json_bytes:,} bytes allowed; "
                    "send a smaller request",
                )
            request = parse_json(part.content, limits)
        elif part.name in FORM_FIELDS and part.name not in fields:
            fields[part.name] = _field_value(part, limits)
        else:
            raise Problem(
                "invalid",
                f"unexpected part {shortened(part.name, MAX_PLACE)!r}; an upload has one part "
                f"named {IMAGE} per image or {VECTORS} per .npy file, and the other fields of the "
                f"request as parts of their own or as JSON in one part named {REQUEST}",
            )
    request = {} if request is None else request
    if not isinstance(request, dict) or "inputs" in request:
        raise Problem(
            "invalid",
            f"the part {REQUEST} must be a JSON object without inputs; send the inputs as files",
        )
    if repeated := sorted(request.keys() & fields.keys()):
        raise Problem("invalid", f"{repeated[0]} is in {REQUEST} and a part; send it once")
    return {**request, **fields, "inputs": files}


def _field_value(part: Part, limits: RequestLimits) -> object:
    """Return the value of a form field: a number, true, false or null; any other text is itself."""
    if len(part.content) > MAX_FIELD:
        raise Problem(
            "too_large",
            f"the part {part.name} has more than the {MAX_FIELD:,} bytes allowed; "
            "send fewer or shorter values",
        )
    try:
        text = part.content.decode()
    except UnicodeDecodeError:
        raise Problem("invalid", f"the part {part.name} is not UTF-8; send it as UTF-8") from None
    if part.name in TEXT_FIELDS:
        return text
    try:
        return parse_json(part.content, limits)
    except Problem:
        return text
