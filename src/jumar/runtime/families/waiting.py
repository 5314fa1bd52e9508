"""Waiting for work that goes on elsewhere, in a process or on a server."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

_T = TypeVar("_T")
_LOOK_S = 0.2


def until_done(work: Future[_T], look: Callable[[], None]) -> _T:
    """The result of `work`; `look` is called five times a second until it is there.

    `look` calls `run.step`, which also says that this process is alive to whoever watches it. What
    it raises (Cancelled, DeadlineExceeded) leaves the work going on: who started it has to end it.
    """
    while not wait([work], timeout=_LOOK_S).done:
        look()
    return work.result()
