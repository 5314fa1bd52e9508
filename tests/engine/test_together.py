"""Callers of one call: each has his own answer, his own end, and costs the others nothing."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.isolate.conftest import eventually
from tests.support import choir

from jumar import catalog
from jumar.contracts.requests import text2audio
from jumar.contracts.results import GenerateResult, Parity, StageEventRecord
from jumar.engine.answering import Batch
from jumar.engine.queue import Batching
from jumar.engine.served import Served
from jumar.engine.service import Service
from jumar.engine.visit import Visit
from jumar.engine.watched import WatchedModel

SOON = 30.0
"""A limit that no test should reach, in seconds."""


@dataclass
class Caller:
    """A request on its way, and what its caller hears."""

    future: Future[GenerateResult]
    cancel: threading.Event
    heard: list[StageEventRecord] = field(default_factory=list)

    @property
    def result(self) -> GenerateResult:
        return self.future.result(SOON)

    @property
    def text(self) -> str:
        assert self.result.ok, self.result.metadata.error_detail
        return Path(self.result.outputs[0].path).read_text()

    @property
    def code(self) -> str | None:
        detail = self.result.metadata.error_detail
        return detail.code if detail else None

    @property
    def singing(self) -> bool:
        return any(event.event == "step" for event in self.heard)


Ask = Callable[..., Caller]


@pytest.fixture
def serve(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Ask]]:
    """Serves the choir; a batch waits until it is full."""
    site = tmp_path_factory.mktemp("choir")
    choir.install(site)
    monkeypatch.syspath_prepend(str(site))
    open_: list[Served] = []

    def one(
        size: int = 3,
        prove: Any = None,
        computed: Any = lambda batch: None,
        window: float = SOON,
        **service: Any,
    ) -> Ask:
        loaded = catalog.resolve_load(catalog.get("choir"), "text2audio", "cpu", {})
        service_of = Service(batching=Batching(size, window=window), **service)
        served = Served(loaded, service_of, prove=prove, computed=computed)
        open_.append(served)
        served.states.wait(SOON)

        def ask(prompt: str, **config: Any) -> Caller:
            cancel, heard = threading.Event(), []
            request = text2audio("choir", prompt, backend="cpu", **config)
            visit = Visit(
                request,
                out=tmp_path_factory.mktemp("out"),
                overwrite=True,
                listener=heard.append,
                cancel=cancel,
            )
            return Caller(served.answer(visit), cancel, heard)

        return ask

    yield one
    for served in open_:
        served.close()


def test_callers_who_wait_are_answered_in_one_call_each_with_what_is_his(serve: Any) -> None:
    ask = serve()
    callers = [ask(prompt, seed=n) for n, prompt in enumerate(("do", "re", "mi"))]
    assert [one.text for one in callers] == ["do, together", "re, together", "mi, together"]
    reports = [one.result.metadata for one in callers]
    assert [report.batch_size for report in reports] == [3] * 3
    assert len({report.batch_group_id for report in reports}) == 1
    assert len({report.run_id for report in reports}) == 3
    assert [report.config_resolved["seed"] for report in reports] == [0, 1, 2]
    for one, report in zip(callers, reports, strict=True):
        assert report.timings["sing_ms"] > 0, "how long the call took"
        assert {event.stage for event in one.heard} == {"sing", "export"}
        assert report.stream_events == one.heard


def test_who_asks_for_something_else_is_not_among_them(serve: Any) -> None:
    ask = serve(2)
    fast, slow, fast_too = ask("do", speed=2.0), ask("re", speed=0.5), ask("mi", speed=2.0)
    assert (fast.text, fast_too.text) == ("do, together", "mi, together")
    ask("fa", speed=0.5)
    assert slow.text == "re, together"


def test_a_caller_who_leaves_has_his_end_at_once_and_the_others_their_answers(
    serve: Any, tmp_path: Path
) -> None:
    ask = serve()
    stays, leaves, too = ask(f"until {tmp_path / 'go'}"), ask("re"), ask("mi")
    assert eventually(lambda: leaves.singing)
    leaves.cancel.set()
    assert leaves.code == "cancelled"
    assert leaves.result.outputs == []
    assert not stays.future.done()
    heard = len(leaves.heard)
    (tmp_path / "go").touch()
    assert (stays.result.ok, too.text) == (True, "mi, together")
    assert len(leaves.heard) == heard, "he hears nothing of the rest"


def test_so_has_one_whose_deadline_passes(serve: Any, tmp_path: Path) -> None:
    ask = serve()
    stays, late, too = (
        ask(f"until {tmp_path / 'go'}"),
        ask("re", timeout=0.5),
        ask("mi", timeout=60),
    )
    assert late.code == "deadline_exceeded"
    assert not stays.future.done()
    (tmp_path / "go").touch()
    assert (stays.result.ok, too.text) == (True, "mi, together")


def test_a_call_that_all_have_left_is_stopped(serve: Any, tmp_path: Path) -> None:
    ask = serve(2)
    callers = [ask(f"until {tmp_path / 'never'}"), ask("re")]
    assert eventually(lambda: callers[1].singing)
    for one in callers:
        one.cancel.set()
    assert [one.code for one in callers] == ["cancelled"] * 2
    worker = callers[0].result.metadata.worker_id
    after = [ask("mi"), ask("fa")]
    assert [one.text for one in after] == ["mi, together", "fa, together"]
    assert after[0].result.metadata.worker_id == worker, "it was asked to stop, and not ended"


def test_an_error_of_ones_own_is_his_alone(serve: Any) -> None:
    ask = serve()
    flat, good, broken = ask("flat"), ask("re"), ask("disk full")
    assert (flat.code, broken.code) == ("invalid_model_output", "output_failed")
    assert good.text == "re, together"
    assert flat.result.metadata.batch_size == 3


def test_a_call_that_fails_is_taken_apart_and_each_is_answered_alone(serve: Any) -> None:
    ask = serve()
    callers = [ask("do"), ask("spoil"), ask("fail")]
    assert [one.text for one in callers[:2]] == ["do/0", "spoil/0"]
    assert callers[2].code == "run_failed"
    report = callers[0].result.metadata
    assert (report.batch_size, report.batch_group_id) == (1, None)
    assert "alone: in one call with 2 others: The model failed while it ran" in report.warnings[0]


def test_a_call_that_kills_the_worker_is_not_made_again_and_only_the_guilty_fails(
    serve: Any,
) -> None:
    ask = serve()
    good, bad, fine = ask("do"), ask("abort"), ask("mi")
    assert [good.text, fine.text] == ["do/0", "mi/0"]
    assert bad.code == "run_failed"


def test_a_worker_that_is_killed_from_outside_costs_nobody_his_answer(
    serve: Any, tmp_path: Path
) -> None:
    workers: list[WatchedModel] = []

    def seen(model: WatchedModel) -> Parity:
        workers.append(model)
        return Parity(status="unverified")

    ask = serve(prove=seen)
    callers = [ask(f"until {tmp_path / 'never'}"), ask("re"), ask("mi")]
    assert eventually(lambda: all(one.singing for one in callers))
    child = workers[0]._child
    assert child is not None
    os.kill(child.pid, signal.SIGKILL)
    assert [one.text for one in callers[1:]] == ["re/0", "mi/0"]
    assert callers[0].result.ok
    assert len(workers) == 2, "and it has proven itself"
    assert {one.result.metadata.batch_size for one in callers} == {1}


def test_after_a_call_that_found_no_memory_calls_are_half_as_large(serve: Any) -> None:
    ask = serve(4)
    first = [ask(prompt) for prompt in ("heavy", "do", "re", "mi")]
    assert [one.text for one in first] == ["heavy/0", "do/0", "re/0", "mi/0"]
    second = [ask(prompt) for prompt in ("do", "re", "mi", "fa")]
    assert [one.result.metadata.batch_size for one in second] == [2] * 4


def test_each_call_that_did_not_fail_is_told_of_once_with_its_size(serve: Any) -> None:
    told: list[Batch] = []
    ask = serve(3, computed=told.append)
    assert all(one.result.ok for one in [ask("do"), ask("re"), ask("mi")])
    assert eventually(lambda: told == [Batch(3, pictures=3)])
    taken_apart = [ask("do"), ask("spoil"), ask("fail")]
    assert [one.result.ok for one in taken_apart] == [True, True, False]
    assert eventually(lambda: told[1:] == [Batch(1, pictures=1)] * 2)


def test_one_who_was_alone_counts_as_one(serve: Any) -> None:
    told: list[Batch] = []
    ask = serve(3, computed=told.append, window=0.0)
    assert ask("do").result.ok
    assert eventually(lambda: told == [Batch(1, pictures=1)])


def test_without_a_process_each_is_answered_alone(serve: Any) -> None:
    ask = serve(2, in_process=True)
    assert [one.text for one in (ask("do"), ask("re"))] == ["do/0", "re/0"]
