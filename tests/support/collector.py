"""The door of an OpenTelemetry collector: OTLP over HTTP, decoded with its own protobuf."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """`spans` are all that have come, as dictionaries; `resource` is the last one's."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self.resource: dict[str, Any] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.owner = self  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Collector:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def named(self, name: str) -> list[dict[str, Any]]:
        return [span for span in self.spans if span["name"] == name]

    def take(self, body: bytes) -> None:
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resource = _plain(group.resource.attributes)
            for scope in group.scope_spans:
                self.spans += [
                    {
                        "name": span.name,
                        "trace": span.trace_id.hex(),
                        "id": span.span_id.hex(),
                        "parent": span.parent_span_id.hex(),
                        "begin": span.start_time_unix_nano,
                        "end": span.end_time_unix_nano,
                        "failed": span.status.code == 2,
                        "kind": span.kind,
                        **_plain(span.attributes),
                    }
                    for span in scope.spans
                ]


def _plain(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        known = self.path == "/v1/traces"
        if known:
            self.server.owner.take(body)  # type: ignore[attr-defined]
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Silent."""
