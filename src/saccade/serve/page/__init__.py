"""Web pages of the server: every file in this folder except Python, at /, /docs and /page/NAME.

docs.js     the page of the API at /docs, rendered from openapi.json
main.js     the page: chosen models, inputs and requests
address.js  the state of the page in its address
column.js   one model and its answer, at once or as a stream
answer.js   elements that show an answer
input.js    fields for a text, two texts or an image
options.js  fields for generation options
parts.js    the elements of index.html, with their types
server.js   requests, the token and errors

The attention view is that of the lens's page, whose scripts and styles are served with these. The
files are read once, when the server starts. The content security policy (`middleware.py`) lets the
page load scripts, styles and data from this server only, and forbids inline scripts.
"""

from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import Response

from saccade.serve.problems import Problem, documented

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
PAGES = {"/": "index.html", "/docs": "docs.html"}
ALONE = {"page.js", "film.js"}
"""Scripts of the lens that only pages without a server need; so are its templates."""


def contents() -> dict[str, Response]:
    """Return the response for each file, by its name."""
    responses = {}
    lens = files("saccade") / "lens" / "page"  # which need not be imported
    for file in (*lens.iterdir(), *files(__name__).iterdir()):
        suffix = f".{file.name.rpartition('.')[2]}"
        if file.name in ALONE or (suffix == ".html" and file.name not in PAGES.values()):
            continue
        media_type = MEDIA_TYPES.get(suffix)
        if media_type is not None:
            headers = {"Content-Type": media_type}
            responses[file.name] = Response(file.read_bytes(), headers=headers)
    return responses


def paths() -> tuple[str, ...]:
    """Return the paths of the pages. Their files reveal nothing, so they need no token."""
    return (*PAGES, *(f"/page/{name}" for name in contents()))


def router() -> APIRouter:
    """Return the router of /, /docs and /page/NAME."""
    routes = APIRouter(tags=["page"])
    responses = contents()
    documents = documented()
    documents[200] = {
        "description": "HTML.",
        "content": {"text/html": {"schema": {"type": "string"}}},
    }

    @routes.get("/", summary="Web page", response_class=Response, responses=documents)
    async def index() -> Response:
        """Return the web page, on which people can try the models. Needs no token."""
        return responses[PAGES["/"]]

    @routes.get("/docs", summary="Page of the API", response_class=Response, responses=documents)
    async def docs() -> Response:
        """Return the description of the API as a page, with requests to try. Needs no token."""
        return responses[PAGES["/docs"]]

    @routes.get(
        "/page/{name}",
        summary="Part of the web page",
        response_class=Response,
        responses=documented("not_found", "invalid"),
    )
    async def part(name: str) -> Response:
        """Return a script, style sheet or image of the web page. Needs no token."""
        if name not in responses:
            raise Problem("not_found", "the page has no file with this name; reload the page")
        return responses[name]

    return routes
