"""A server keeps nothing of a request that is over, but for what has a bound."""

from __future__ import annotations

import gc
import logging
import os
import signal
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any
from urllib.parse import clear_cache

import pytest
from tests.isolate.conftest import eventually
from tests.support.serving import Running, serving

from jumar.contracts.results import GenerateResult

EACH, ROUNDS = 30, 2


def generate(server: Running, number: int) -> None:
    assert server.ask(f"number {number}").status_code == 200


def refused(server: Running, number: int) -> None:
    assert server.ask(f"number {number}", config={"nothing": number}).status_code == 400


def unknown(server: Running, number: int) -> None:
    assert server.client.get(f"/nothing/{number}").status_code == 404


def job(server: Running, number: int) -> None:
    accepted = server.ask(f"number {number}", async_run=True)
    assert accepted.status_code == 202
    with server.client.stream("GET", f"{accepted.headers['location']}/events") as events:
        assert "succeeded" in events.read().decode()  # the stream ends with the job


def cancelled(server: Running, number: int) -> None:
    name = server.ask(f"number {number}", async_run=True).json()["id"]
    assert server.client.delete(f"/v1/jobs/{name}").status_code == 200


def page(server: Running, number: int) -> None:
    assert server.client.get("/page/home").status_code == 200
    assert server.client.get("/metrics").status_code == 200


def lost(server: Running, number: int) -> None:
    """The worker is killed, and the request answered by the next."""
    zygote = server.desk.house._zygote
    assert zygote is not None
    (pid,) = (child.pid for child in list(zygote._children) if child.alive)
    os.kill(pid, signal.SIGKILL)
    generate(server, number)


KINDS = [generate, refused, unknown, job, cancelled, page, lost]
FEW = {lost: 4}


def counted(server: Running) -> Counter[str]:
    """Objects that hold others, by their types, once nothing is under way."""
    live = server.desk.jobs.live
    assert eventually(lambda: not any(server.desk.jobs.live.values())), live
    clear_cache()  # of addresses; Python bounds it
    gc.collect()
    kinds = [type(one) for one in gc.get_objects() if not _is_dead(one)]
    return Counter(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)


def _is_dead(one: object) -> bool:
    """A weak reference to nothing: sqlite3 forgets those to its cursors at the 200th."""
    return isinstance(one, weakref.ref) and one() is None


def grown(server: Running, kind: Callable[[Running, int], None]) -> dict[str, int]:
    """Types of which there is one more for each request; what is made once comes in one round."""
    counts, each = [], FEW.get(kind, EACH)
    for _ in range(1 + ROUNDS):
        for number in range(each):
            kind(server, number)
        counts.append(counted(server))
    more = [later - before for before, later in pairwise(counts)]
    least = {name: min(one[name] for one in more) for name in more[0]}
    return {name: count for name, count in least.items() if count >= 0.9 * each}


@pytest.fixture(autouse=True)
def unlogged() -> Iterator[None]:
    """Without records, which pytest keeps where another test has turned the log on."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def server(toys: None, tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    with serving(tmp_path_factory.mktemp("memory"), "toy") as running:
        yield running.ready()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_nothing_is_left_of_a_request(
    server: Running, kind: Callable[[Running, int], None]
) -> None:
    assert grown(server, kind) == {}


def test_what_is_left_of_each_request_is_seen(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count is worth something: one result that somebody keeps, and it says so."""
    kept: list[Any] = []
    ran = server.desk.metrics.ran

    def keeping(result: GenerateResult) -> None:
        kept.append(result)
        ran(result)

    monkeypatch.setattr(server.desk.metrics, "ran", keeping)
    assert "jumar.contracts.results.RunReport" in grown(server, generate)


def test_a_path_that_a_caller_made_up_is_no_label_of_a_metric(server: Running) -> None:
    unknown(server, 1)
    assert "nothing/" not in server.client.get("/metrics").text
