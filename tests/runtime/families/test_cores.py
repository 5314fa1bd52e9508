"""One core for small batches; others have theirs, whoever computes beside and whatever fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
import torch

from jumar.runtime.families.cores import WORTH_WAKING, Cores

MODEL = torch.nn.Linear(64, 64)
SMALL, LARGE = 1, 2 * WORTH_WAKING // MODEL.weight.numel()


@pytest.fixture(autouse=True)
def three_threads_that_sleep(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def in_a_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize(("count", "wanted"), [(SMALL, 1), (LARGE, 3)])
def test_a_batch_has_the_cores_that_pay(count: int, wanted: int) -> None:
    with Cores(MODEL).for_tokens(count):
        assert torch.get_num_threads() == wanted
    assert torch.get_num_threads() == 3


def test_a_batch_that_fails_gives_the_cores_back() -> None:
    with pytest.raises(ZeroDivisionError), Cores(MODEL).for_tokens(SMALL):
        raise ZeroDivisionError
    assert torch.get_num_threads() == 3


def test_a_thread_that_begins_beside_a_small_batch_has_all_cores() -> None:
    """As two models do in the process of a server (`--in-process`)."""
    inside, done = threading.Event(), threading.Event()
    had: list[int] = []

    def small() -> None:
        with Cores(MODEL).for_tokens(SMALL):
            inside.set()
            done.wait()

    first = in_a_thread(small)
    inside.wait()
    in_a_thread(lambda: had.append(torch.get_num_threads())).join()
    done.set()
    first.join()
    assert had == [3]


def test_where_threads_wait_awake_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY")
    with Cores(MODEL).for_tokens(SMALL):
        assert torch.get_num_threads() == 3
