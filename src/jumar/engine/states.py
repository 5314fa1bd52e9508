"""The state of a model that is served, from those of its workers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Name = Literal["starting", "loading", "warming", "ready", "degraded", "failed", "closed"]

_WORST_FIRST: tuple[Name, ...] = ("ready", "warming", "loading", "starting", "failed", "closed")


@dataclass(frozen=True)
class State:
    """`name`, and in words why. `since` in seconds of the Unix epoch."""

    name: Name = "starting"
    reason: str = ""
    since: float = field(default_factory=time.time)

    @property
    def answers(self) -> bool:
        """Whether requests are answered now."""
        return self.name in ("ready", "degraded")


class States:
    """The states of several workers, and what they make together."""

    def __init__(self, workers: int) -> None:
        self._each = [State()] * workers
        self._together = together(self._each)
        self._changed = threading.Condition()

    def tell(self, worker: int, name: Name, reason: str = "") -> None:
        """A worker is in another state."""
        with self._changed:
            self._each[worker] = State(name, reason)
            self._together = together(self._each)
            self._changed.notify_all()

    def each(self) -> list[State]:
        """The workers' states."""
        with self._changed:
            return list(self._each)

    def state(self) -> State:
        """All of them in one: `degraded` where some workers answer and others do not."""
        return self._together

    def wait(self, timeout: float | None = None) -> State:
        """Wait until it answers, or never will."""
        with self._changed:
            self._changed.wait_for(lambda: self._together.answers or _over(self._each), timeout)
            return self._together


def together(states: Iterable[State]) -> State:
    """One state of several: `degraded` where some answer and others do not."""
    listed = list(states)
    names = {state.name for state in listed}
    if len(names) == 1:
        return listed[0]
    if "ready" in names:
        first = next(state for state in listed if state.name != "ready")
        return State("degraded", f"one worker is {first.name}: {first.reason}", first.since)
    return min(listed, key=lambda state: _WORST_FIRST.index(state.name))


def _over(states: Iterable[State]) -> bool:
    return all(state.name in ("failed", "closed") for state in states)
