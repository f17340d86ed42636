"""Metrics of the server in Prometheus' format: counts and times."""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE

__all__ = ["CONTENT_TYPE", "ServerMetrics"]

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64)

disable_created_metrics()  # no series that hold only the time at which a counter was created


class ServerMetrics:
    """All metrics of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "saccade_requests_total",
            "Requests by route and status.",
            ("route", "status"),
            registry=registry,
        )
        self.seconds = Histogram(
            "saccade_request_seconds",
            "Seconds from a request to its response.",
            ("route",),
            registry=registry,
            buckets=SECONDS,
        )
        self.batch_rows = Histogram(
            "saccade_batch_rows",
            "Inputs per batch.",
            ("model",),
            registry=registry,
            buckets=BATCH_SIZES,
        )
        self.batch_seconds = Histogram(
            "saccade_batch_seconds",
            "Seconds to answer a batch.",
            ("model",),
            registry=registry,
            buckets=SECONDS,
        )
        self.abandoned = Counter(
            "saccade_abandoned_total", "Cancelled requests.", ("model",), registry=registry
        )
        self.dropped = Counter(
            "saccade_connections_dropped_total",
            "Connections closed by a limit.",
            ("reason",),
            registry=registry,
        )
        self.pending = Gauge(
            "saccade_pending",
            "Requests that wait or are being answered.",
            ("model",),
            registry=registry,
        )

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format, whose media type is CONTENT_TYPE."""
        return generate_latest(self.registry)
