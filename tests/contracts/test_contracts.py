"""Requests and reports keep OmniRT's shapes, refuse what they do not know, and round-trip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from jumar.contracts import GenerateRequest, GenerateResult, RunReport, requests
from jumar.contracts.errors import InvalidInput, InvalidRequest, UnknownKey

OMNIRT_FIELDS = [
    "run_id",
    "task",
    "model",
    "backend",
    "job_id",
    "trace_id",
    "worker_id",
    "enqueued_at_ms",
    "queue_wait_ms",
    "execution_mode",
    "timings",
    "memory",
    "backend_timeline",
    "config_resolved",
    "artifacts",
    "error",
    "latent_stats",
    "cache_hits",
    "device_placement",
    "batch_size",
    "batch_group_id",
    "stream_events",
    "schema_version",
]

OMNIRT_RESULT: dict[str, Any] = {
    "outputs": [
        {
            "kind": "audio",
            "path": "outputs/vllm-omni-speech-1.wav",
            "mime": "audio/wav",
            "width": 0,
            "height": 0,
            "num_frames": None,
            "transport": "path",
            "data_b64": None,
        }
    ],
    "metadata": {
        "run_id": "r1",
        "task": "text2audio",
        "model": "vllm-omni-speech",
        "backend": "ascend",
        "job_id": None,
        "trace_id": "t1",
        "worker_id": None,
        "enqueued_at_ms": 1782172800000,
        "queue_wait_ms": 0.4,
        "execution_mode": "legacy_call",
        "timings": {"denoise_loop_ms": 12.5},
        "memory": {"peak_mb": 10.0},
        "backend_timeline": [
            {
                "module": "unet",
                "attempts": [
                    {"level": "compile", "ok": False, "reason": "not wired", "selected": False},
                    {"level": "kernel_override", "ok": False, "reason": None, "selected": False},
                    {"level": "eager", "ok": True, "reason": None, "selected": True},
                ],
            }
        ],
        "config_resolved": {"speed": 1.0},
        "artifacts": [],
        "error": None,
        "latent_stats": None,
        "cache_hits": ["text_embedding"],
        "device_placement": {"unet": "npu:0"},
        "batch_size": 1,
        "batch_group_id": None,
        "stream_events": [
            {"event": "job_started", "stage": "run", "timestamp_ms": 1782172800001, "data": {}}
        ],
        "schema_version": "1.0.0",
    },
}


def test_the_report_begins_with_the_23_fields_that_callers_know_in_their_order() -> None:
    assert list(RunReport.model_fields)[:23] == OMNIRT_FIELDS
    assert {"device", "fingerprint", "operators", "parity", "error_detail"} <= set(
        list(RunReport.model_fields)[23:]
    )


def test_a_result_that_omnirt_wrote_loads_and_says_the_same() -> None:
    loaded = GenerateResult.model_validate(OMNIRT_RESULT).model_dump()
    for field, value in OMNIRT_RESULT["metadata"].items():
        assert loaded["metadata"][field] == value
    assert loaded["outputs"][0].items() >= OMNIRT_RESULT["outputs"][0].items()


def test_a_stored_report_without_a_schema_version_is_older_than_those() -> None:
    stored = {"run_id": "r", "task": "text2image", "model": "m", "backend": "cpu"}
    assert RunReport.from_dict(stored).schema_version == "0.0.0"
    assert RunReport(**stored).schema_version == "1.0.0"


def test_a_field_nobody_knows_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownKey) as refused:
        GenerateRequest.from_dict({"task": "text2image", "model": "m", "imputs": {}})
    assert refused.value.hint == "Did you mean 'inputs'?"
    with pytest.raises(ValidationError, match="Extra inputs"):
        RunReport.model_validate({**OMNIRT_RESULT["metadata"], "colour": "red"})


def test_an_unknown_task_names_the_nearest_ones() -> None:
    with pytest.raises(InvalidRequest) as refused:
        GenerateRequest.from_dict({"task": "text2img", "model": "m"})
    assert refused.value.param == "task"
    assert "text2image" in (refused.value.hint or "")


@pytest.mark.parametrize("payload", [None, [], "text", 3])
def test_what_is_no_mapping_is_no_request(payload: Any) -> None:
    with pytest.raises(InvalidRequest, match="mapping"):
        GenerateRequest.from_dict(payload)


@pytest.mark.parametrize(
    ("payload", "field"), [({"model": "m"}, "task"), ({"task": "edit"}, "model")]
)
def test_a_field_that_is_missing_is_said_to_be_missing(payload: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidRequest, match=f"The request has no {field}."):
        GenerateRequest.from_dict(payload)


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_a_request_file_round_trips(tmp_path: Path, suffix: str) -> None:
    request = requests.text2audio("hibari", "你好 \U0001f600", seed=7)
    file = tmp_path / f"request{suffix}"
    file.write_text(request.model_dump_json(), encoding="utf-8")  # JSON is YAML
    assert GenerateRequest.from_file(file) == request


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"{", b"a: [", b"\x00\x01"])
def test_a_file_that_is_no_json_or_yaml_is_named(tmp_path: Path, content: bytes) -> None:
    for suffix in (".json", ".yaml"):
        file = tmp_path / f"request{suffix}"
        file.write_bytes(content)
        with pytest.raises((InvalidInput, InvalidRequest), match="request"):
            GenerateRequest.from_file(file)


def test_a_missing_request_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="nowhere"):
        GenerateRequest.from_file(tmp_path / "nowhere.yaml")


def test_the_helpers_leave_out_what_was_not_given() -> None:
    assert requests.text2image("m", "a red seven", seed=1).model_dump(exclude={"adapters"}) == {
        "task": "text2image",
        "model": "m",
        "backend": "auto",
        "inputs": {"prompt": "a red seven"},
        "config": {"seed": 1},
    }
    assert requests.embeddings("m", "one text").inputs == {"texts": ["one text"]}


def test_an_emulated_device_is_called_emulated_wherever_people_look() -> None:
    report = RunReport(run_id="r", task="text2image", model="m", backend="ascend", device="npu:0")
    assert report.where == "npu:0"
    report.fingerprint = {"device_class": "npu-emulated"}
    assert report.where == "npu:0 (emulated)"
