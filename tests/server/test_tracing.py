"""Traces of requests, as a collector receives them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.isolate.conftest import eventually
from tests.support import speech_server as upstream
from tests.support.serving import Running, serving
from tests.support.speech_server import SpeechServer

from jumar.contracts.errors import InvalidValue
from jumar.runtime.families.remote.service import Service
from jumar.server.forwarding.upstreams import Upstream, Upstreams
from jumar.server.tracing import Tracing, opened

pytest.importorskip("opentelemetry.sdk")
from tests.support.collector import Collector

SERVER, CLIENT = 2, 3
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
SPOKEN = {"model": "voice", "input": "Hello.", "response_format": "wav"}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with pytest.MonkeyPatch.context() as patch, Collector() as one:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        yield one


@pytest.fixture(scope="module")
def there() -> Iterator[SpeechServer]:
    with SpeechServer() as one:
        yield one


@pytest.fixture(scope="module")
def server(
    toys: None, collector: Collector, there: SpeechServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    upstreams = Upstreams({"voice": Upstream(Service(there.url, name="The upstream 'voice'"))})
    folder: Path = tmp_path_factory.mktemp("data")
    with serving(folder, otlp=collector.url, upstreams=upstreams) as running:
        yield running


def trace(collector: Collector, name: str, trace_id: str) -> dict[str, Any]:
    """The span of that name in a trace, once it has come."""

    def found() -> list[dict[str, Any]]:
        return [span for span in collector.named(name) if span["trace"] == trace_id]

    assert eventually(lambda: found() != []), [span["name"] for span in collector.spans]
    (one,) = found()
    return one


def trace_id_of(header: str) -> str:
    return header.split("-")[1]


def test_a_request_is_a_trace_with_its_load_queue_and_stages(
    toys: None, collector: Collector, tmp_path: Path
) -> None:
    with serving(tmp_path, otlp=collector.url) as fresh:  # the first who asks waits for the load
        answer = fresh.ask("hello")
    report = answer.json()["metadata"]
    name = answer.headers["x-request-id"]
    ours = trace_id_of(answer.headers["traceparent"])
    assert report["trace_id"] == name == f"req_{ours}"

    request = trace(collector, "POST /v1/generate", ours)
    assert (request["kind"], request["http.response.status_code"]) == (SERVER, 200)
    assert (request["jumar.request_id"], request["parent"]) == (name, "")
    run = trace(collector, "run toy", ours)
    assert run["parent"] == request["id"]
    assert run["jumar.run_id"] == report["run_id"]
    assert (run["gen_ai.request.model"], run["jumar.device"]) == ("toy", "cpu")
    parts = [trace(collector, what, ours) for what in ("load", "queue", "speak", "export")]
    assert {part["parent"] for part in parts} == {run["id"]}
    begins = [part["begin"] for part in parts]
    assert begins == sorted(begins)
    assert all(run["begin"] <= part["begin"] <= part["end"] <= run["end"] for part in parts)
    load, queue = parts[:2]
    assert queue["begin"] == load["end"], "what waits for a load does not wait for a worker"
    assert collector.resource["service.name"] == "jumar"


def test_who_finds_the_model_loaded_has_waited_for_no_load(
    server: Running, collector: Collector
) -> None:
    server.ask("hello")
    ours = trace_id_of(server.ask("hello").headers["traceparent"])
    trace(collector, "export", ours)
    assert [one for one in collector.named("load") if one["trace"] == ours] == []


def test_a_trace_of_the_callers_goes_on(server: Running, collector: Collector) -> None:
    body = {"model": "toy", "inputs": {"prompt": "hello"}}
    answer = server.client.post("/v1/generate", json=body, headers=GIVEN)
    request = trace(collector, "POST /v1/generate", TRACE)
    assert request["parent"] == PARENT
    assert answer.headers["traceparent"].startswith(f"00-{TRACE}-{request['id']}-")
    assert trace(collector, "run toy", TRACE)["parent"] == request["id"]


def test_a_job_is_in_the_trace_of_who_asked_for_it(server: Running, collector: Collector) -> None:
    answer = server.ask("hello", async_run=True)
    ours = trace_id_of(answer.headers["traceparent"])
    run = trace(collector, "run toy", ours)
    assert run["jumar.job_id"] == answer.json()["id"]
    assert run["parent"] == trace(collector, "POST /v1/generate", ours)["id"]


def test_a_run_that_failed_says_so(server: Running, collector: Collector) -> None:
    answer = server.ask("fail")
    ours = trace_id_of(answer.headers["traceparent"])
    run = trace(collector, "run toy", ours)
    assert run["failed"] and run["error.type"] == "run_failed"
    assert trace(collector, "speak", ours)["failed"]
    assert trace(collector, "POST /v1/generate", ours)["failed"]


def test_another_server_hears_of_the_trace(
    server: Running, collector: Collector, there: SpeechServer
) -> None:
    there.asked.clear()
    answer = server.client.post("/v1/audio/speech", json=SPOKEN)
    ours = trace_id_of(answer.headers["traceparent"])
    span = trace(collector, "upstream /v1/audio/speech", ours)
    assert span["kind"] == CLIENT
    assert span["parent"] == trace(collector, "POST /v1/audio/speech", ours)["id"]
    assert there.asked[0]["headers"]["traceparent"].startswith(f"00-{ours}-{span['id']}-")
    there.says[:] = [upstream.answering(500, {"error": "CUDA"})]
    failed = server.client.post("/v1/audio/speech", json=SPOKEN)
    there.says[:] = [upstream.speak]
    ours = trace_id_of(failed.headers["traceparent"])
    assert trace(collector, "upstream /v1/audio/speech", ours)["failed"]


def test_a_collector_that_does_not_answer_keeps_nobody_waiting_and_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # it takes connections, and says nothing
        address = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        with serving(tmp_path, "toy", otlp=address) as server:
            assert [server.ready().ask().status_code for _ in range(3)] == [200] * 3
            assert eventually(lambda: "ailed to export" in caplog.text)
            assert server.ask().status_code == 200


def test_probes_leave_no_trace(server: Running, collector: Collector) -> None:
    for path in ("/health", "/metrics"):
        assert "traceparent" not in server.client.get(path).headers


def test_without_a_collector_a_callers_trace_goes_along_and_nothing_else(
    toys: None, there: SpeechServer, tmp_path: Path
) -> None:
    upstreams = Upstreams({"voice": Upstream(Service(there.url))})
    there.asked.clear()
    with serving(tmp_path, upstreams=upstreams) as plain:
        assert type(plain.desk.tracing) is Tracing
        answer = plain.client.post("/v1/audio/speech", json=SPOKEN, headers=GIVEN)
        plain.client.post("/v1/audio/speech", json=SPOKEN)
    assert "traceparent" not in answer.headers
    told = [asked["headers"].get("traceparent") for asked in there.asked]
    assert told == [GIVEN["traceparent"], None]


def test_nothing_is_imported_where_nobody_collects() -> None:
    code = """if True:
        import sys
        import jumar.server.app
        from jumar.server.tracing import opened
        opened(None)
        print([name for name in sys.modules if name.startswith("opentelemetry")])
    """
    environ = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_variable_names_the_collector(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "voices")
    made = opened(None)
    made.asked("mine", "GET", {}).end("GET /named")
    made.close()
    (span,) = collector.named("GET /named")
    assert span["jumar.request_id"] == "mine"
    assert collector.resource["service.name"] == "voices"


def test_another_protocol_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(InvalidValue, match="http/protobuf"):
        opened("http://127.0.0.1:4318")
