"""Errors of requests: a status, a code for programs and a message for people."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

PROBLEMS = {
    "bad_request": (400, "The request is not valid HTTP, or its headers are ambiguous."),
    "bad_json": (400, "The body is not valid JSON."),
    "no_token": (401, "The bearer token is missing or wrong."),
    "wrong_origin": (403, "The request comes from a page of another origin."),
    "not_found": (404, "There is nothing at this path."),
    "no_such_model": (404, "No model has this name."),
    "wrong_method": (405, "The path exists but does not accept this method."),
    "slow_body": (408, "The body did not arrive in time."),
    "too_large": (413, "The body is larger than allowed."),
    "not_json": (415, "The body has an unsupported media type or encoding."),
    "wrong_host": (421, "The Host header is not a name of this server."),
    "invalid": (422, "A field is missing, unknown or out of range, or an input is unusable."),
    "full": (429, "The queue is full. Retry after the seconds in Retry-After."),
    "gone": (499, "The client closed the connection."),
    "failed": (500, "Internal error. The server's log has details."),
    "ending": (503, "The server is shutting down and accepts no new requests."),
    "too_late": (504, "The answer was not ready in time."),
}
"""Status and meaning of each error code."""
RETRY_CODES = ("full", "ending")
RETRY_SECONDS = 1
MAX_MESSAGE = 1_000
"""Characters of a message. The middle of a longer one is left out."""
MAX_PLACE = 100
"""Characters of the name of a field in a message."""
MAX_MISTAKES = 5
"""Mistakes of one body that a message names."""
RULES = {
    "missing": "is missing",
    "extra_forbidden": "is not a field of this request",
    "string_type": "must be a text",
    "string_too_long": "must have at most {max_length:,} characters",
    "int_type": "must be an integer",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "too_short": "must have at least {min_length} item",
    "too_long": "must have at most {max_length:,} items",
    "greater_than_equal": "must be at least {ge:,}",
    "less_than_equal": "must be at most {le:,}",
    "literal_error": "must be {expected}",
    "model_type": "must be a JSON object",
    "model_attributes_type": "must be a JSON object",
}
"""The rule that a field breaks, by pydantic's name of the error."""
MUST, BODY = "must be ", "the body"


class Problem(HTTPException):
    """Error that ends a request, and its response.

    Args:
        code: One of the keys of `PROBLEMS`.
        message: Sentence for people: the error and its remedy.
        field: Field of the request that is wrong, if it is a single one.
    """

    def __init__(self, code: str, message: str, field: str | None = None) -> None:
        headers = {}
        if code in RETRY_CODES:
            headers["Retry-After"] = str(RETRY_SECONDS)
        if code == "no_token":
            headers["WWW-Authenticate"] = "Bearer"
        if code == "bad_request":  # where the next request begins is uncertain
            headers["Connection"] = "close"
        super().__init__(PROBLEMS[code][0], shortened(message, MAX_MESSAGE), headers)
        self.code, self.field = code, field

    def renamed(self, names: Mapping[str, str]) -> "Problem":
        """Return the problem with some words of its message replaced: those for fields."""
        words = "|".join(names)
        message = re.sub(rf"\b(?:{words})\b", lambda match: names[match[0]], self.detail)
        return Problem(self.code, message, self.field)

    @classmethod
    def from_validation(cls, error: RequestValidationError) -> "Problem":
        """Return the problem for the invalid fields of a body; it does not repeat their values."""
        mistakes = list(_mistakes(error.errors()))[:MAX_MISTAKES]
        sentence = "; ".join(f"{place}: {rule}" for place, rule in mistakes)
        field = mistakes[0][0].partition(".")[0] if len(mistakes) == 1 else None
        field = None if field == BODY else field
        return cls("invalid", f"{sentence}. See /docs for the fields of each request", field)

    @classmethod
    def from_http(cls, error: HTTPException) -> "Problem":
        """Return the problem for an error of the framework, such as an unknown path."""
        if isinstance(error, cls):
            return error
        codes = {400: "bad_json", 404: "not_found", 405: "wrong_method"}
        methods = (error.headers or {}).get("Allow", "another method")
        details = {
            404: "the server has nothing at this path; see /docs for its paths",
            405: f"this path takes {methods}; see /docs for the requests",
        }
        detail = details.get(error.status_code, str(error.detail))
        problem = cls(codes.get(error.status_code, "failed"), detail)
        problem.headers = {**(error.headers or {}), **(problem.headers or {})}
        return problem

    def body(self) -> dict[str, dict[str, str | None]]:
        """Return the JSON body of the response, in the one shape that all errors have.

        It has all keys of an error of OpenAI's API.
        """
        kind = "invalid_request_error" if self.status_code < 500 else "server_error"
        error = {"code": self.code, "message": self.detail, "type": kind, "param": self.field}
        return {"error": error}

    def response(self) -> Response:
        """Return the HTTP response."""
        body = json.dumps(self.body())
        return Response(body, self.status_code, self.headers, "application/json")


def _mistakes(errors: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield each wrong field with the rule that it breaks.

    A field of several kinds has an error for each of them: they become one rule, or that of an item
    if the field is a list with a wrong item.
    """
    fields: dict[str, list[Mapping[str, Any]]] = {}
    for error in errors:
        place = error["loc"][1:2]
        fields.setdefault(str(place[0]) if place else BODY, []).append(error)
    for name, own in fields.items():
        items = [error for error in own if isinstance(error["loc"][-1], int)]
        lists = [error for error in own if error["type"] in ("too_short", "too_long")]
        chosen = items or lists or own
        index = f".{items[0]['loc'][-1]}" if items else ""
        rules = [_rule(error) for error in chosen]
        others = (rule.removeprefix(MUST) for rule in rules[1:])
        yield shortened(name, MAX_PLACE) + index, " or ".join([rules[0], *others])


def _rule(error: Mapping[str, Any]) -> str:
    words = RULES.get(error["type"])
    if words is None:
        return str(error["msg"])
    return words.format_map({name: _plain(value) for name, value in error.get("ctx", {}).items()})


def _plain(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def shortened(text: str, most: int) -> str:
    """Return the text, or its beginning and end if it has more than `most` characters."""
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


class ProblemDetail(BaseModel):
    """Code and message of an error."""

    model_config = ConfigDict(extra="forbid")

    code: str = Field(
        description="Machine-readable code, listed with the statuses of each route.",
        examples=["invalid"],
    )
    message: str = Field(
        description="Sentence for people: the error and its remedy.",
        examples=["beam: must be at least 1. See /docs for the fields of each request"],
    )
    type: Literal["invalid_request_error", "server_error"] = Field(
        description="Kind of the error: of the request, or of the server."
    )
    param: str | None = Field(
        description="Field of the request that is wrong, if it is a single one.", examples=["beam"]
    )


class ProblemBody(BaseModel):
    """Body of every error response."""

    model_config = ConfigDict(extra="forbid")

    error: ProblemDetail


ALWAYS = ("bad_request", "no_token", "wrong_origin", "wrong_host", "wrong_method", "failed")
"""Codes that any request can get."""
WORK = ("bad_json", "slow_body", "too_large", "not_json", "invalid", "full", "ending", "too_late")
"""Further codes that a request for predictions can get."""


def documented(*codes: str) -> dict[int | str, dict[str, object]]:
    """Return the OpenAPI descriptions of the responses with these codes and those of `ALWAYS`."""
    responses: dict[int | str, dict[str, object]] = {}
    for code in (*ALWAYS, *codes):
        status, meaning = PROBLEMS[code]
        response = responses.setdefault(status, {"model": ProblemBody, "description": ""})
        response["description"] = f"{response['description']} `{code}`: {meaning}".strip()
        if code in RETRY_CODES:
            retry = {"schema": {"type": "integer"}, "description": "Seconds to wait."}
            response["headers"] = {"Retry-After": retry}
    return responses
