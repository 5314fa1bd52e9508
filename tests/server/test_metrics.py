"""What Prometheus reads: the whole page, as its own parser understands it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from tests.isolate.conftest import eventually
from tests.support.serving import Running, serving

from jumar import catalog
from jumar.catalog.index import catalog as known
from jumar.engine.queue import Batching
from jumar.engine.service import Service
from jumar.server.metrics import METRICS

NPU = {
    "id": "npu:0", "kind": "npu", "name": "Ascend910B1 (emulated)", "emulated": True,
    "status": "in use", "used_mb": 2, "total_mb": 64, "temperature_c": 40, "busy_percent": 50,
    "health": "Warning",
}  # fmt: skip
GPU = {
    "id": "cuda 1", "kind": "cuda", "name": "H200", "emulated": False, "status": "not usable",
    "used_mb": None, "total_mb": None, "temperature_c": None, "busy_percent": None, "health": None,
}  # fmt: skip


def page(server: Running) -> dict[str, Metric]:
    answer = server.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {family.name: family for family in text_string_to_metric_families(answer.text)}


def value(found: dict[str, Metric], sample: str, **labels: str) -> float | None:
    """The sample with these labels among its own; None where there is none."""
    for family in found.values():
        for one in family.samples:
            if one.name == sample and labels.items() <= one.labels.items():
                return float(one.value)
    return None


def test_the_page_has_what_its_table_says_and_nothing_else(server: Running) -> None:
    server.ask().raise_for_status()
    assert eventually(lambda: "jumar_device_usable" in page(server))
    told = {name.removesuffix("_total"): row for name, row in METRICS.items()}
    for name, family in page(server).items():
        if name.endswith("_created"):  # prometheus_client's own, beside each counter
            continue
        row = told[name]
        assert (family.type, family.documentation) == (row.kind, row.what)
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(row.labels), sample


def test_runs_are_counted_by_how_they_ended_jobs_too(server: Running) -> None:
    def count(outcome: str) -> float:
        return value(page(server), "jumar_runs_total", model="toy", outcome=outcome) or 0.0

    good, bad = count("succeeded"), count("run_failed")
    server.ask()
    server.ask("fail")
    server.ask(async_run=True)
    assert eventually(lambda: (count("succeeded"), count("run_failed")) == (good + 2, bad + 1))
    found = page(server)
    assert value(found, "jumar_stage_duration_seconds_count", model="toy", stage="speak")
    assert value(found, "jumar_queue_seconds_count", model="toy")
    memory = value(found, "jumar_model_memory_peak_bytes", model="toy", device_class="cpu")
    assert memory is not None and memory > 1e6, "more than a megabyte: a Python"


def test_a_model_that_is_loaded_twice_has_one_sample(tmp_path: Path) -> None:
    """Two of the same labels are no page that Prometheus takes."""
    with serving(tmp_path) as server:
        for dtype in ("fp32", "bf16"):
            server.ask(config={"dtype": dtype}).raise_for_status()
        assert len(server.desk.house.models()) == 2
        ready = [
            one.value
            for one in page(server)["jumar_workers_ready"].samples
            if one.labels["model"] == "toy"
        ]
    assert ready == [2.0]


def test_how_much_is_computed_at_once_shows_whether_batching_works(
    toys: None, tmp_path: Path
) -> None:
    tiny = pytest.importorskip("tests.support.tiny_checkpoints")
    name = catalog.adopt(tiny.sentence_bert(tmp_path / "metered")).id

    def asked(server: Running, *inputs: list[str]) -> dict[str, tuple[float | None, ...]]:
        tasks = [
            {"id": str(at), "embeddings": {"model": name, "input": texts}}
            for at, texts in enumerate(inputs)
        ]
        server.client.post("/v1/bundle", json={"tasks": tasks}).raise_for_status()
        found = page(server)
        return {
            what: tuple(
                value(found, f"jumar_batch_{what}_{part}", model=name) for part in ("count", "sum")
            )
            for what in ("requests", "texts", "tokens", "pictures")
        }

    service = Service(batching=Batching(most=3, window=60.0))
    with serving(tmp_path, name, service=service) as server:
        server.ready(name)
        first = asked(server, ["a cat"], ["the dog ran", "a mat"], ["far away"])
        assert first == {
            "requests": (1, 3),
            "texts": (1, 4),
            "tokens": (1, (2 + 2) + (3 + 2) + (2 + 2) + (2 + 2)),
            "pictures": (None, None),
        }
        again = asked(server, ["a cat"], ["a dog"], ["a cat", "the mat"], ["far"])
        assert again["requests"] == (2, 6), "one of the four was known, and asked nothing"
        assert again["texts"] == (2, 7)
    known.cache_clear()


def test_requests_are_counted_by_route_not_by_path(server: Running) -> None:
    server.client.get("/v1/jobs/job_none")
    found = page(server)
    labels = {"route": "/v1/jobs/{job}", "method": "GET", "status": "404"}
    assert value(found, "jumar_requests_total", **labels)


def test_every_device_tells_what_is_known_of_it_and_no_more(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.desk.machine, "seen", ([NPU, GPU], 1.5))
    found = page(server)
    npu = {"device": "npu:0", "device_class": "npu-emulated", "name": "Ascend910B1 (emulated)"}
    assert value(found, "jumar_device_usable", **npu) == 1
    assert value(found, "jumar_device_health", **npu, health="Warning") == 1
    assert value(found, "jumar_device_memory_used_bytes", **npu) == 2 * 2**20
    assert value(found, "jumar_device_memory_total_bytes", **npu) == 64 * 2**20
    assert value(found, "jumar_device_temperature_celsius", **npu) == 40
    assert value(found, "jumar_device_busy_ratio", **npu) == 0.5
    gpu = {"device": "cuda 1", "device_class": "cuda"}
    assert value(found, "jumar_device_usable", **gpu) == 0
    assert value(found, "jumar_device_temperature_celsius", **gpu) is None
    assert value(found, "jumar_devices_seen_timestamp_seconds") == 1.5


def test_a_scrape_does_not_wait_for_a_look_at_the_machine(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """npu-smi may take long, or hang."""
    with server.desk.machine._lock:  # as while somebody looks
        assert page(server)


def test_an_emulated_card_is_never_taken_for_hardware() -> None:
    """The machine around two emulated NPUs, read as a real one is."""
    code = """if True:
        import json
        from jumar.server.machine import Machine
        print(json.dumps(Machine().devices()))
    """
    environ = {**os.environ, "JUMAR_EMULATE_NPU": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    npus = [row for row in rows if row["kind"] == "npu"]
    assert [(row["id"], row["emulated"]) for row in npus] == [("npu:0", True), ("npu:1", True)]
    assert all(row["temperature_c"] and row["total_mb"] and row["health"] for row in npus)
