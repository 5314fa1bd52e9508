"""What becomes of a request, for collectors of traces.

Here is how it is when nobody collects any: a caller's `traceparent` goes along to other servers,
and nothing is recorded. `otel` is the other one, imported only where it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from jumar.contracts.errors import DependencyMissing
from jumar.contracts.results import RunReport

Headers = Mapping[str, str]

TRACEPARENT = "traceparent"
"""W3C's header: https://www.w3.org/TR/trace-context/"""

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class Span:
    """Something that has begun; `traceparent` tells others of it."""

    recorded = False
    """Whether somebody hears of its end."""

    def __init__(self, traceparent: str | None = None) -> None:
        self.traceparent = traceparent

    def end(self, name: str | None = None, error: str | None = None, **attributes: Any) -> None:
        """It is over; under another name, where only now is known what it was."""


class Tracing:
    """Records nothing."""

    def asked(self, name: str, method: str, headers: Headers) -> Span:
        """A request has come; `name` is its X-Request-ID."""
        return Span()

    def upstream(self, name: str, headers: Headers, where: str) -> Span:
        """It goes on to another server."""
        return Span(headers.get(TRACEPARENT))

    def ran(self, report: RunReport, ready_s: float) -> None:
        """A run has ended; `ready_s` is when its model was ready, in seconds of the Unix epoch."""

    def close(self) -> None:
        """Send what is left."""


def opened(endpoint: str | None) -> Tracing:
    """OpenTelemetry's, where an endpoint is named, here or in its own environment variables.

    Raises:
        DependencyMissing: its packages are not installed.
        InvalidValue: another protocol is asked for than that which is spoken.
    """
    if endpoint is None and not any(os.environ.get(name) for name in _ENDPOINTS):
        return Tracing()
    try:
        from jumar.server.otel import Otel
    except ImportError as error:
        raise DependencyMissing(
            "Traces need OpenTelemetry.", hint="pip install 'jumar[otel]'"
        ) from error
    return Otel(endpoint)
