"""Cancelling what a child does: politely at first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jumar.isolate import Child

TICK_S = 0.05


@contextmanager
def when_cancelled(
    cancel: threading.Event | None, act: Callable[[threading.Event], object]
) -> Iterator[None]:
    """While the block runs: call `act` in another thread once `cancel` is set.

    It is given an event that is set when the block is over.
    """
    if cancel is None:
        yield
        return
    over = threading.Event()

    def watch() -> None:
        while not over.wait(TICK_S):
            if cancel.is_set():
                act(over)
                return

    watcher = threading.Thread(target=watch, name="jumar-cancel", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def ask_then_end(child: Child, patience: float) -> Callable[[threading.Event], object]:
    """Ask a child to stop at its next step, and end it where it has not after `patience` s."""

    def act(over: threading.Event) -> None:
        child.cancel()
        if not over.wait(patience):
            child.close()

    return act
