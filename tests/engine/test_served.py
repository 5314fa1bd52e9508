"""A model that is served: callers wait, workers may die, and nobody loses another's answer."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.isolate.conftest import eventually

from jumar import catalog
from jumar.contracts.errors import NotReady, Overloaded, ParityFailed, RunFailed
from jumar.contracts.requests import text2audio
from jumar.contracts.results import Parity
from jumar.engine.served import Served
from jumar.engine.service import Service
from jumar.engine.visit import Visit
from jumar.engine.watched import WatchedModel
from jumar.isolate import Zygote

Serve = Callable[..., Served]


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote() as one:
        yield one


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves toys until the test is over."""
    open_: list[Served] = []

    def one(prove: Callable[[WatchedModel], Parity] | None = None, **service: object) -> Served:
        loaded = catalog.resolve_load(catalog.get("toy"), "text2audio", "cpu", {})
        served = Served(loaded, Service(**service), prove=prove)  # type: ignore[arg-type]
        open_.append(served)
        return served

    yield one
    for served in open_:
        served.close()


def visit(prompt: str, folder: Path, **config: object) -> Visit:
    request = text2audio("toy", prompt, backend="cpu", **config)
    return Visit(request, out=folder, overwrite=True, listener=None, cancel=None)


def test_it_is_ready_once_it_is_loaded_and_answers(serve: Serve, tmp_path: Path) -> None:
    served = serve()
    assert served.states.wait(30).name == "ready"
    result = served.answer(visit("hello", tmp_path)).result(30)
    assert result.ok
    assert Path(result.outputs[0].path).read_text() == "hello/0"
    assert result.metadata.parity == Parity(status="unverified")


def test_a_model_whose_goldens_fail_is_never_ready(serve: Serve, tmp_path: Path) -> None:
    served = serve(lambda model: Parity(status="failed", checked=3, matched=1))
    state = served.states.wait(30)
    assert (state.name, state.reason) == ("failed", "2 of 3 golden answers are wrong.")
    with pytest.raises(NotReady, match="2 of 3 golden answers"):
        served.answer(visit("hello", tmp_path))


def test_what_waits_for_a_model_that_fails_is_told_so(serve: Serve, tmp_path: Path) -> None:
    def slow(model: WatchedModel) -> Parity:
        time.sleep(0.5)
        return Parity(status="failed", checked=1)

    future = serve(slow).answer(visit("hello", tmp_path))
    with pytest.raises(NotReady, match="golden"):
        future.result(30)


def test_without_goldens_it_is_not_ready_where_they_are_required(serve: Serve) -> None:
    state = serve(require_verified=True).states.wait(30)
    assert state.name == "failed"
    assert "no golden answers" in state.reason


def test_a_full_queue_refuses_at_once(serve: Serve, tmp_path: Path) -> None:
    served = serve(queue=1)
    served.states.wait(30)
    slow = [visit("slow", tmp_path, timeout=2.0) for _ in range(4)]
    with pytest.raises(Overloaded):
        for one in slow:
            served.answer(one)
            time.sleep(0.05)


def test_a_request_that_kills_its_worker_is_tried_twice_and_others_are_answered(
    serve: Serve, tmp_path: Path
) -> None:
    served = serve()
    served.states.wait(30)
    bad = served.answer(visit("abort", tmp_path))
    good = [served.answer(visit(f"hello {n}", tmp_path)) for n in range(3)]
    failed = bad.result(60)
    assert not failed.ok
    assert any("run again: the worker was lost" in text for text in failed.metadata.warnings)
    assert [future.result(60).ok for future in good] == [True] * 3


def test_work_of_a_killed_worker_is_done_by_the_next(serve: Serve, tmp_path: Path) -> None:
    workers: list[WatchedModel] = []

    def seen(model: WatchedModel) -> Parity:
        workers.append(model)
        return Parity(status="unverified")

    served = serve(seen)
    served.states.wait(30)
    future = served.answer(visit("slow", tmp_path, timeout=60.0))
    while not future.running():
        time.sleep(0.01)
    time.sleep(0.3)
    child = workers[0]._child
    assert child is not None
    os.kill(child.pid, signal.SIGKILL)
    result = future.result(60)
    assert result.ok, result.metadata.error_detail
    assert len(workers) == 2, "the goldens are asked again"


def test_a_failure_of_the_model_is_a_result_and_costs_no_worker(
    serve: Serve, tmp_path: Path
) -> None:
    served = serve()
    served.states.wait(30)
    result = served.answer(visit("fail", tmp_path)).result(30)
    assert result.metadata.error_detail is not None
    assert result.metadata.error_detail.code == RunFailed.code
    assert served.states.state().name == "ready"


def test_what_is_cancelled_while_it_waits_frees_its_place(serve: Serve, tmp_path: Path) -> None:
    served = serve(queue=1)
    served.states.wait(30)
    first = served.answer(visit("slow", tmp_path, timeout=1.0))
    while not first.running():
        time.sleep(0.01)
    second = served.answer(visit("never", tmp_path))
    assert second.cancel()
    third = served.answer(visit("hello", tmp_path))
    assert third.result(30).ok


def test_closing_refuses_what_waits(serve: Serve, tmp_path: Path) -> None:
    served = serve()
    served.states.wait(30)
    first = served.answer(visit("slow", tmp_path, timeout=1.0))
    while not first.running():
        time.sleep(0.01)
    second = served.answer(visit("hello", tmp_path))
    served.close()
    assert first.done()
    with pytest.raises(NotReady):
        second.result(0)
    with pytest.raises(NotReady):
        served.answer(visit("hello", tmp_path))


def test_a_worker_that_is_killed_while_idle_is_replaced_and_proven_before_anybody_asks(
    serve: Serve, tmp_path: Path
) -> None:
    proven: list[WatchedModel] = []

    def seen(model: WatchedModel) -> Parity:
        proven.append(model)
        return Parity(status="unverified")

    served = serve(seen)
    served.states.wait(30)
    child = proven[0]._child
    assert child is not None
    os.kill(child.pid, signal.SIGKILL)
    assert eventually(lambda: len(proven) == 2), "nobody has asked anything"
    assert served.answer(visit("hello", tmp_path)).result(30).ok


def test_a_worker_that_is_killed_while_it_proves_itself_has_given_no_wrong_answer(
    serve: Serve, tmp_path: Path
) -> None:
    asked: list[WatchedModel] = []

    def lost_at_first(model: WatchedModel) -> Parity:
        asked.append(model)
        if len(asked) > 1:
            return Parity(status="matched", checked=1, matched=1)
        assert model._child is not None
        os.kill(model._child.pid, signal.SIGKILL)
        assert eventually(lambda: not model.alive)
        raise ParityFailed("1 findings in the golden answers; first: no answer")

    served = serve(lost_at_first)
    assert served.answer(visit("hello", tmp_path)).result(30).ok
    assert (len(asked), served.parity.status) == (2, "matched")


def test_a_request_that_meets_a_killed_worker_is_answered_by_one_that_was_proven(
    serve: Serve, tmp_path: Path
) -> None:
    proven: list[WatchedModel] = []

    def seen(model: WatchedModel) -> Parity:
        proven.append(model)
        return Parity(status="unverified")

    served = serve(seen)
    served.states.wait(30)
    child = proven[0]._child
    assert child is not None
    os.kill(child.pid, signal.SIGKILL)
    result = served.answer(visit("hello", tmp_path)).result(30)
    assert result.ok
    assert len(proven) == 2
    assert result.metadata.worker_id != str(child.pid)


def test_a_model_that_is_let_go_answers_what_waits_for_it(serve: Serve, tmp_path: Path) -> None:
    served = serve()
    waiting = [served.answer(visit(f"hello {n}", tmp_path)) for n in range(3)]
    served.finish()
    with pytest.raises(NotReady):
        served.answer(visit("late", tmp_path))
    served.join()
    assert [future.result(0).ok for future in waiting] == [True] * 3
    assert served.over


def test_a_load_that_nobody_waits_for_any_more_is_stopped(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUMAR_TOY_LOAD", "stuck")
    served = serve()
    assert eventually(lambda: served.states.state().name == "loading")
    served.finish()
    served.join()
    assert served.states.state().name in ("failed", "closed")
