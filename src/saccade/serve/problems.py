"""Errors of requests: a status, a code for programs and a message for people."""

import json

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


class Problem(HTTPException):
    """Error that ends a request, and its response.

    Args:
        code: One of the keys of `PROBLEMS`.
        message: What is wrong and what to do about it, for people.
    """

    def __init__(self, code: str, message: str) -> None:
        headers = {}
        if code in RETRY_CODES:
            headers["Retry-After"] = str(RETRY_SECONDS)
        if code == "no_token":
            headers["WWW-Authenticate"] = "Bearer"
        if code == "bad_request":  # where the next request begins is uncertain
            headers["Connection"] = "close"
        super().__init__(PROBLEMS[code][0], shortened(message, MAX_MESSAGE), headers)
        self.code = code

    @classmethod
    def from_validation(cls, error: RequestValidationError) -> "Problem":
        """Return the problem for the invalid fields of a body; it does not repeat their values."""
        mistakes = []
        for mistake in error.errors()[:MAX_MISTAKES]:
            place = ".".join(str(part) for part in mistake["loc"][1:]) or "the body"
            mistakes.append(f"{shortened(place, MAX_PLACE)}: {mistake['msg']}")
        return cls("invalid", f"{'; '.join(mistakes)}. See /openapi.json")

    @classmethod
    def from_http(cls, error: HTTPException) -> "Problem":
        """Return the problem for an error of the framework, such as an unknown path."""
        if isinstance(error, cls):
            return error
        codes = {400: "bad_json", 404: "not_found", 405: "wrong_method"}
        problem = cls(codes.get(error.status_code, "failed"), str(error.detail))
        problem.headers = {**(error.headers or {}), **(problem.headers or {})}
        return problem

    def body(self) -> dict[str, dict[str, str]]:
        """Return the JSON body of the response, in the one shape that all errors have."""
        return {"error": {"code": self.code, "message": self.detail}}

    def response(self) -> Response:
        """Return the HTTP response."""
        body = json.dumps(self.body())
        return Response(body, self.status_code, self.headers, "application/json")


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
        description="What is wrong and what to do, for people.",
        examples=["beam: Input should be greater than or equal to 1. See /openapi.json"],
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
