"""Parser of multipart/form-data (RFC 7578): the parts of an upload.

Parts are cut out with `bytes.find`, so that the time depends on the size of the body only.
"""

import re
from dataclasses import dataclass

from saccade.serve.problems import Problem

BOUNDARY = re.compile(r';\s*boundary=(?:"([^"]{1,70})"|([^\s";,]{1,70}))', re.IGNORECASE)
NAME = re.compile(rb'^content-disposition:\s*form-data;(?:.*;)?\s*name="([^"]*)"', re.I | re.M)
MAX_PART_HEADERS = 4_096
"""Bytes of the headers of a part."""


@dataclass(frozen=True)
class Part:
    """One field of a form: its name and its content."""

    name: str
    content: bytes


def boundary_of(content_type: str) -> str:
    """Return the boundary that a Content-Type header names."""
    match = BOUNDARY.search(content_type)
    if match is None:
        raise Problem(
            "bad_request",
            "the Content-Type multipart/form-data must name a boundary; "
            "send a form as `curl -F` does",
        )
    return match[1] or match[2]


def parts_of(body: bytes, boundary: str, *, most: int) -> list[Part]:
    """Return the parts of a body.

    Raises:
        Problem: The body has more than `most` parts, or is not valid multipart/form-data.
    """
    delimiter = b"--" + boundary.encode("latin-1")
    if not body.startswith(delimiter):
        raise _malformed("it must begin with the boundary")
    parts: list[Part] = []
    at = len(delimiter)
    while body[at : at + 2] == b"\r\n":
        if len(parts) == most:
            raise Problem("invalid", f"the upload has more than {most} parts; send fewer images")
        content = body.find(b"\r\n\r\n", at, at + MAX_PART_HEADERS)
        end = body.find(b"\r\n" + delimiter, max(content, at) + 2)
        if content < 0 or end < 0:
            raise _malformed("a part, or its headers, have no end")
        name = NAME.search(body[at + 2 : content + 2].replace(b"\r\n", b"\n"))
        if name is None:
            raise _malformed("a part has no name")
        parts.append(Part(name[1].decode("latin-1"), body[content + 4 : end]))
        at = end + 2 + len(delimiter)
    if body[at : at + 2] != b"--":
        raise _malformed("the boundary and two hyphens must follow its last part")
    return parts


def _malformed(reason: str) -> Problem:
    return Problem(
        "bad_request",
        f"the body is not valid multipart/form-data: {reason}; send a form as `curl -F` does",
    )
