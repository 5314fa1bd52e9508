"""Many models, few places: loaded when asked for, let go when others need the place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from tests.isolate.conftest import eventually, is_alive

from jumar.contracts.errors import (
    DeviceUnavailable,
    InsufficientMemory,
    InvalidValue,
    NotReady,
    Overloaded,
    UnknownModel,
)
from jumar.contracts.requests import text2audio
from jumar.contracts.results import GenerateResult, Parity
from jumar.engine.house import LEAVING, House, Limits
from jumar.engine.service import Service
from jumar.engine.visit import Visit
from jumar.engine.watched import WatchedModel
from jumar.isolate import Zygote

UNVERIFIED = Parity(status="unverified")
PATIENT = 60.0


@pytest.fixture
def zygote() -> Iterator[Zygote]:
    with Zygote() as one:
        yield one


@pytest.fixture
def house(zygote: Zygote) -> Iterator[Callable[..., House]]:
    opened: list[House] = []

    def make(models: int = 4, concurrency: int | None = None, **more: object) -> House:
        limits = Limits(models, concurrency)
        opened.append(House("cpu", limits, zygote=zygote, **more))  # type: ignore[arg-type]
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def visit(
    prompt: str, folder: Path, cancel: threading.Event | None = None, **config: object
) -> Visit:
    request = text2audio("toy", prompt, backend="cpu", **config)
    return Visit(request, out=folder, overwrite=True, listener=None, cancel=cancel)


def worker(future: Future[GenerateResult]) -> str | None:
    result = future.result(PATIENT)
    assert result.ok, result.metadata.error_detail
    return result.metadata.worker_id


def loads(house: House) -> list[object]:
    return [served.loaded.load_config["dtype"] for served in house.models()]


def test_what_is_no_load_time_key_never_loads_another(
    house: Callable[..., House], tmp_path: Path
) -> None:
    one = house()
    speeds = [
        worker(one.answer(visit("a", tmp_path, speed=s, seed=n))) for n, s in enumerate([1, 2])
    ]
    other = worker(one.answer(visit("a", tmp_path, dtype="fp32")))
    assert speeds[0] == speeds[1] != other
    assert loads(one) == [None, "fp32"]


def test_a_loaded_model_answers_while_another_loads(
    house: Callable[..., House], tmp_path: Path
) -> None:
    go = threading.Event()

    def prove(model: WatchedModel) -> Parity:
        if model._terms.loaded.load_config["dtype"] == "fp32":
            go.wait(PATIENT)
        return UNVERIFIED

    one = house(prove=prove)
    worker(one.answer(visit("a", tmp_path)))
    loading = one.answer(visit("a", tmp_path, dtype="fp32"))
    assert worker(one.answer(visit("b", tmp_path)))
    assert not loading.done()
    go.set()
    assert worker(loading)


def test_two_models_load_at_the_same_time(house: Callable[..., House], tmp_path: Path) -> None:
    both = threading.Barrier(2)

    def prove(model: WatchedModel) -> Parity:
        both.wait(PATIENT)  # each is in its loading: neither would pass alone
        return UNVERIFIED

    one = house(prove=prove)
    asked = [one.answer(visit("a", tmp_path, dtype=dtype)) for dtype in ("fp32", "fp16")]
    assert all(map(worker, asked))


def test_the_idle_model_that_was_asked_longest_ago_is_let_go(
    house: Callable[..., House], tmp_path: Path
) -> None:
    one = house(models=2)
    for dtype in ("fp32", "fp16", "fp32", "bf16"):
        worker(one.answer(visit("a", tmp_path, dtype=dtype)))
        assert eventually(lambda: not any(served.pending for served in one.models()))
    assert loads(one) == ["fp32", "bf16"]


def test_with_one_place_the_first_process_is_gone_before_the_second_loads(
    house: Callable[..., House], tmp_path: Path
) -> None:
    seen: list[tuple[str | None, bool]] = []
    first: list[str | None] = []

    def prove(model: WatchedModel) -> Parity:
        if first:
            seen.append((first[0], is_alive(int(first[0] or 0))))
        return UNVERIFIED

    one = house(models=1, concurrency=1, prove=prove)
    first.append(worker(one.answer(visit("a", tmp_path))))
    assert worker(one.answer(visit("a", tmp_path, dtype="fp32")))
    assert seen == [(first[0], False)]


def test_a_busy_model_that_has_to_go_answers_what_waits_for_it_first(
    house: Callable[..., House], tmp_path: Path
) -> None:
    one, stop = house(models=1), threading.Event()
    worker(one.answer(visit("a", tmp_path)))
    running = one.answer(visit("slow", tmp_path, stop))
    waiting = one.answer(visit("b", tmp_path))
    other = one.answer(visit("c", tmp_path, dtype="fp32"))
    assert eventually(running.running)
    assert not other.running()
    stop.set()
    assert worker(waiting) != worker(other)
    detail = running.result(PATIENT).metadata.error_detail
    assert detail is not None
    assert detail.code == "cancelled"


def test_callers_that_change_models_faster_than_these_load_are_told(
    house: Callable[..., House], tmp_path: Path
) -> None:
    go = threading.Event()

    def prove(model: WatchedModel) -> Parity:
        go.wait(PATIENT)
        return UNVERIFIED

    one = house(models=1, prove=prove)
    dtypes = ["fp32", "fp16"] * LEAVING
    asked = []
    with pytest.raises(Overloaded):
        for dtype in dtypes:
            asked.append(one.answer(visit("a", tmp_path, dtype=dtype)))
    assert len(asked) == LEAVING + 1
    go.set()
    one.close()


def test_no_more_requests_are_at_work_than_allowed(
    house: Callable[..., House], tmp_path: Path
) -> None:
    one, stop = house(concurrency=1), threading.Event()
    for dtype in ("fp32", "fp16"):
        worker(one.answer(visit("a", tmp_path, dtype=dtype)))
    running = one.answer(visit("slow", tmp_path, stop, dtype="fp32"))
    assert eventually(running.running)
    second = one.answer(visit("b", tmp_path, dtype="fp16"))
    assert not eventually(second.running, patience=0.5)
    stop.set()
    assert worker(second)


def test_memory_that_is_short_is_taken_from_the_idle(
    house: Callable[..., House], tmp_path: Path
) -> None:
    """The second does not fit beside the first: it loads again once that is gone."""
    first: list[int] = []

    def prove(model: WatchedModel) -> Parity:
        if first and is_alive(first[0]):
            raise InsufficientMemory("The device has no room.")
        return UNVERIFIED

    one = house(prove=prove)
    first.append(int(worker(one.answer(visit("a", tmp_path))) or 0))
    assert eventually(lambda: not one.models()[0].pending)
    assert worker(one.answer(visit("a", tmp_path, dtype="fp32")))
    assert loads(one) == ["fp32"]


def test_memory_that_is_short_with_nobody_idle_is_an_error_at_once(
    house: Callable[..., House], tmp_path: Path
) -> None:
    def prove(model: WatchedModel) -> Parity:
        raise InsufficientMemory("The device has no room.")

    with pytest.raises(InsufficientMemory, match="no room"):
        house(prove=prove).answer(visit("a", tmp_path)).result(PATIENT)


@pytest.mark.parametrize("named", [True, False])
def test_a_named_model_keeps_its_place_whatever_callers_load(
    house: Callable[..., House], tmp_path: Path, named: bool
) -> None:
    one = house(models=2)
    first = one.open("toy") if named else None
    mine = worker(one.answer(visit("a", tmp_path)))
    for dtype in ("fp32", "fp16"):
        worker(one.answer(visit("a", tmp_path, dtype=dtype)))
        assert eventually(lambda: not any(served.pending for served in one.models()))
    assert (one.named() == [first]) is named
    assert (loads(one) == [None, "fp16"]) is named, "without a name it is let go"
    assert (worker(one.answer(visit("a", tmp_path))) == mine) is named


def test_a_load_without_a_place_is_refused_by_the_key_that_needs_it(
    house: Callable[..., House], tmp_path: Path
) -> None:
    one = house(models=1)
    one.open("toy")
    with pytest.raises(InvalidValue, match="every place here") as refused:
        one.answer(visit("a", tmp_path, dtype="fp32"))
    assert (refused.value.param, refused.value.hint) == ("config.dtype", "Leave dtype out.")
    assert worker(one.answer(visit("a", tmp_path)))


def test_a_callers_load_takes_no_memory_from_a_named_model(
    house: Callable[..., House], tmp_path: Path
) -> None:
    first: list[int] = []

    def prove(model: WatchedModel) -> Parity:
        if first and is_alive(first[0]):
            raise InsufficientMemory("The device has no room.")
        return UNVERIFIED

    one = house(prove=prove)
    one.open("toy")
    first.append(int(worker(one.answer(visit("a", tmp_path))) or 0))
    assert eventually(lambda: not one.models()[0].pending)
    with pytest.raises(InsufficientMemory):
        one.answer(visit("a", tmp_path, dtype="fp32")).result(PATIENT)
    assert worker(one.answer(visit("b", tmp_path))) == str(first[0])


def test_a_request_that_no_load_can_satisfy_gets_the_reason_itself(
    house: Callable[..., House], tmp_path: Path
) -> None:
    request = text2audio("toy", "a", backend="cuda:7")
    bad = Visit(request, out=tmp_path, overwrite=True, listener=None, cancel=None)
    with pytest.raises(DeviceUnavailable, match="cuda:7 cannot be used here"):
        house().answer(bad).result(PATIENT)


def test_only_named_models_are_served(house: Callable[..., House]) -> None:
    one = house(only=["toy"])
    with pytest.raises(UnknownModel, match="hibari is not served here"):
        one.admit(text2audio("hibari", "a"))
    with pytest.raises(UnknownModel, match="Unknown model 'toi'"):
        one.admit(text2audio("toi", "a"))
    assert one.admit(text2audio("toy", "a")).backend == "cpu"


@pytest.mark.parametrize("backend", ["cuda", "npu:0", "cuda:1"])
def test_another_device_than_the_servers_is_refused(
    house: Callable[..., House], backend: str
) -> None:
    with pytest.raises(InvalidValue, match="toy runs on cpu here"):
        house().admit(text2audio("toy", "a", backend=backend))


def test_closing_ends_every_process_and_refuses_what_waits(
    house: Callable[..., House], tmp_path: Path
) -> None:
    one, stop = house(service=Service(workers=2)), threading.Event()
    pids = {worker(one.answer(visit("a", tmp_path))) for _ in range(4)}
    running = [one.answer(visit("slow", tmp_path, stop)) for _ in range(2)]
    assert eventually(lambda: all(future.running() for future in running))
    waiting = one.answer(visit("b", tmp_path))
    one.finish()
    with pytest.raises(NotReady):
        waiting.result(PATIENT)
    with pytest.raises(NotReady, match="stopping"):
        one.answer(visit("c", tmp_path))
    stop.set()
    one.close()
    assert all(future.done() for future in running)
    assert not any(is_alive(int(pid or 0)) for pid in pids)


def test_what_does_not_end_in_time_is_ended_and_its_caller_told(
    house: Callable[..., House], tmp_path: Path
) -> None:
    one = house()
    pid = int(worker(one.answer(visit("a", tmp_path))) or 0)
    running = one.answer(visit("stuck", tmp_path))
    assert eventually(running.running)
    one.close(grace=0.2)
    with pytest.raises(NotReady):
        running.result(0)
    assert not is_alive(pid)
