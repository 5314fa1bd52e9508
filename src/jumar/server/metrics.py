"""What Prometheus reads at /metrics. Gauges are looked up when it asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from jumar.contracts.results import GenerateResult
from jumar.engine.house import House
from jumar.engine.jobs import Jobs

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)


class Metrics:
    """The counters of one server; they belong to it, not to the process."""

    def __init__(self, house: House, jobs: Jobs) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "jumar_requests", "Requests answered.", ["route", "method", "status"],
            registry=self.registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "jumar_request_duration_seconds", "From the first byte in to the last byte out.",
            ["route"], buckets=_SECONDS, registry=self.registry,
        )  # fmt: skip
        self._stages = Histogram(
            "jumar_stage_duration_seconds", "Stages of runs.", ["model", "stage"],
            buckets=_SECONDS, registry=self.registry,
        )  # fmt: skip
        self._tokens = Counter(
            "jumar_input_tokens", "Tokens that encoders read.", ["model"], registry=self.registry
        )
        self.registry.register(_Gauges(house, jobs))

    def seen(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request has been answered."""
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def ran(self, result: GenerateResult) -> None:
        """A run has come to its end."""
        report = result.metadata
        for name, ms in report.timings.items():
            self._stages.labels(report.model, name.removesuffix("_ms")).observe(ms / 1e3)

    def read(self, model: str, tokens: int) -> None:
        """An encoder has read tokens."""
        self._tokens.labels(model).inc(tokens)

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self.registry)


class _Gauges(Collector):
    def __init__(self, house: House, jobs: Jobs) -> None:
        self._house = house
        self._jobs = jobs

    def collect(self) -> Iterator[Any]:
        """Queues, states and jobs as they are now."""
        waiting = GaugeMetricFamily("jumar_queue_depth", "Requests that wait.", labels=["model"])
        pending = GaugeMetricFamily(
            "jumar_requests_pending", "Requests without an answer yet.", labels=["model"]
        )
        ready = GaugeMetricFamily(
            "jumar_workers_ready", "Workers that answer.", labels=["model", "golden"]
        )
        for served in self._house.models():
            model = served.loaded.manifest.id
            waiting.add_metric([model], served.waiting)
            pending.add_metric([model], served.pending)
            answering = sum(state.answers for state in served.states.each())
            ready.add_metric([model, served.parity.status], answering)
        jobs = GaugeMetricFamily("jumar_jobs", "Jobs that are not over.", labels=["state"])
        for state, count in self._jobs.live.items():
            jobs.add_metric([state], count)
        yield from (waiting, pending, ready, jobs)
