"""The server put together: routes, the shape of errors, and the gate before them."""

from fastapi import FastAPI, Security
from fastapi.exceptions import RequestValidationError
from fastapi.params import Depends
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from saccade._version import __version__
from saccade.serve import page
from saccade.serve.auth import Guard
from saccade.serve.json_body import invalid, usual
from saccade.serve.limits import Limits
from saccade.serve.middleware import Gate
from saccade.serve.models import Models
from saccade.serve.problems import Problem
from saccade.serve.prometheus import Measures
from saccade.serve.routes import completions, health, predict, translate

ABOUT = (
    "Trained models answer. All errors have one shape: a code for programs and a sentence. "
    "The codes stand with the statuses of each route."
)


def open_paths() -> tuple[str, ...]:
    """The paths that need no token."""
    return (*health.OPEN, *page.paths())


def build(
    models: Models,
    *,
    guard: Guard,
    limits: Limits,
    measures: Measures,
    log_text: bool = False,
) -> Gate:
    """The server as an ASGI application."""
    app = FastAPI(
        title="Saccade",
        version=__version__,
        description=ABOUT,
        docs_url=None,  # both would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.log_text = log_text
    token: list[Depends] = []
    if guard.token is not None:  # checked at the gate; this describes it
        token.append(Security(HTTPBearer(auto_error=False)))
    gate = Gate(app, guard=guard, limits=limits, measures=measures, models=models)
    for routes in (predict.router(models), translate.router(models), completions.router(models)):
        app.include_router(routes, dependencies=token)
    app.include_router(health.router(measures, lambda: gate.ending, token))
    app.include_router(page.router())
    gate.uploads = frozenset(predict.UPLOADS)
    gate.paths = frozenset((*app.openapi()["paths"], *page.paths(), str(app.openapi_url)))

    @app.exception_handler(RequestValidationError)
    async def wrong_fields(request: Request, error: RequestValidationError) -> Response:
        return invalid(error).response()

    @app.exception_handler(HTTPException)
    async def wrong_request(request: Request, error: HTTPException) -> Response:
        return usual(error).response()

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        return Problem("failed", "the server failed; its log says more").response()

    return gate
