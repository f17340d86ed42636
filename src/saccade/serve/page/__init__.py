"""The web page: every file in this folder that is no Python, at / and /page/NAME.

main.js     which models are asked what, and when
column.js   one model and its answer, whole or as a stream
answer.js   what an answer looks like
input.js    the fields for a text, two texts or an image
options.js  the fields for how answers are written
parts.js    the elements of index.html, with their types
server.js   requests, the token, and what goes wrong

Where a model looked is shown by the view of the lens's page, whose files are parts of this one.
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
LENS = ("page.css", "view.css", "view.js")
"""Those of the lens's page that are parts of this one."""


def contents() -> dict[str, Response]:
    """The files by their names, as they are answered."""
    found = {}
    lens = files("saccade.lens.page")
    for file in (*files(__name__).iterdir(), *map(lens.joinpath, LENS)):
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
