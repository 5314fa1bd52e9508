"""Cancelling what a child does: politely at first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from jumar.isolate import Child
from jumar.runtime.run import Run

TICK_S = 0.05


@contextmanager
def stopping(child: Child, run: Run, patience: float) -> Iterator[None]:
    """While a call runs: when the run is cancelled, ask the child to stop, then end it."""
    if (cancel := run.cancel) is None:
        yield
        return
    over = threading.Event()

    def watch() -> None:
        while not over.wait(TICK_S):
            if cancel.is_set():
                child.cancel()
                if not over.wait(patience):
                    child.close()
                return

    watcher = threading.Thread(target=watch, name="jumar-cancel", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
