"""Tasks through watched workers: who is blamed for what, and which finding is believed."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from jumar.contracts.errors import Cancelled
from jumar.evidence.records import BAD, Verdict
from jumar.isolate import Child, Hung, Raised, Returned, Zygote
from jumar.lab.check.base import Case, Finding, Target, Task
from jumar.lab.check.worker import Begun, Plan, Trying, make_worker

log = logging.getLogger(__name__)

PRELOAD = (
    "torch",
    "torch.testing._internal.common_methods_invocations",
    "torch.utils.flop_counter",
    "jumar.lab.check.implementations",
    "jumar.lab.check.samples",
    "jumar.lab.check.subjects",
    "jumar.lab.check.worker",
    "jumar.operators.layers",
)
STARTING_S = 300.0
"""What a worker may take to be made: the device's runtime is loaded and started in it."""
AVOIDED = 8
"""Calls of one task that may take the CPU down before it is given up."""
HANGS = 2
"""Cases of one task that may cost the time limit; the rest of the task is then not run."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass
class Heard:
    """What a worker has told in one call."""

    plan: Plan | None = None
    findings: list[Finding] = field(default_factory=list)
    scripts: dict[int, str] = field(default_factory=dict)
    trying: int | None = None
    begun: int | None = None

    def take(self, word: Any) -> None:
        """Note one word."""
        if isinstance(word, Plan):
            self.plan = word
        elif isinstance(word, Trying):
            self.trying = word.number
        elif isinstance(word, Begun):
            self.begun = word.number
        elif isinstance(word, Finding):
            self.findings.append(word)
            self.begun = None
        else:
            number, script = word
            self.scripts[number] = script


@dataclass
class Done:
    """A task that is over: its findings, and why cases of it were left out."""

    task: Task
    cases: tuple[Case, ...] = ()
    findings: dict[int, Finding] = field(default_factory=dict)
    not_run: str = ""
    avoid: frozenset[int] = field(default_factory=frozenset)
    refused: str = ""

    def take(self, heard: Heard) -> None:
        """Take in what a worker told."""
        self.findings |= {one.case.number: one for one in heard.findings}
        if heard.plan is not None:
            self.cases, self.refused = heard.plan.cases, heard.plan.refused


class _OurFault(Exception):
    """The check failed, not what it checks."""


class Laboratory:
    """Workers for one target. `limit` is the longest time in seconds without a sign of life."""

    def __init__(self, target: Target, zygote: Zygote, *, limit: float = 20.0) -> None:
        self.target, self.zygote, self.limit = target, zygote, limit
        self._stopping = threading.Event()

    def index(self) -> dict[str, tuple[str, ...]]:
        """The overloads that OpInfo samples call, with the names of those OpInfos."""
        with self.worker() as child:
            found: dict[str, tuple[str, ...]] = child.call(None, deadline=STARTING_S).result()
            return found

    def run(
        self, tasks: Iterable[Task], *, workers: int = 2, ended: Callable[[Done], object]
    ) -> None:
        """Run tasks in so many workers at a time; `ended` hears of each, in whichever thread.

        The first exception that is no finding ends all, and is raised.
        """
        every = [_Bench(self) for _ in range(workers)]
        free: queue.SimpleQueue[_Bench] = queue.SimpleQueue()
        for bench in every:
            free.put(bench)

        def serve(task: Task) -> None:
            bench = free.get()
            try:
                ended(bench.done(task))
            finally:
                free.put(bench)

        with ThreadPoolExecutor(workers) as pool:
            try:
                for future in [pool.submit(serve, task) for task in tasks]:
                    future.result()
            except BaseException:
                self._stopping.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            finally:
                for bench in every:
                    bench.close()

    @property
    def stopping(self) -> bool:
        """Whether workers are being ended by us."""
        return self._stopping.is_set()

    def worker(self) -> Child:
        """A new worker, made."""
        child = self.zygote.spawn(make_worker, self.target, env=ONE_THREAD)
        child.ready(deadline=STARTING_S).result()
        return child


class _Bench:
    """One worker at a time, replaced when it ended or is under suspicion."""

    def __init__(self, laboratory: Laboratory) -> None:
        self.laboratory = laboratory
        self._child: Child | None = None

    def done(self, task: Task) -> Done:
        """Run a task to its end; bad findings are run again alone, and get their reproducers."""
        done = Done(task)
        try:
            self._run(done)
            done.findings |= self._confirmed(done)
            self._add_scripts(done)
        except _OurFault as fault:
            done.not_run = f"the check itself failed: {fault}"
        return done

    def close(self) -> None:
        """End the worker."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def _run(self, done: Done) -> None:
        """All cases, through as many workers as that takes."""
        task, hung = done.task, 0
        while hung < HANGS:
            seen = task.done | set(done.findings)
            outcome, heard = self._call(replace(task, done=seen, avoid=done.avoid))
            done.take(heard)
            left = [one for one in done.cases if one.number not in task.done | set(done.findings)]
            if isinstance(outcome, Returned):
                if not outcome.value.suspicious:
                    break
                self.close()  # what is left is run in a worker that nothing has happened to
            elif heard.plan is None:
                if heard.trying is None or len(done.avoid) == AVOIDED:
                    done.refused = f"making its inputs ended the process: {outcome.reason}"
                    break
                done.avoid |= {heard.trying}
            elif left:
                case = next((one for one in left if one.number == heard.begun), left[0])
                done.findings[case.number] = _blamed(case, outcome, heard)
                hung += isinstance(outcome, Hung)
        if left := [one for one in done.cases if one.number not in task.done | set(done.findings)]:
            done.not_run = f"{len(left)} cases were not run after it had hung {HANGS} times"

    def _confirmed(self, done: Done) -> dict[int, Finding]:
        """The first bad finding of each subject and kind, run again alone in a fresh worker.

        Of hangs only the first: another one in another worker is its confirmation.
        """
        alone: dict[tuple[str, str], Finding] = {}
        for one in done.findings.values():
            kind = one.verdict.kind
            if kind in BAD:
                alone.setdefault((kind if kind == "hangs" else one.case.shape_class, kind), one)
        again: dict[int, Finding] = {}
        for first in alone.values():
            self.close()
            number = first.case.number
            only = replace(done.task, only=frozenset({number}), avoid=done.avoid)
            outcome, heard = self._call(replace(only, done=frozenset()))
            if heard.findings:
                again[number] = _believed(first, heard.findings[0])
            elif not isinstance(outcome, Returned):
                again[number] = _believed(first, _blamed(first.case, outcome, heard))
            self.close()
        return again

    def _add_scripts(self, done: Done) -> None:
        bad = frozenset(n for n, one in done.findings.items() if one.verdict.kind in BAD)
        if bad:
            _, heard = self._call(replace(done.task, scripts_of=bad, avoid=done.avoid))
            for number, script in heard.scripts.items():
                done.findings[number] = replace(done.findings[number], script=script)

    def _call(self, task: Task) -> tuple[Any, Heard]:
        """One call of the worker; the worker is gone after anything but a return."""
        if self._child is None:
            self._child = self.laboratory.worker()
        heard = Heard()
        outcome = self._child.call(task, heartbeat=self.laboratory.limit, on_told=heard.take)
        if self.laboratory.stopping:
            raise Cancelled("The check was stopped.")  # its end is ours, and no finding
        if isinstance(outcome, Raised):
            log.warning("%s", outcome.failure.traceback)
            raise _OurFault(f"{outcome.failure.type}: {outcome.failure.message}")
        if not isinstance(outcome, Returned):
            log.info("%s %s: %s", task.operator, task.dtype, outcome.reason)
            self.close()
        return outcome, heard


def _blamed(case: Case, outcome: Any, heard: Heard) -> Finding:
    """The finding on the case during which a worker ended."""
    if heard.begun is None:
        told = f"the CPU's reference was not done: {outcome.reason}"
        return Finding(case, Verdict("unsupported", told))
    stacks = "\n".join(filter(None, [outcome.stacks.python, outcome.stacks.native]))
    if isinstance(outcome, Hung):
        return Finding(case, Verdict("hangs", outcome.reason), outcome.seconds, stacks)
    if outcome.out_of_memory:
        return Finding(case, Verdict("out_of_memory", outcome.reason))
    said = outcome.output.last_line()
    reason = f"{outcome.reason} It last wrote: {said}" if said else outcome.reason
    return Finding(case, Verdict("aborts", reason), 0.0, stacks)


def _believed(first: Finding, alone: Finding) -> Finding:
    """What two runs of one case say together."""
    kinds = (first.verdict.kind, alone.verdict.kind)
    if kinds[0] == kinds[1]:
        return alone
    if alone.verdict.kind in BAD:
        told = f"{alone.verdict.reason} (among other cases: {first.verdict.kind})"
        return replace(alone, verdict=replace(alone.verdict, reason=told))
    told = f"{kinds[0]} among other cases, {kinds[1]} alone: {first.verdict.reason}"
    if alone.verdict.kind == "unsupported":
        return replace(alone, verdict=Verdict("unsupported", told))
    return replace(first, verdict=Verdict("nondeterministic", told, first.verdict.numbers))
