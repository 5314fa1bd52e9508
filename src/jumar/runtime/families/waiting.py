"""Waiting for work that goes on elsewhere, in a process or on a server."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from jumar.runtime.run import Run

_T = TypeVar("_T")
_LOOK_S = 0.2


def until_done(work: Future[_T], run: Run, look: Callable[[], None]) -> _T:
    """The result of `work`. Five times a second `look` is called and the run asked whether to stop.

    Raises:
        Cancelled, DeadlineExceeded: the work then still goes on; whoever started it ends it.
    """
    while not wait([work], timeout=_LOOK_S).done:
        look()
        run.check()
    return work.result()
