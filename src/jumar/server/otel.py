"""Requests as traces of OpenTelemetry, sent by OTLP over HTTP from a thread of their own.

A request is one span; the run that it asked for is another below it, with the time in the queue,
the load that it waited for, and its stages; a request to another server is one too. A trace has
the id of the caller's `traceparent`, else the digits of the X-Request-ID that the server made: the
`trace_id` of the report ends in them.

The environment variables of OpenTelemetry hold (`OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`, …).
"""

from __future__ import annotations

import os
import re
import time
from collections import OrderedDict
from contextvars import ContextVar
from typing import Any

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Span as Recorded
from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from jumar import __version__
from jumar.contracts.errors import InvalidValue
from jumar.contracts.results import RunReport
from jumar.reporting.timeline import spans
from jumar.server.tracing import TRACEPARENT, Headers, Span, Tracing

REMEMBERED = 4096
"""Requests whose runs find their trace: those that came last."""

_PROTOCOLS = ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
_SPOKEN = "http/protobuf"
_OWN = re.compile(r"[0-9a-f]{32}$")
_W3C = TraceContextTextMapPropagator()
_wanted: ContextVar[int | None] = ContextVar("_wanted", default=None)


class Otel(Tracing):
    """Sends to `ENDPOINT/v1/traces`, else to where OpenTelemetry's variables say."""

    def __init__(self, endpoint: str | None = None) -> None:
        for name in _PROTOCOLS:
            if os.environ.get(name, _SPOKEN) != _SPOKEN:
                raise InvalidValue(f"{name}: traces go by {_SPOKEN} only.", param="otlp")
        resource = {"service.version": __version__}
        if "OTEL_SERVICE_NAME" not in os.environ:
            resource["service.name"] = "jumar"
        self._provider = TracerProvider(resource=Resource.create(resource), id_generator=_Ids())
        exporter = OTLPSpanExporter(endpoint and f"{endpoint.rstrip('/')}/v1/traces")
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("jumar", __version__)
        self._contexts: OrderedDict[str, Context] = OrderedDict()

    def asked(self, name: str, method: str, headers: Headers) -> Span:
        """A request has come: a span below the caller's, where he has one."""
        attributes = {"http.request.method": method, "jumar.request_id": name}
        made = self._begun(method, _W3C.extract(headers), name, SpanKind.SERVER, attributes)
        self._contexts[name] = set_span_in_context(made)
        while len(self._contexts) > REMEMBERED:
            self._contexts.popitem(last=False)
        return _Sent(made)

    def upstream(self, name: str, headers: Headers, where: str) -> Span:
        """It goes on to another server, as a client's span."""
        context = self._contexts.get(name) or _W3C.extract(headers)
        return _Sent(
            self._begun("upstream", context, name, SpanKind.CLIENT, {"server.address": where})
        )

    def ran(self, report: RunReport, ready_s: float) -> None:
        """A run has ended: a span of it, and one of each part."""
        name = report.trace_id or report.run_id
        context = self._contexts.get(name) or Context()
        parts = _parts(report, ready_s * 1e3)
        begin = min((part[1] for part in parts), default=time.time() * 1e3)
        told = {key: value for key, value in _attributes(report).items() if value is not None}
        run = self._begun(f"run {report.model}", context, name, SpanKind.INTERNAL, told, begin)
        for what, since, until, failed in parts:
            part = self._begun(what, set_span_in_context(run), name, SpanKind.INTERNAL, {}, since)
            if failed:
                part.set_status(StatusCode.ERROR)
            part.end(_ns(until))
        if report.error_detail is not None:
            run.set_status(StatusCode.ERROR, report.error_detail.message)
        run.end(_ns(max([time.time() * 1e3, *(part[2] for part in parts)])))

    def close(self) -> None:
        """Send what is left, for a moment."""
        self._provider.shutdown()

    def _begun(
        self, what: str, context: Context, name: str, kind: SpanKind, attributes: dict[str, Any],
        since_ms: float | None = None,
    ) -> Recorded:  # fmt: skip
        own, start = _OWN.search(name), None if since_ms is None else _ns(since_ms)
        token = _wanted.set(int(own[0], 16) if own else None)
        try:
            return self._tracer.start_span(what, context, kind, attributes, start_time=start)
        finally:
            _wanted.reset(token)


class _Sent(Span):
    """A span that OpenTelemetry records."""

    recorded = True

    def __init__(self, made: Recorded) -> None:
        carrier: dict[str, str] = {}
        _W3C.inject(carrier, set_span_in_context(made))
        super().__init__(carrier.get(TRACEPARENT))
        self._made = made

    def end(self, name: str | None = None, error: str | None = None, **attributes: Any) -> None:
        """It is over."""
        if name is not None:
            self._made.update_name(name)
        if error is not None:
            self._made.set_status(StatusCode.ERROR, error)
        self._made.set_attributes({key: value for key, value in attributes.items() if value})
        self._made.end()


class _Ids(RandomIdGenerator):
    """Random, but for a trace whose id is wanted."""

    def generate_trace_id(self) -> int:
        """128 bits, not all zero."""
        return _wanted.get() or super().generate_trace_id()


def _parts(report: RunReport, ready_ms: float) -> list[tuple[str, float, float, bool]]:
    """(Name, begin, end, whether it failed), milliseconds of the Unix epoch."""
    parts: list[tuple[str, float, float, bool]] = []
    zero = report.stream_events[0].timestamp_ms if report.stream_events else float("inf")
    if report.enqueued_at_ms is not None:
        # A report's times are whole milliseconds: what comes first never ends behind the next.
        begun = min(report.enqueued_at_ms + (report.queue_wait_ms or 0.0), zero)
        came = min(float(report.enqueued_at_ms), begun)
        ready = min(max(came, ready_ms), begun)
        if ready > came:
            parts.append(("load", came, ready, False))
        parts.append(("queue", ready, begun, False))
    for one in spans(report) if report.stream_events else ():
        parts.append((one.stage, zero + one.begin, zero + one.end, one.failed))
    return parts


def _attributes(report: RunReport) -> dict[str, Any]:
    return {
        "jumar.run_id": report.run_id,
        "jumar.request_id": report.trace_id,
        "jumar.job_id": report.job_id,
        "jumar.task": report.task,
        "jumar.device": report.where,
        "jumar.golden": report.parity.status if report.parity else None,
        "jumar.worker_id": report.worker_id,
        "jumar.batch_size": report.batch_size,
        "gen_ai.request.model": report.model,
        "error.type": report.error_detail.code if report.error_detail else None,
    }


def _ns(ms: float) -> int:
    return round(ms * 1e6)
