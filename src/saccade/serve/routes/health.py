"""Health checks and metrics: /healthz, /readyz and /metrics."""

from collections.abc import Sequence

from fastapi import APIRouter
from fastapi.params import Depends
from starlette.responses import Response

from saccade.serve.models import ModelRegistry
from saccade.serve.problems import Problem, documented
from saccade.serve.prometheus import CONTENT_TYPE, ServerMetrics
from saccade.serve.schemas import ServerStatus

OPEN_PATHS = ("/healthz", "/readyz")
"""Paths that need no token."""


def router(models: ModelRegistry, metrics: ServerMetrics, token: Sequence[Depends]) -> APIRouter:
    """Return the router of /healthz, /readyz and /metrics, of which the last needs the token."""
    routes = APIRouter(tags=["health"])

    @routes.get("/healthz", summary="Liveness", responses=documented())
    async def healthz() -> ServerStatus:
        """Report that the process is running. Needs no token."""
        return ServerStatus(status="ok")

    @routes.get("/readyz", summary="Readiness", responses=documented("ending"))
    async def readyz() -> ServerStatus:
        """Report whether the server accepts requests: 503 while it shuts down. Needs no token."""
        if models.draining:
            raise Problem(
                "ending",
                "the server is shutting down; send the request to another server, or later",
            )
        return ServerStatus(status="ready")

    @routes.get(
        "/metrics",
        summary="Prometheus metrics",
        response_class=Response,
        dependencies=token,
        responses={
            200: {
                "description": "Metrics in Prometheus' text format.",
                "content": {"text/plain": {"schema": {"type": "string"}}},
            },
            **documented(),
        },
    )
    async def prometheus() -> Response:
        """Return request counts, latencies, batch sizes and queue lengths for Prometheus."""
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    return routes
