"""What can go wrong with a request: a status, a code for programs, and a sentence for people."""

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

STATUS = {
    "bad_request": 400,
    "bad_json": 400,
    "no_token": 401,
    "wrong_origin": 403,
    "not_found": 404,
    "no_such_model": 404,
    "wrong_method": 405,
    "slow_body": 408,
    "too_large": 413,
    "not_json": 415,
    "wrong_host": 421,
    "invalid": 422,
    "full": 429,
    "gone": 499,
    "failed": 500,
    "ending": 503,
    "too_late": 504,
}
"""The status of each code."""
RETRY_SECONDS = 1
LONGEST_MESSAGE = 1_000
"""Characters; of a longer message the middle is left out."""


class Problem(HTTPException):
    """A request that is not answered, and why."""

    def __init__(self, code: str, message: str) -> None:
        headers = {}
        if code in ("full", "ending"):
            headers["Retry-After"] = str(RETRY_SECONDS)
        if code == "no_token":
            headers["WWW-Authenticate"] = "Bearer"
        if code == "bad_request":  # where the next request begins is uncertain
            headers["Connection"] = "close"
        super().__init__(STATUS[code], shortened(message, LONGEST_MESSAGE), headers)
        self.code = code

    def body(self) -> dict[str, Any]:
        """As plain values, in the one shape that all errors have."""
        return {"error": {"code": self.code, "message": self.detail}}

    def response(self) -> Response:
        """The answer that says so."""
        return Response(
            json.dumps(self.body()),
            self.status_code,
            self.headers,
            "application/json",
        )


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and end if it has more than `most` characters."""
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


class Said(BaseModel):
    """What went wrong."""

    model_config = ConfigDict(extra="forbid")

    code: str = Field(description="One of a few words, for programs.", examples=["invalid"])
    message: str = Field(description="A sentence, for people.", examples=["beam must be above 0"])


class ProblemBody(BaseModel):
    """The shape of every error."""

    model_config = ConfigDict(extra="forbid")

    error: Said


ALWAYS = ("bad_request", "no_token", "wrong_origin", "wrong_host", "wrong_method", "failed")
"""What any request can meet."""
WORK = ("bad_json", "slow_body", "too_large", "not_json", "invalid", "full", "ending", "too_late")
"""What a request for answers can meet besides."""


def documented(*codes: str) -> dict[int | str, dict[str, Any]]:
    """These problems as OpenAPI describes responses."""
    found: dict[int | str, dict[str, Any]] = {}
    for code in (*ALWAYS, *codes):
        status = STATUS[code]
        said = f"{found[status]['description']}, {code}" if status in found else code
        found[status] = {"model": ProblemBody, "description": said}
        if code in ("full", "ending"):
            found[status]["headers"] = {
                "Retry-After": {"schema": {"type": "integer"}, "description": "seconds"}
            }
    return found
