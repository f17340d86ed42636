"""Whether the server lives, whether it takes work, and what it has measured."""

from collections.abc import Callable, Sequence

from fastapi import APIRouter
from fastapi.params import Depends
from starlette.responses import Response

from saccade.serve.problems import Problem, documented
from saccade.serve.prometheus import CONTENT_TYPE, Measures
from saccade.serve.schemas import State

OPEN = ("/healthz", "/readyz")
"""The paths that need no token."""


def router(
    measures: Measures, is_ending: Callable[[], bool], token: Sequence[Depends]
) -> APIRouter:
    """/healthz, /readyz and /metrics, of which the last needs the token."""
    routes = APIRouter(tags=["health"])

    @routes.get("/healthz", responses=documented())
    async def healthz() -> State:
        """The process lives."""
        return State(status="ok")

    @routes.get("/readyz", responses=documented("ending"))
    async def readyz() -> State:
        """Work is taken."""
        if is_ending():
            raise Problem("ending", "the server is ending")
        return State(status="ready")

    @routes.get(
        "/metrics",
        response_class=Response,
        dependencies=token,
        responses={
            200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
            **documented(),
        },
    )
    async def metrics() -> Response:
        """Counts and times, as Prometheus reads them."""
        return Response(measures.text(), media_type=CONTENT_TYPE)

    return routes
