"""After a failure that may be an operator's: find it, quarantine it, and run the request again.

The engine knows no lab. Who does hands in `investigate`: given what failed and the request, it says
what it found out.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from weakref import WeakSet

from jumar.contracts.errors import (
    Cancelled,
    DeadlineExceeded,
    InvalidModelOutput,
    JumarError,
    RunFailed,
)
from jumar.contracts.requests import GenerateRequest, Task
from jumar.devices import Placement
from jumar.evidence import Evidence, Store
from jumar.runtime.run import Run

FROM_DEVICE = ("Ended", "RuntimeError", "NotImplementedError", "AcceleratorError")
"""Causes of a failure that may be an operator's: a lost worker, and what torch raises for one."""

_REFUSED = re.compile(r"\bDT_(DOUBLE|COMPLEX)|\bnot (implemented|supported) for\b|\b161002\b")
"""An operator that does not take a number format is guilty of nothing."""

_OF_THE_PROCESS = ("Ended", "LastWords")
"""Causes that say how a process ended and what it wrote, not where it stood."""

_NUMBER = re.compile(r"\d+")

_OF_THE_RUN = ("output_dir", "request_id", "timeout", "preset")


@dataclass(frozen=True)
class Failed:
    """What failed, and where. `loading_s` and `answering_s` are the silences that were a hang.

    `cancel` is set when the caller stops the run: what is found out from then on is not used.
    """

    error: JumarError
    placement: Placement
    fingerprint: dict[str, str]
    loading_s: float
    answering_s: float
    cancel: threading.Event | None = None


Investigate = Callable[[Failed, GenerateRequest], Sequence[Evidence]]


def may_be_an_operators(error: JumarError) -> bool:
    """Whether an operator may be behind a failure: not behind lack of memory, a limit, a request.

    A wrong number stops nothing, so that running again would find nothing either.
    """
    if not isinstance(error, RunFailed) or isinstance(error, InvalidModelOutput):
        return False
    if any(_REFUSED.search(str(cause)) for cause in _causes(error)):
        return False
    return any(type(cause).__name__ in FROM_DEVICE for cause in _causes(error))


class Suspicion:
    """Which failures of a model in a server are worth an investigation, which takes it minutes.

    One loss may be anybody's: the kernel's, an operator's with `kill`. So a failure is looked into
    the second time: where the same request fails again, or another one in the same place. And once:
    what was found stands in quarantine then, and where nothing was, asking again finds no more.
    """

    KEPT = 256
    """Places that are remembered; beyond, the oldest is forgotten."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._runs: WeakSet[Run] = WeakSet()
        self._lock = threading.Lock()

    def second(self, error: JumarError, run: Run) -> bool:
        """Take note of a failure; whether it is to be looked into."""
        place = _place(error)
        with self._lock:
            seen = self._places.pop(place, 0) if place else 0
            second = seen == 1 or (seen == 0 and run in self._runs)
            if place:
                self._places[place] = 2 if second else seen or 1
            if len(self._places) > self.KEPT:
                del self._places[next(iter(self._places))]
            self._runs.add(run)
        return second


def _place(error: JumarError) -> str:
    """Where a failure stood, without what differs between requests; empty where that is not known,
    as of a process that was killed.
    """
    stood = [str(link) for link in _causes(error) if type(link).__name__ not in _OF_THE_PROCESS]
    return _NUMBER.sub("#", " | ".join(stood))


def from_outside(error: JumarError) -> bool:
    """Whether a process was killed by somebody else: it stood nowhere, and SIGKILL ended it."""
    said = [str(error), *map(str, _causes(error))]
    stood = any(type(link).__name__ == "Stood" for link in _causes(error))
    return not stood and any("killed by SIGKILL" in text for text in said)


def found_guilty(investigate: Investigate, failed: Failed, run: Run) -> bool:
    """Investigate and store what was found; whether it is worth another run. The run tells it."""
    try:
        with run.stage("investigate"):
            evidence = investigate(failed, asked_again(run))
    except (Cancelled, DeadlineExceeded):
        raise
    except Exception as error:  # noqa: BLE001  (told; the failure itself is what has to be raised)
        run.check()
        run.warn(
            "The failure was looked into, and that failed too:"
            f" {type(error).__name__}: {error} ({getattr(error, 'cause', None)})."
        )
        return False
    run.check()
    guilty = [one for one in evidence if one.bad]
    if not guilty:
        run.warn("The failure was looked into, and no operator was found guilty.")
        return False
    store = Store()
    for one in guilty:
        store.add(one)
        run.warn(f"Found guilty: {one.subject} {one.verdict} (evidence {one.id}). {one.reason}")
    run.warn(f"The request was run again after: {failed.error.message} ({failed.error.cause})")
    return True


def asked_again(run: Run) -> GenerateRequest:
    """The request of a run with every value that was decided, drawn ones too."""
    request = run.request
    task: Task = request.task  # type: ignore[assignment]
    return GenerateRequest(
        task=task,
        model=request.manifest.id,
        backend=request.backend,
        inputs=request.inputs,
        config={
            key: value
            for key, value in request.config.items()
            if value is not None and key not in _OF_THE_RUN
        },
        adapters=list(request.adapters) or None,
    )


def _causes(error: JumarError) -> Iterator[BaseException]:
    link = error.__cause__
    while link is not None:
        yield link
        link = link.__cause__
