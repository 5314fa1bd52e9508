"""What Prometheus reads at /metrics. Gauges are looked up when it asks; nothing is waited for."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from jumar.contracts.results import GenerateResult
from jumar.engine.answering import Batch
from jumar.engine.house import House
from jumar.engine.jobs import Jobs
from jumar.engine.results import Vectors
from jumar.server.machine import Machine

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_TOKENS = (16, 64, 256, 1024, 4096, 16_384, 65_536)
_DEVICE = ("device", "device_class", "name")


class Row(NamedTuple):
    """One metric."""

    kind: Literal["counter", "histogram", "gauge"]
    labels: tuple[str, ...]
    what: str


METRICS: dict[str, Row] = {
    "jumar_requests_total": Row(
        "counter", ("route", "method", "status"), "Requests answered."
    ),
    "jumar_request_duration_seconds": Row(
        "histogram", ("route",), "From the first byte in to the last byte out."
    ),
    "jumar_stage_duration_seconds": Row("histogram", ("model", "stage"), "Stages of runs."),
    "jumar_runs_total": Row(
        "counter", ("model", "task", "outcome"), "Runs: succeeded, or the code of their error."
    ),
    "jumar_queue_seconds": Row("histogram", ("model",), "How long runs waited for a worker."),
    "jumar_input_tokens_total": Row("counter", ("model",), "Tokens that encoders read."),
    "jumar_batch_requests": Row(
        "histogram", ("model",), "Requests computed in one call of a worker."
    ),
    "jumar_batch_texts": Row("histogram", ("model",), "Texts in one call, those known left out."),
    "jumar_batch_tokens": Row("histogram", ("model",), "Tokens of these texts, without padding."),
    "jumar_batch_pictures": Row("histogram", ("model",), "Pictures drawn in one call."),
    "jumar_result_cache_total": Row(
        "counter", ("model", "outcome"), "Texts whose result was known (hit), or was not (miss)."
    ),
    "jumar_model_memory_peak_bytes": Row(
        "gauge", ("model", "device_class"),
        "The most memory that the last run had: of the device; on a CPU, of the worker.",
    ),
    "jumar_queue_depth": Row("gauge", ("model",), "Requests that wait."),
    "jumar_requests_pending": Row("gauge", ("model",), "Requests without an answer yet."),
    "jumar_workers_ready": Row("gauge", ("model", "golden"), "Workers that answer."),
    "jumar_jobs": Row("gauge", ("state",), "Jobs of this server that are not over."),
    "jumar_device_usable": Row(
        "gauge", _DEVICE, "1 where the device can be used, 0 where it cannot."
    ),
    "jumar_device_health": Row(
        "gauge", (*_DEVICE, "health"), "1, with the health that npu-smi tells: OK, Warning, …"
    ),
    "jumar_device_memory_used_bytes": Row("gauge", _DEVICE, "Memory in use, by whomever."),
    "jumar_device_memory_total_bytes": Row("gauge", _DEVICE, "Memory that the device has."),
    "jumar_device_temperature_celsius": Row("gauge", _DEVICE, "Temperature of the chip."),
    "jumar_device_busy_ratio": Row("gauge", _DEVICE, "Use of the compute units, 0 to 1."),
    "jumar_devices_seen_timestamp_seconds": Row(
        "gauge", (), "When the devices were looked at last, in seconds of the Unix epoch."
    ),
}  # fmt: skip
"""Every metric of the page, in its order."""


class Metrics:
    """The counters of one server; they belong to it, not to the process."""

    def __init__(self, house: House, jobs: Jobs, machine: Machine) -> None:
        self.registry = CollectorRegistry()
        self._house = house
        self._peaks: dict[str, float] = {}  # of encoders, as they were told last
        self._labelled: dict[tuple[Any, ...], Any] = {}
        self._requests = self._made(Counter, "jumar_requests_total")
        self._seconds = self._made(Histogram, "jumar_request_duration_seconds", buckets=_SECONDS)
        self._stages = self._made(Histogram, "jumar_stage_duration_seconds", buckets=_SECONDS)
        self._runs = self._made(Counter, "jumar_runs_total")
        self._waited = self._made(Histogram, "jumar_queue_seconds", buckets=_SECONDS)
        self._tokens = self._made(Counter, "jumar_input_tokens_total")
        self._requests_of = self._made(Histogram, "jumar_batch_requests", buckets=_COUNTS)
        self._texts_of = self._made(Histogram, "jumar_batch_texts", buckets=_COUNTS)
        self._tokens_of = self._made(Histogram, "jumar_batch_tokens", buckets=_TOKENS)
        self._pictures_of = self._made(Histogram, "jumar_batch_pictures", buckets=_COUNTS)
        self._results = self._made(Counter, "jumar_result_cache_total")
        self._memory = self._made(Gauge, "jumar_model_memory_peak_bytes")
        self.registry.register(_Present(house, jobs))
        self.registry.register(_Devices(machine))

    def seen(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request has been answered."""
        self._of(self._requests, route, method, str(status)).inc()
        self._of(self._seconds, route).observe(seconds)

    def ran(self, result: GenerateResult) -> None:
        """A run has come to its end."""
        report = result.metadata
        model, detail = report.model, report.error_detail
        self._runs.labels(model, report.task, detail.code if detail else "succeeded").inc()
        for name, ms in report.timings.items():
            self._stages.labels(model, name.removesuffix("_ms")).observe(ms / 1e3)
        if report.queue_wait_ms is not None:
            self._waited.labels(model).observe(report.queue_wait_ms / 1e3)
        if (peak := report.memory.get("peak_mb")) is not None:  # MB of 10**6 bytes
            device_class = report.fingerprint.get("device_class", report.backend)
            self._of(self._memory, model, device_class).set(peak * 1e6)

    def read(self, model: str, found: Vectors) -> None:
        """An encoder has read texts."""
        self._of(self._tokens, model).inc(sum(found.tokens))
        self._of(self._results, model, "hit").inc(found.hits)
        self._of(self._results, model, "miss").inc(len(found.values) - found.hits)
        if found.peak_mb is not None and found.peak_mb != self._peaks.get(model):
            self._peaks[model] = found.peak_mb
            self._of(self._memory, model, self._class_of(model)).set(found.peak_mb * 1e6)

    def computed(self, model: str, batch: Batch) -> None:
        """A worker has computed what was asked of it in one call."""
        self._of(self._requests_of, model).observe(batch.requests)
        sizes = {
            self._texts_of: batch.texts,
            self._tokens_of: batch.tokens,
            self._pictures_of: batch.pictures,
        }
        for metric, size in sizes.items():
            if size:
                self._of(metric, model).observe(size)

    def _class_of(self, model: str) -> str:
        """Of the device that it is on; empty where it has gone meanwhile."""
        on = (s.device_class for s in self._house.models() if s.loaded.manifest.id == model)
        return next((one for one in on if one is not None), "")

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self.registry)

    def _of(self, metric: Any, *labels: str) -> Any:
        """The metric of these labels; looking for it there takes longer than counting."""
        key = (id(metric), *labels)
        found = self._labelled.get(key)
        if found is None:
            found = self._labelled[key] = metric.labels(*labels)
        return found

    def _made(self, kind: Any, name: str, **more: Any) -> Any:
        row = METRICS[name]
        return kind(name, row.what, row.labels, registry=self.registry, **more)


class _Families(dict[str, GaugeMetricFamily]):
    """Gauges by name, each made when it is first written to."""

    def __missing__(self, name: str) -> GaugeMetricFamily:
        row = METRICS[name]
        self[name] = GaugeMetricFamily(name, row.what, labels=row.labels)
        return self[name]


class _Present(Collector):
    """Queues, states and jobs as they are now."""

    def __init__(self, house: House, jobs: Jobs) -> None:
        self._house = house
        self._jobs = jobs

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One sample per model, however often that is loaded, and one per state of a job."""
        found, sums = _Families(), Counts[tuple[str, ...]]()
        for served in self._house.models():
            model, golden = served.loaded.manifest.id, served.parity.status
            sums["jumar_queue_depth", model] += served.waiting
            sums["jumar_requests_pending", model] += served.pending
            answering = sum(state.answers for state in served.states.each())
            sums["jumar_workers_ready", model, golden] += answering
        for (name, *labels), count in sums.items():
            found[name].add_metric(labels, count)
        for state, count in self._jobs.live.items():
            found["jumar_jobs"].add_metric([state], count)
        yield from found.values()


class _Devices(Collector):
    """The devices as they were when they were looked at last."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One sample per device, of what is known of it."""
        found = _Families()
        rows, at = self._machine.seen
        if rows:
            found["jumar_devices_seen_timestamp_seconds"].add_metric([], at)
        for row in rows:
            device_class = f"{row['kind']}-emulated" if row["emulated"] else row["kind"]
            labels = [row["id"], device_class, row["name"]]
            known = {
                "usable": float(row["status"] != "not usable"),
                "memory_used_bytes": _scaled(row["used_mb"], 2**20),
                "memory_total_bytes": _scaled(row["total_mb"], 2**20),
                "temperature_celsius": _scaled(row["temperature_c"], 1),
                "busy_ratio": _scaled(row["busy_percent"], 0.01),
            }
            for name, value in known.items():
                if value is not None:
                    found[f"jumar_device_{name}"].add_metric(labels, value)
            if row["health"] is not None:
                found["jumar_device_health"].add_metric([*labels, row["health"]], 1)
        yield from found.values()


def _scaled(value: float | None, by: float) -> float | None:
    return None if value is None else value * by
