"""A request is resolved, placed, loaded, run, written and reported; or refused before any of it."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.support.toy import Toy

import jumar
from jumar import RunReport, StageEventRecord, requests
from jumar.contracts.errors import (
    Cancelled,
    DeviceUnavailable,
    InvalidInput,
    InvalidRequest,
    InvalidValue,
    OutputFailed,
    UnknownKey,
    UnknownModel,
)


def ask(prompt: str, **config: Any) -> jumar.GenerateRequest:
    return requests.text2audio("toy", prompt, **config)


def reports(folder: Path) -> list[RunReport]:
    files = sorted(folder.glob("*.report.json"))
    return [RunReport.from_dict(json.loads(file.read_text())) for file in files]


def test_a_run_gives_its_artifacts_and_a_report_of_what_ran_where(tmp_path: Path) -> None:
    result = jumar.generate(ask("one and two", speed=1.5, seed=3), out=tmp_path)
    assert result.ok
    assert [Path(artifact.path).read_text() for artifact in result.outputs] == [
        "one and two/0",
        "one and two/1",
    ]
    report = result.metadata
    assert (report.task, report.model, report.backend) == ("text2audio", "toy", "cpu")
    assert report.device == "cpu"
    assert report.config_resolved["speed"] == 1.5
    assert report.config_origins["speed"] == "caller"
    assert report.inputs == {"prompt": "one and two"}
    assert {"fetch_ms", "load_ms", "speak_ms", "export_ms", "total_ms"} <= set(report.timings)
    assert report.fingerprint["device_class"] == "cpu"
    assert report.memory["peak_mb"] > 0
    assert report.artifacts == result.outputs
    assert reports(tmp_path) == [report]


def test_what_was_changed_on_the_way_is_told(tmp_path: Path) -> None:
    result = jumar.generate(ask("hoarse"), out=tmp_path)
    assert result.metadata.warnings == ["The voice is hoarse."]


def test_a_failed_run_returns_a_report_with_the_cause_and_no_outputs(tmp_path: Path) -> None:
    result = jumar.generate(ask("fail"), out=tmp_path)
    assert not result.ok
    assert result.outputs == []
    detail = result.metadata.error_detail
    assert detail is not None
    assert detail.code == "run_failed"
    assert detail.cause == "RuntimeError: aclnnSomething failed, error code is 561002"
    assert result.metadata.error == detail.message
    assert reports(tmp_path) == [result.metadata]
    assert any(event.event == "stage_failed" for event in result.metadata.stream_events)


def test_out_of_memory_is_its_own_error(tmp_path: Path) -> None:
    detail = jumar.generate(ask("oom"), out=tmp_path).metadata.error_detail
    assert detail is not None
    assert detail.code == "insufficient_memory"


def test_a_full_disk_is_told_and_leaves_no_half_file(tmp_path: Path) -> None:
    result = jumar.generate(ask("disk full"), out=tmp_path)
    detail = result.metadata.error_detail
    assert detail is not None
    assert detail.code == "output_failed"
    assert "the disk is full" in detail.message
    assert [file.suffix for file in tmp_path.iterdir()] == [".json"]


def test_ctrl_c_leaves_a_report_and_goes_on_up(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        jumar.generate(ask("ctrl-c"), out=tmp_path)
    (report,) = reports(tmp_path)
    assert report.error_detail is not None
    assert report.error_detail.code == "cancelled"
    assert Toy.open == 0


@pytest.mark.parametrize("prompt", ["one", "fail", "oom", "disk full"])
def test_the_model_is_let_go_whatever_happened(tmp_path: Path, prompt: str) -> None:
    jumar.generate(ask(prompt), out=tmp_path)
    assert (Toy.loaded, Toy.open) == (1, 0)


def test_a_caller_can_listen_and_stop(tmp_path: Path) -> None:
    stop = threading.Event()
    heard: list[StageEventRecord] = []

    def listener(event: StageEventRecord) -> None:
        heard.append(event)
        if event.event == "step" and event.stage == "speak":
            stop.set()

    result = jumar.generate(ask("slow"), out=tmp_path, listener=listener, cancel=stop)
    detail = result.metadata.error_detail
    assert detail is not None
    assert detail.code == "cancelled"
    assert "speak" in detail.message
    assert ("stage_started", "speak") in [(event.event, event.stage) for event in heard]


def test_a_timeout_ends_the_run_within_its_stage(tmp_path: Path) -> None:
    result = jumar.generate(ask("slow", timeout=0.05), out=tmp_path)
    detail = result.metadata.error_detail
    assert detail is not None
    assert detail.code == "deadline_exceeded"


REFUSED = [
    (requests.text2audio("toi", "hello"), UnknownModel),
    (requests.text2audio("toy", "hello", sped=2), UnknownKey),
    (requests.text2audio("toy", "hello", speed=99), InvalidValue),
    (requests.text2audio("toy", ""), InvalidInput),
    (requests.text2audio("toy", "unreadable"), InvalidInput),
    (requests.text2audio("toy", "hello", backend="nup:0"), InvalidValue),
    (requests.text2audio("toy", "hello", backend="cuda:7"), DeviceUnavailable),
]


@pytest.mark.parametrize(("request_", "error"), REFUSED, ids=lambda value: str(value)[:60])
def test_a_bad_request_raises_before_anything_is_loaded_or_written(
    tmp_path: Path, request_: jumar.GenerateRequest, error: type[Exception]
) -> None:
    with pytest.raises(error):
        jumar.generate(request_, out=tmp_path / "out")
    with pytest.raises(error):
        jumar.validate(request_)
    assert Toy.loaded == 0
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_a_name_that_exists_is_refused_before_the_model_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_text("precious")
    with pytest.raises(OutputFailed):
        jumar.generate(ask("one"), out=tmp_path / "a.wav")
    assert Toy.loaded == 0
    assert (tmp_path / "a.wav").read_text() == "precious"


def test_a_loaded_model_answers_many_requests(tmp_path: Path) -> None:
    with jumar.load("toy") as model:
        first = model.generate(prompt="one", seed=1, out=tmp_path)
        again = model.generate(prompt="one", seed=1, out=tmp_path)
        failed = model.generate(prompt="fail", out=tmp_path)
        after = model.generate(ask("two"), out=tmp_path)
    assert (Toy.loaded, Toy.open) == (1, 0)
    assert first.outputs == again.outputs
    assert (failed.ok, after.ok) == (False, True)
    assert "load_ms" not in first.metadata.timings


def test_a_closed_model_and_a_request_for_another_are_refused(tmp_path: Path) -> None:
    model = jumar.load("toy")
    with pytest.raises(InvalidRequest, match="the request is for hibari"):
        model.generate(requests.text2audio("hibari", "hello"), out=tmp_path)
    model.close()
    model.close()
    result = model.generate(prompt="one", out=tmp_path)
    assert result.metadata.error == "toy is closed."


def test_a_loaded_model_never_pretends_to_be_another_load(tmp_path: Path) -> None:
    with (
        jumar.load("toy", dtype="fp32") as model,
        pytest.raises(InvalidValue, match="was loaded with 'fp32'"),
    ):
        model.generate(prompt="one", dtype="fp16", out=tmp_path)


def test_only_load_time_keys_can_be_given_when_loading() -> None:
    with pytest.raises(UnknownKey):
        jumar.load("toy", speed=2.0)


def test_a_preset_or_an_unknown_word_among_the_keywords_is_treated_as_config(
    tmp_path: Path,
) -> None:
    with jumar.load("toy") as model:
        assert model.generate(prompt="one", preset="fast", out=tmp_path).ok
        with pytest.raises(UnknownKey, match="promt"):
            model.generate(prompt="one", promt="two", out=tmp_path)


@pytest.mark.models
def test_encoding_can_be_stopped_and_the_model_stays_usable() -> None:
    stop = threading.Event()
    stop.set()
    with jumar.load("all-minilm-l6-v2") as model:
        with pytest.raises(Cancelled):
            model.encode(["a rope"], cancel=stop)
        assert model.encode(["a rope"]).shape == (1, 384)
