"""Trials: a program run in a watched child, with some operators computed by the reference.

A program is a function of a module, `make(*arguments)`: called in the child, it prepares (loads a
model) and gives a function without arguments that does the work. So the lab knows no model, and
whoever knows one passes it in.

A child that was not hurt serves the next trial, so that a model is loaded a few times and not for
each: see `Checked`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from jumar.contracts.errors import Cancelled, InvalidModelOutput
from jumar.isolate import Child, Died, Hung, Outcome, Raised, Returned, Zygote, progress
from jumar.lab.base import Override, Overrides, Verdict
from jumar.lab.recording import Call, first_calls, last

Make = Callable[..., Callable[[], Any]]
Judge = Callable[[Any], Verdict]

STOPS = frozenset({"raises", "aborts", "hangs"})
"""How a program ends that does not come to its end."""

PREPARING, WORKING = "preparing", "working"
"""Names of the recordings of both parts of a trial."""

PATIENCE, LEAST = 10.0, 5.0
"""What takes PATIENCE times as long as on the CPU, and LEAST seconds, hangs."""

_OUT_OF_MEMORY = ("OutOfMemoryError", "MemoryError", "insufficient_memory")


@dataclass(frozen=True)
class Limits:
    """Seconds for preparing and for the work; what takes longer hangs."""

    prepare: float
    work: float


@dataclass(frozen=True)
class Recorded:
    """A trial under the recorder: the call that it stopped in, and the first of each operator.

    `preparing` are the operators that it called before its work began.
    """

    verdict: Verdict
    stop: Call | None
    calls: dict[str, Call]
    preparing: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Discovered:
    """What a program calls on the device: the first call of each operator, and where it stopped.

    `ends` tells whether it came to its end at last, right or wrong.
    """

    calls: dict[str, Call]
    preparing: frozenset[str]
    stops: tuple[Call, ...]
    ends: bool

    @property
    def overrides(self) -> list[Override]:
        """The device's kernels of all that can be switched, in the order of their first calls."""
        return [Override(name, "device") for name in self.calls if switchable(name)]

    @property
    def suspects(self) -> list[Override]:
        """Those that it stopped in."""
        return [Override(call.operator, "device") for call in self.stops]


@dataclass(frozen=True)
class Trials:
    """One program on one device; `judge` looks at what it gave where it came to its end."""

    make: Make
    arguments: Sequence[Any]
    device: str
    judge: Judge
    limits: Limits
    zygote: Zygote

    def recorded(self, off: Iterable[Override] = ()) -> Recorded:
        """Run it under the flight recorder, in a child of its own."""
        with tempfile.TemporaryDirectory(prefix="jumar-") as folder:
            flight = Path(folder)
            names = sorted(one.operator for one in off)
            with self.child(names, flight) as child:
                # Recording takes its time: a hang is an operator that does not come back.
                work = self.limits.work
                outcome = child.call(names, deadline=PATIENCE * work, heartbeat=work)
            verdict = self.verdict(outcome)
            parts = [flight / name for name in (PREPARING, WORKING) if (flight / name).exists()]
            calls = [first_calls(part) for part in parts]
            call = last(parts[-1]) if parts else None
        stop = call if call and not call.returned and verdict.kind in STOPS else None
        known = {name: call for part in reversed(calls) for name, call in part.items()}
        return Recorded(verdict, stop, known, frozenset(calls[0] if calls else ()))

    def discovered(self) -> Discovered:
        """Find what it calls, also behind the call that stops it.

        It is run with everything off that is known so far, until it comes to its end, or stops
        without anything new.
        """
        calls: dict[str, Call] = {}
        preparing: frozenset[str] = frozenset()
        stops: list[Call] = []
        while True:
            off = [Override(name, "device") for name in calls if switchable(name)]
            seen = self.recorded(off)
            fresh = {name: call for name, call in seen.calls.items() if name not in calls}
            calls |= fresh
            preparing |= seen.preparing
            if seen.stop is not None:
                stops.append(seen.stop)
            ends = seen.verdict.kind not in STOPS
            if ends or not any(map(switchable, fresh)):
                return Discovered(calls, preparing, tuple(stops), ends)

    def child(self, off: Sequence[str] = (), flight: Path | None = None) -> Child:
        """A child that prepares, with these operators off; called with names, it works so."""
        child = self.zygote.spawn(
            _prepared, self.make, tuple(self.arguments), self.device, list(off), flight
        )
        child.ready(deadline=self.limits.prepare)  # where that fails, so does every call
        return child

    def verdict(self, outcome: Outcome) -> Verdict:
        """What an outcome means."""
        return self.judge(outcome.value) if isinstance(outcome, Returned) else stopped(outcome)


class Checked:
    """A `Check` of some trials: all of `overrides` that are not on are computed by the reference.

    A child serves trial after trial. After one that failed it has to give the right answer with
    everything off, or it is replaced: what a fault left behind never meets another trial. It is
    also replaced where operators are switched that it has prepared with.
    """

    def __init__(
        self, trials: Trials, overrides: Iterable[Override], preparing: Iterable[str] = ()
    ) -> None:
        self._trials = trials
        self._names = frozenset(one.operator for one in overrides)
        self._preparing = self._names & frozenset(preparing)
        self._child: Child | None = None
        self._prepared_without: frozenset[str] = frozenset()

    def __call__(self, on: Overrides) -> Verdict:
        """Run it with only these on."""
        off = self._names - {one.operator for one in on}
        verdict = self._run(off)
        if verdict.kind != "correct" and (off == self._names or not self._recovers()):
            self.close()
        return verdict

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def __enter__(self) -> Checked:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, off: frozenset[str]) -> Verdict:
        without = off & self._preparing
        if self._child is not None and without != self._prepared_without:
            self.close()
        if self._child is None:
            self._child, self._prepared_without = self._trials.child(sorted(without)), without
        return self._trials.verdict(
            self._child.call(sorted(off), deadline=self._trials.limits.work)
        )

    def _recovers(self) -> bool:
        """Whether the child still gives the right answer, where nothing can spoil it."""
        if self._child is None or not self._child.alive or self._preparing:
            return False
        return self._run(self._names).kind == "correct"


def reference(make: Make, arguments: Sequence[Any], zygote: Zygote) -> tuple[Any, Limits]:
    """What a program gives where nothing can be guilty, and the limits that follow from its time.

    Raises:
        JumarError: it does not come to its end there either.
    """
    begun = time.monotonic()
    with zygote.spawn(_prepared, make, tuple(arguments), "cpu", [], None) as child:
        child.ready().result()
        ready = time.monotonic()
        given = child.call([]).result()
    over = time.monotonic()
    seconds = (max(LEAST, PATIENCE * each) for each in (ready - begun, over - ready))
    return given, Limits(*seconds)


def stopped(outcome: Raised | Died | Hung) -> Verdict:
    """What it means that a child did not come to its end.

    Raises:
        Cancelled: somebody stopped it, which says nothing about it.
    """
    if isinstance(outcome, Hung):
        return Verdict("hangs", outcome.reason)
    if isinstance(outcome, Died):
        said = outcome.output.last_line()
        reason = f"{outcome.reason} It last wrote: {said}" if said else outcome.reason
        return Verdict("out_of_memory" if outcome.out_of_memory else "aborts", reason)
    failure = outcome.failure
    if failure.code == Cancelled.code:
        raise failure.error()
    text = f"{failure.type}: {failure.message}"
    names = [failure.code or "", failure.type, *(kind for kind, _ in failure.causes)]
    if any(name.endswith(_OUT_OF_MEMORY) for name in names):
        return Verdict("out_of_memory", text)
    return Verdict("wrong" if failure.code == InvalidModelOutput.code else "raises", text)


def switchable(operator: str) -> bool:
    """Whether the reference can compute an operator instead of the device."""
    from jumar.operators.dispatcher import overload
    from jumar.operators.reference import unreferenced

    return unreferenced(overload(operator)) is None


def _prepared(
    make: Make, arguments: tuple[Any, ...], device: str, off: list[str], flight: Path | None
) -> Callable[[list[str]], Any]:
    """In the child: prepare; what is returned does the work with the named operators off."""
    with _switched_off(off, device), _recorded(flight, PREPARING, device):
        work = make(*arguments)

    def worked(off: list[str]) -> Any:
        with _switched_off(off, device), _recorded(flight, WORKING, device):
            return work()

    return worked


def _switched_off(names: list[str], device: str) -> AbstractContextManager[None]:
    from jumar.operators.overrides import installed

    return installed([Override(name, "reference") for name in names], device=device)


def _recorded(flight: Path | None, part: str, device: str) -> AbstractContextManager[None]:
    from jumar.devices import accelerators
    from jumar.lab.recorder import recorder

    if flight is None:
        return nullcontext()
    kind, _, index = device.partition(":")
    calls = count(1)

    def after() -> None:
        accelerators()[kind].synchronize(int(index or 0))
        progress(next(calls))

    return recorder(flight / part, device=device, after=after)
