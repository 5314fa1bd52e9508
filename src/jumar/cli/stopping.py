"""Ctrl-C: the first one asks the run to stop, the second one ends the process."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import FrameType
from typing import TypeVar

from jumar.contracts.errors import Cancelled

T = TypeVar("T")
HARD = Cancelled.exit_code


def stoppable(
    work: Callable[[threading.Event], T],
    *,
    on_first: Callable[[], None],
    on_second: Callable[[], None],
) -> T:
    """Do `work` in a thread, and wait for it where signals arrive at once.

    Python runs a signal's handler between two instructions of the main thread; were that one deep
    in a long call of a model, Ctrl-C would go unheard until the call is over.
    """
    cancel = threading.Event()

    def interrupted(number: int, frame: FrameType | None) -> None:
        if cancel.is_set():
            try:
                on_second()  # it may not be able to write: the first may be about to
            finally:
                os._exit(HARD)
        cancel.set()
        on_first()

    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work(cancel))
        except BaseException as error:  # noqa: BLE001  (raised again where it is waited for)
            done.set_exception(error)

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        threading.Thread(target=run, name="jumar-run", daemon=True).start()
        return done.result()
    finally:
        signal.signal(signal.SIGINT, before)
