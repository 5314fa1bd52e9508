"""A model in a process of its own: whatever becomes of that process is a result with a report."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.isolate.conftest import eventually, is_alive

import jumar
from jumar import RunReport, StageEventRecord, catalog, requests
from jumar.contracts.errors import (
    Cancelled,
    DeviceUnavailable,
    InvalidInput,
    InvalidValue,
    RunFailed,
    UnknownKey,
)
from jumar.contracts.results import ErrorDetail, GenerateResult
from jumar.engine import WatchedModel
from jumar.engine.endings import innermost


def ask(prompt: str, **config: Any) -> jumar.GenerateRequest:
    return requests.text2audio("toy", prompt, **config)


def run(prompt: str, out: Path, **given: Any) -> GenerateResult:
    config = given.pop("config", {})
    return jumar.generate(ask(prompt, **config), out=out, isolate="on", **given)


def detail_of(result: GenerateResult) -> ErrorDetail:
    assert result.outputs == []
    assert result.metadata.error_detail is not None
    return result.metadata.error_detail


@pytest.fixture(scope="module")
def shared() -> Iterator[dict[str, WatchedModel]]:
    models: dict[str, WatchedModel] = {}
    yield models
    for model in models.values():
        model.close()


@pytest.fixture
def toy(shared: dict[str, WatchedModel]) -> WatchedModel:
    if "toy" not in shared:
        shared["toy"] = jumar.watch("toy")
    return shared["toy"]


def test_a_run_in_a_process_of_its_own_reports_what_a_run_here_does(
    toy: WatchedModel, tmp_path: Path
) -> None:
    here = jumar.generate(ask("one and two", seed=3), out=tmp_path / "here")
    there = run("one and two", tmp_path / "there", config={"seed": 3})
    assert [Path(made.path).read_text() for made in there.outputs] == [
        "one and two/0",
        "one and two/1",
    ]
    ours, theirs = here.metadata, there.metadata
    for field in ("config_resolved", "config_origins", "fingerprint", "device_placement", "inputs"):
        assert getattr(theirs, field) == getattr(ours, field)
    assert set(theirs.timings) == set(ours.timings)
    kinds = [[(event.event, event.stage) for event in one.stream_events] for one in (ours, theirs)]
    assert kinds[0] == kinds[1]
    assert (ours.execution_mode, ours.worker_id) == ("inline", None)
    assert theirs.execution_mode == "isolated"
    assert theirs.worker_id is not None and int(theirs.worker_id) != os.getpid()
    (file,) = (tmp_path / "there").glob("*.report.json")
    assert RunReport.from_dict(json.loads(file.read_text())) == theirs


def test_a_model_is_loaded_once_and_asked_often(toy: WatchedModel, tmp_path: Path) -> None:
    results = [toy.generate(prompt=word, out=tmp_path) for word in ("one", "hoarse", "three")]
    assert all(result.ok for result in results)
    assert len({result.metadata.worker_id for result in results}) == 1
    assert "load_ms" not in results[1].metadata.timings
    assert results[1].metadata.warnings == ["The voice is hoarse."]
    assert toy.placement.device.label == "cpu"
    assert {"fetch_ms", "load_ms"} <= set(toy.load_timings)


def test_a_failure_is_the_same_as_here_and_the_worker_goes_on(
    toy: WatchedModel, tmp_path: Path
) -> None:
    failed, after = (
        toy.generate(prompt="fail", out=tmp_path),
        toy.generate(prompt="b", out=tmp_path),
    )
    assert detail_of(failed) == detail_of(jumar.generate(ask("fail"), out=tmp_path))
    assert failed.metadata.timings["speak_ms"] >= 0
    assert after.metadata.worker_id == failed.metadata.worker_id


@pytest.mark.parametrize(
    ("prompt", "reason", "words"),
    [
        ("abort", "Ended: It was killed by SIGABRT (Aborted).", "tests/support/toy.py:"),
        ("silent", "Ended: It ended with exit code 3.", "LastWords: EZ9999: Inner Error!"),
    ],
)
def test_a_worker_that_dies_is_a_failed_result_and_the_next_request_gets_a_new_one(
    toy: WatchedModel, prompt: str, reason: str, words: str, tmp_path: Path
) -> None:
    lost = toy.generate(prompt=prompt, out=tmp_path)
    detail = detail_of(lost)
    assert (detail.code, detail.message) == ("run_failed", "The worker ended during speak.")
    assert detail.cause is not None
    assert detail.cause.startswith(reason)
    assert words in detail.cause
    assert (tmp_path / f"{lost.metadata.run_id}.report.json").exists()
    assert lost.metadata.worker_id is not None
    assert not is_alive(int(lost.metadata.worker_id))
    after = toy.generate(prompt="b", out=tmp_path)
    assert after.ok
    assert after.metadata.warnings == []
    assert after.metadata.worker_id != lost.metadata.worker_id
    assert after.metadata.timings["load_ms"] >= 0


def test_a_worker_that_makes_no_progress_is_ended_where_it_stands(tmp_path: Path) -> None:
    result = run("stuck", tmp_path, heartbeat=2)
    detail = detail_of(result)
    assert detail.code == "run_failed"
    assert detail.message == "No sign of progress for 2 s during speak: the worker was ended."
    assert detail.cause is not None and "in where_it_stands; " in detail.cause
    (ended,) = [e for e in result.metadata.stream_events if e.event == "worker_ended"]
    assert "where_it_stands" in ended.data["python"]
    assert not is_alive(int(result.metadata.worker_id or 0))


def test_a_worker_that_says_how_far_it_is_does_not_hang(tmp_path: Path) -> None:
    """The control: it runs for longer than the limit above, and what ends it is another one."""
    result = run("slow", tmp_path, heartbeat=2, config={"timeout": 4})
    assert detail_of(result).message == "The deadline passed during speak."


def test_a_time_limit_ends_a_run_within_its_stage_and_one_that_never_comes_back(
    toy: WatchedModel, tmp_path: Path
) -> None:
    toy.load()  # a start takes its own time, which is not what is limited here
    polite = toy.generate(prompt="slow", timeout=0.3, out=tmp_path)
    stuck = toy.generate(prompt="stuck", timeout=0.3, out=tmp_path)
    assert detail_of(polite).code == detail_of(stuck).code == "deadline_exceeded"
    assert detail_of(polite).message == "The deadline passed during speak."
    assert not is_alive(int(stuck.metadata.worker_id or 0))


def test_a_caller_can_listen_and_stop_and_the_worker_goes_on(
    toy: WatchedModel, tmp_path: Path
) -> None:
    stop, heard = threading.Event(), list[StageEventRecord]()

    def listener(event: StageEventRecord) -> None:
        heard.append(event)
        if event.event == "step" and event.stage == "speak":
            stop.set()

    stopped = toy.generate(prompt="slow", out=tmp_path, listener=listener, cancel=stop)
    assert detail_of(stopped).code == "cancelled"
    assert ("stage_started", "speak") in [(event.event, event.stage) for event in heard]
    assert toy.generate(prompt="b", out=tmp_path).metadata.worker_id == stopped.metadata.worker_id


@pytest.mark.parametrize("where", ["load", "speak"])
def test_a_caller_who_stops_a_worker_that_does_not_listen_ends_it(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "load":
        monkeypatch.setenv("JUMAR_TOY_LOAD", "stuck")
    stop = threading.Event()

    def listener(event: StageEventRecord) -> None:
        if (event.event, event.stage) == ("stage_started", where):
            stop.set()

    result = run("stuck", tmp_path, listener=listener, cancel=stop)
    detail = detail_of(result)
    assert detail.code == "cancelled"
    assert detail.message == f"Stopped by the caller during {where}; the worker was ended."
    assert not is_alive(int(result.metadata.worker_id or 0))


@pytest.mark.parametrize(("how", "words"), [("abort", "ended"), ("stuck", "No sign of progress")])
def test_a_loss_while_loading_is_a_failed_run_and_an_error_of_watch(
    how: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUMAR_TOY_LOAD", how)
    result = run("one", tmp_path, load_heartbeat=5)
    assert words in detail_of(result).message and "during load" in detail_of(result).message
    assert result.metadata.device == "cpu"
    with pytest.raises(RunFailed, match="during load"):
        jumar.watch("toy", load_heartbeat=5)


def test_a_loss_while_the_device_is_opened_has_a_report_without_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUMAR_TOY_PLACE", "abort")
    report = run("one", tmp_path, config={"backend": "cpu"}).metadata
    assert report.error == "The worker ended during start."
    assert (report.backend, report.device, report.fingerprint) == ("cpu", None, {})


def test_a_worker_that_dies_while_it_writes_leaves_no_half_file(
    toy: WatchedModel, tmp_path: Path
) -> None:
    result = toy.generate(prompt="half", out=tmp_path)
    assert "during export" in detail_of(result).message
    assert [file.name for file in tmp_path.iterdir()] == [f"{result.metadata.run_id}.report.json"]


REFUSED = [
    (ask("hello", sped=2), UnknownKey),
    (ask("unreadable"), InvalidInput),
    (ask("hello", backend="cuda:7"), DeviceUnavailable),
]


@pytest.mark.parametrize(("request_", "error"), REFUSED, ids=lambda value: str(value)[:40])
def test_a_bad_request_raises_as_it_does_here(
    tmp_path: Path, request_: jumar.GenerateRequest, error: type[Exception]
) -> None:
    with pytest.raises(error):
        jumar.generate(request_, out=tmp_path, isolate="on")
    assert list(tmp_path.iterdir()) == []


def test_a_closed_model_is_refused_and_its_process_is_gone(tmp_path: Path) -> None:
    with jumar.watch("toy") as model:
        worker = model.generate(prompt="one", out=tmp_path).metadata.worker_id
    assert worker is not None and not is_alive(int(worker))
    assert model.generate(prompt="one", out=tmp_path).metadata.error == "toy is closed."
    assert not model.alive


def test_closing_ends_a_request_of_another_thread(tmp_path: Path) -> None:
    model, begun = jumar.watch("toy"), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            model.generate, prompt="stuck", out=tmp_path, listener=lambda _: begun.set()
        )
        assert begun.wait(60)
        model.close()
        assert detail_of(running.result()).code == "run_failed"


def test_a_worker_killed_from_outside_between_two_requests_is_replaced(
    toy: WatchedModel, tmp_path: Path
) -> None:
    worker = int(toy.generate(prompt="a", out=tmp_path).metadata.worker_id or 0)
    os.kill(worker, 9)
    assert eventually(lambda: not toy.alive)
    after = toy.generate(prompt="b", out=tmp_path)
    assert after.ok
    assert after.metadata.warnings == [
        "The worker had ended since the last request; the model was loaded anew."
    ]


def test_a_lost_worker_of_an_owner_who_proves_each_is_never_replaced_unseen(tmp_path: Path) -> None:
    loaded = catalog.resolve_load(catalog.get("toy"), "text2audio", "cpu", {})
    with WatchedModel(loaded, renews=False) as model:
        model.load()
        assert model._child is not None
        os.kill(model._child.pid, signal.SIGKILL)
        assert eventually(lambda: not model.alive)
        for _ in range(2):
            assert not model.generate(prompt="hello", out=tmp_path).ok
        assert not model.alive


@pytest.mark.parametrize(
    ("isolate", "mode"), [("on", "isolated"), ("off", "inline"), ("auto", "inline")]
)
def test_auto_leaves_the_cpu_in_this_process(isolate: Any, mode: str, tmp_path: Path) -> None:
    result = jumar.generate(ask("a", backend="cpu"), out=tmp_path, isolate=isolate)
    assert result.metadata.execution_mode == mode


def test_another_word_for_isolate_is_refused_with_the_valid_ones(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="isolate is 'onn'") as refused:
        jumar.generate(ask("a"), out=tmp_path, isolate="onn")  # type: ignore[arg-type]
    assert refused.value.hint == "Did you mean 'on'?"


@pytest.mark.models
def test_vectors_come_back_as_they_are_made_here() -> None:
    texts = ["a rope", "an anchor"]
    with jumar.watch("all-minilm-l6-v2", backend="cpu") as model:
        there = model.encode(texts)
        stop = threading.Event()
        stop.set()
        with pytest.raises(Cancelled):
            model.encode(texts, cancel=stop)
    here = jumar.embed("all-minilm-l6-v2", texts, backend="cpu")
    assert there == pytest.approx(here, abs=1e-6)  # another process may divide sums otherwise


def test_the_innermost_frames_are_those_of_the_thread_that_worked() -> None:
    written = (
        "Thread 0x00007f01 (most recent call first):\n"
        '  File "/usr/lib/python3.12/threading.py", line 355 in wait\n'
        "\n"
        "Current thread 0x00007f02 (most recent call first):\n"
        '  File "/venv/lib/site-packages/torch/nn/functional.py", line 1714 in gelu\n'
        '  File "/venv/lib/site-packages/bert/modeling_bert.py", line 9 in forward\n'
        "\n"
        "Extension modules: numpy\n"
    )
    assert innermost(written) == [
        "torch/nn/functional.py:1714 in gelu",
        "site-packages/bert/modeling_bert.py:9 in forward",
    ]
    assert innermost(written, 1) == ["torch/nn/functional.py:1714 in gelu"]
    assert innermost("") == []
