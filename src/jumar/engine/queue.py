"""Who is next: a bounded queue that answers short work first and starves nobody.

    queue = Queue(limit=256)
    queue.put(work)                   # Overloaded at once where it is full
    batch = queue.take()              # waits; work that can be answered together

Order: each work has a *due time*, its arrival plus what it is expected to take. The earliest is
next. Short work overtakes long work, but only for as long as the long work itself takes: whoever
arrives later than a waiting one's due time cannot overtake it any more.

What is answered together is of like size: those nearest to the first. Callers whose last answers
came together ask again at nearly the same time, so a batch waits for as many as there were, for a
small part of the time that it takes. One caller alone never waits.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from jumar.contracts.errors import Cancelled, DeadlineExceeded, JumarError, NotReady, Overloaded

PATIENCE = 0.25
"""Part of its own time for which a batch waits for those who were together before."""

LONGEST_PATIENCE_S = 0.1
"""Who asks again at once has by then: a batch of pictures may take minutes."""

IDLE_S = 0.01
"""Without work for so long, a worker does what can wait, in seconds."""

CROWD = 3
"""From so many on: one caller who asks again at once may be counted twice."""


@dataclass(eq=False)
class Work:
    """One request that waits. All times are of `time.monotonic`, in seconds.

    Args:
        what: The request itself; the queue does not look at it.
        seconds: How long it is expected to take.
        together: Work of equal keys may be answered in one batch; None: alone.
        size: What it counts against the batch's budget (texts, tokens, pictures).
        deadline: After this nobody wants the answer.
        refuse: Called once, with the error, where it will not be answered.
        tries: How often a worker was lost at it.
    """

    what: Any
    seconds: float = 0.0
    together: Hashable = None
    size: int = 1
    deadline: float | None = None
    refuse: Callable[[JumarError], None] = lambda error: None
    arrived: float = field(default_factory=time.monotonic)
    tries: int = 0

    @property
    def due(self) -> float:
        """When it would be done, had it been alone."""
        return self.arrived + self.seconds


@dataclass(frozen=True)
class Batching:
    """How much is answered together: works, their sizes added up, and the seconds that a batch
    that is not full waits for more, whether or not there was a crowd before. `pictures` is the
    budget of models that draw; None: `most`.
    """

    most: int = 1
    budget: int = 1 << 62
    window: float = 0.0
    pictures: int | None = None


class Queue:
    """Work that waits for one of several workers. Every method may be called from any thread."""

    def __init__(
        self,
        limit: int,
        batching: Batching = Batching(),
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = limit
        self._batching = batching
        self._clock = clock
        self._waiting: list[Work] = []
        self._last: tuple[Hashable, int] = (None, 0)  # key and size of the batch taken last
        self._refusing: JumarError | None = None  # what comes
        self._closed = False  # for work that a lost worker had taken, too
        self._takers = 0  # threads that wait in `take`
        self._enough: int | None = None  # works for which the one of them waits that has some
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def seconds(self) -> float:
        """What the work that waits is expected to take, one after the other."""
        with self._changed:
            return sum(work.seconds for work in self._waiting)

    @property
    def over(self) -> bool:
        """Whether nothing waits and nothing more will."""
        with self._changed:
            return self._refusing is not None and not self._waiting

    def put(self, work: Work) -> None:
        """Let work wait.

        Raises:
            Overloaded: The queue is full. Nothing waits for a place.
            DeadlineExceeded: Its deadline has passed.
            NotReady: The queue is closed.
        """
        with self._changed:
            if self._refusing is not None:
                raise self._refusing.with_traceback(None)  # one object, raised many times
            if _too_late(work, self._clock()):
                raise DeadlineExceeded("The deadline had passed before the request came.")
            if len(self._waiting) >= self._limit:
                wait = self._wait()
                raise Overloaded(
                    f"{self._limit} requests wait already.",
                    hint=f"Try again in about {wait:.0f} s.",
                    retry_after=wait,
                )
            self._waiting.append(work)
            if self._is_awaited(work):
                self._changed.notify_all()

    def again(self, works: list[Work]) -> None:
        """Put back work that a lost worker had taken: it has its place already, and keeps its time.

        Where the queue was closed meanwhile, it is refused.
        """
        with self._changed:
            refusing = self._refusing if self._closed else None
            if refusing is None:
                self._waiting += works
                self._changed.notify_all()
        for work in works if refusing is not None else ():
            work.refuse(refusing)  # type: ignore[arg-type]

    def take(
        self, timeout: float | None = None, idle: Callable[[], object] | None = None
    ) -> list[Work]:
        """Wait for work, and take the next with all that goes with it; empty: closed, or timeout.

        Work whose deadline has passed is refused on the way. `idle` is called once nothing has come
        for `IDLE_S`.
        """
        since, crowd, came = self._clock(), self._crowd(), True
        until = None if timeout is None else since + timeout
        while True:
            with self._changed:
                late = self._late()
                batch, wait = ([], 0.0) if late else self._next(since, crowd)
                if not late and not batch:
                    if self._refusing is not None:
                        return []
                    left = None if until is None else until - self._clock()
                    if left is not None and left <= 0:
                        self._last = (None, 0)  # whoever is not back by now stays away
                        return []
                    rest = None if idle is None else IDLE_S
                    waits = [one for one in (wait or None, left, rest) if one is not None]
                    came = self._await(min(waits, default=None), crowd if wait else None)
            if idle is not None and not came:
                idle()
                idle = None
            for work in late:
                work.refuse(DeadlineExceeded("The deadline passed while the request waited."))
            if batch:
                return batch

    def cancel(self, work: Work) -> bool:
        """Take work out that nobody wants any more; False where a worker has it already."""
        with self._changed:
            if work not in self._waiting:
                return False
            self._waiting.remove(work)
        work.refuse(Cancelled("Stopped by the caller while it waited."))
        return True

    def bound(self, budget: int) -> None:
        """From now on at most this much in a batch, whatever was allowed."""
        with self._changed:
            budget = min(self._batching.budget, max(1, budget))
            self._batching = replace(self._batching, budget=budget)

    def finish(self, error: JumarError | None = None) -> None:
        """Refuse all that comes with this error; what waits is still given out."""
        with self._changed:
            self._refusing = error or NotReady("The model is being closed.")
            self._changed.notify_all()

    def refuse(self, error: JumarError) -> None:
        """Refuse what waits; what comes may wait again."""
        with self._changed:
            refused, self._waiting = self._waiting, []
        for work in refused:
            work.refuse(error)

    def close(self, error: JumarError | None = None) -> None:
        """Refuse what waits and all that comes."""
        self.finish(error)
        with self._changed:
            self._closed, why = True, self._refusing
        self.refuse(why)  # type: ignore[arg-type]

    def _late(self) -> list[Work]:
        now = self._clock()
        late = [work for work in self._waiting if _too_late(work, now)]
        if late:
            self._waiting = [work for work in self._waiting if work not in late]
        return late

    def _await(self, seconds: float | None, crowd: int | None) -> bool:
        """Whether there is a change; with a crowd, not every one of whom it still lacks is."""
        self._takers += 1
        most, here = self._batching.most, len(self._waiting)
        alone = crowd is not None and self._takers == 1
        self._enough = min(most, crowd if here < crowd else most) if alone and crowd else None
        try:
            return self._changed.wait(seconds)
        finally:
            self._takers -= 1
            self._enough = None

    def _is_awaited(self, work: Work) -> bool:
        """Whether this one, just come, is more than another of whom a worker waits for many."""
        if self._enough is None or len(self._waiting) >= self._enough:
            return True
        one_more = work.together == self._waiting[0].together and work.deadline is None
        return not one_more or sum(each.size for each in self._waiting) >= self._batching.budget

    def _crowd(self) -> int:
        """How many there were when the last batch had been computed: in it, or waiting."""
        with self._changed:
            key, size = self._last
            return size + sum(work.together == key for work in self._waiting)

    def _next(self, since: float, crowd: int) -> tuple[list[Work], float]:
        """The batch that is ready, or nothing and the seconds to wait for one. `since` is when a
        worker began to wait for it, and `crowd` how many there were then.
        """
        if not self._waiting:
            return [], 0.0
        first, *others = sorted(self._waiting, key=lambda work: work.due)
        like = [] if first.together is None else [o for o in others if o.together == first.together]
        batch = self._company(first, like)
        left = self._waits_until(batch, since, crowd) - self._clock()
        more = first.together is not None and self._refusing is None and self._has_room(batch)
        if more and left > 0:
            return [], left
        self._last = (first.together, len(batch))
        taken = set(batch)
        self._waiting = [work for work in self._waiting if work not in taken]
        return batch, 0.0

    def _waits_until(self, batch: list[Work], since: float, crowd: int) -> float:
        asked = batch[0].arrived + self._batching.window
        others = self._last[0] != batch[0].together or len(batch) < len(self._waiting)
        if others or len(batch) >= crowd or crowd < CROWD:
            return asked
        patience = PATIENCE * sum(work.seconds for work in batch)
        return max(asked, since + min(patience, LONGEST_PATIENCE_S))

    def _company(self, first: Work, like: list[Work]) -> list[Work]:
        """The first, and those of like size with whom nobody is expected to miss his deadline."""
        batch, size, limits = [first], first.size, self._batching
        done, deadline = self._clock() + first.seconds, _deadline(first)
        for work in sorted(like, key=lambda work: abs(work.size - first.size)):
            fits = len(batch) < limits.most and size + work.size <= limits.budget
            if fits and done + work.seconds <= min(deadline, _deadline(work)):
                batch.append(work)
                size += work.size
                done, deadline = done + work.seconds, min(deadline, _deadline(work))
        return batch

    def _has_room(self, batch: list[Work]) -> bool:
        size = sum(work.size for work in batch)
        return len(batch) < self._batching.most and size < self._batching.budget

    def _wait(self) -> float:
        """Seconds until there may be a place: at least one, so that nobody asks in a loop."""
        return max(1.0, min((work.seconds for work in self._waiting), default=1.0))


def _deadline(work: Work) -> float:
    return math.inf if work.deadline is None else work.deadline


def _too_late(work: Work, now: float) -> bool:
    return work.deadline is not None and now > work.deadline
