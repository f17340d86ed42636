"""The web page: every file in this folder that is no Python, at / and /page/NAME.

The files are fixed when the server starts. The content security policy (`gate.py`) lets a page load
scripts, styles and data from here only, and run nothing that stands in the HTML itself.
"""

from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import Response

from saccade.serve.problems import Problem, documented

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
INDEX = "index.html"


def contents() -> dict[str, Response]:
    """The files by their names, as they are answered."""
    found = {}
    for file in files(__name__).iterdir():
        kind = KINDS.get(f".{file.name.rpartition('.')[2]}")
        if kind is not None:
            found[file.name] = Response(file.read_bytes(), headers={"Content-Type": kind})
    return found


def paths() -> tuple[str, ...]:
    """Where the page lies; its files tell nothing, so they need no token."""
    return ("/", *(f"/page/{name}" for name in contents()))


def router() -> APIRouter:
    """/ and /page/NAME."""
    routes = APIRouter(tags=["page"])
    held = contents()
    described = documented()
    described[200] = {"content": {"text/html": {"schema": {"type": "string"}}}}

    @routes.get("/", response_class=Response, responses=described)
    async def index() -> Response:
        """The page."""
        return held[INDEX]

    @routes.get(
        "/page/{name}", response_class=Response, responses=documented("not_found", "invalid")
    )
    async def part(name: str) -> Response:
        """What the page is made of."""
        if name not in held:
            raise Problem("not_found", "the page has no such part")
        return held[name]

    return routes
