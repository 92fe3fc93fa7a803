"""Metrics: what Prometheus reads of a service."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

__all__ = ["CONTENT_TYPE_LATEST", "Metrics"]

BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Counters of one service, in a registry of their own.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.answered("/predict", 200, 0.003)
    >>> 'atlas_requests_total{route="/predict",status="200"} 1.0' in metrics.text().decode()
    True
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own = self.registry
        names = ["route", "status"]
        self._requests = Counter("atlas_requests", "Requests by route and status.", names, registry=own)
        self._seconds = Histogram(
            "atlas_request_seconds", "Time until the answer.", ["route"], buckets=BUCKETS, registry=own
        )
        self.predicted = Counter("atlas_rows_predicted", "Rows that were predicted.", registry=own)
        self.learned = Counter("atlas_rows_learned", "Rows that were learned.", registry=own)
        self.updates = Counter("atlas_updates", "Changes of the model by kind.", ["kind"], registry=own)
        self.refused = Counter("atlas_refused", "Refused requests by status.", ["status"], registry=own)
        self.failures = Counter("atlas_errors", "Answers that failed inside the service.", registry=own)
        self.error_ahead = Gauge(
            "atlas_error_ahead", "Error of the newest update's rows before it.", ["measure"], registry=own
        )
        self.baseline = Gauge(
            "atlas_error_ahead_lately", "Mean of this over the newest ten updates, by rows.", registry=own
        )
        self.coverage = Gauge(
            "atlas_coverage_lately",
            "Share of new targets in 90 % intervals.",
            registry=own,
        )
        self.pending = Gauge("atlas_pending", "Predictions that wait for their targets.", registry=own)
        self.version = Gauge("atlas_model_info", "The version that answers.", ["version"], registry=own)
        self._routes: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        found = self._routes.get((route, status))
        if found is None:
            found = self._requests.labels(route, str(status)), self._seconds.labels(route)
            self._routes[route, status] = found
        found[0].inc()
        found[1].observe(seconds)
        if 400 <= status < 500:
            self.refused.labels(str(status)).inc()

    def serves(self, version: str) -> None:
        """Note which version answers."""
        self.version.clear()
        self.version.labels(version).set(1)

    def text(self) -> bytes:
        """What Prometheus reads."""
        return generate_latest(self.registry)
