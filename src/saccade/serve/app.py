"""The server's application: routes, error responses and the middleware around them."""

from dataclasses import replace

from fastapi import FastAPI, Security
from fastapi.exceptions import RequestValidationError
from fastapi.params import Depends
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from saccade._version import __version__
from saccade.serve import page
from saccade.serve.auth import Authorization
from saccade.serve.limits import RequestLimits
from saccade.serve.middleware import RequestMiddleware
from saccade.serve.models import ModelRegistry
from saccade.serve.problems import Problem
from saccade.serve.prometheus import ServerMetrics
from saccade.serve.routes import completions, health, predict, translate

DESCRIPTION = (
    "Predictions of trained attention models. All errors have one shape, a machine-readable code "
    "and a message for people; the codes are listed with the statuses of each route."
)


def open_paths() -> tuple[str, ...]:
    """Return the paths that need no token."""
    return (*health.OPEN_PATHS, *page.paths())


NESTED_VALUES = 100_000
"""The JSON values of a request if a model reads lists of numbers; bytes are limited as well."""


def build(
    models: ModelRegistry,
    *,
    authorization: Authorization,
    limits: RequestLimits,
    metrics: ServerMetrics,
    log_text: bool = False,
) -> RequestMiddleware:
    """Return the server as an ASGI application.

    Args:
        models: Models to serve.
        authorization: Check of every request's headers.
        limits: Limits of requests.
        metrics: Metrics of the server.
        log_text: Whether the log includes what users write.
    """
    if any(model.task.reads == "vectors" for model in models):
        limits = replace(limits, json_values=max(limits.json_values, NESTED_VALUES))
    app = FastAPI(
        title="Saccade",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,  # both would load scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.log_text = log_text
    token: list[Depends] = []
    if authorization.token is not None:  # the middleware checks it; this describes it
        token.append(Security(HTTPBearer(auto_error=False)))
    for routes in (predict.router(models), translate.router(models), completions.router(models)):
        app.include_router(routes, dependencies=token)
    app.include_router(health.router(models, metrics, token))
    app.include_router(page.router())

    @app.exception_handler(RequestValidationError)
    async def invalid_fields(request: Request, error: RequestValidationError) -> Response:
        return Problem.from_validation(error).response()

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        return Problem.from_http(error).response()

    @app.exception_handler(Exception)
    async def internal_error(request: Request, error: Exception) -> Response:
        return Problem("failed", "internal error; the server's log has details").response()

    return RequestMiddleware(
        app,
        authorization=authorization,
        limits=limits,
        metrics=metrics,
        models=models,
        paths=(*app.openapi()["paths"], *page.paths(), str(app.openapi_url)),
        upload_paths=predict.UPLOAD_PATHS,
    )
