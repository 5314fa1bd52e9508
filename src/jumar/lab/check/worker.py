"""In the watched child: plan the cases of a task, run them one by one, tell each when it has ended.

What is told, in order: `Trying` before the CPU is asked whether it takes a call; `Plan` with all
cases; for each case that is run `Begun`, when the CPU's
reference is there and the device's turn comes, and its `Finding`. Every word is a sign of life, so
a hang is told from a slow batch, and the one case without a finding is the one that took the
process down.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jumar.evidence.records import BAD
from jumar.isolate import tell
from jumar.lab.check.base import Case, Finding, Target, Task


@dataclass(frozen=True)
class Trying:
    """The CPU is asked about the call of this number."""

    number: int


@dataclass(frozen=True)
class Plan:
    """The cases of a task; `refused` says why there are none."""

    cases: tuple[Case, ...]
    refused: str = ""


@dataclass(frozen=True)
class Begun:
    """The device's turn has come in this case."""

    number: int


@dataclass(frozen=True)
class Ended:
    """The last word. `suspicious`: what happened in this process that it should not outlive."""

    suspicious: str = ""


Answer = Callable[[Task], Any]


def make_worker(target: Target) -> Answer:
    """The worker for one provider and device; also answers what is no task at all (`index`)."""
    import torch

    torch.set_num_threads(1)
    kept: dict[str, Any] = {}

    def answer(task: Task | None) -> Any:
        if task is None:
            from jumar.lab.check import samples

            return samples.index()
        return _Batch(target, task, kept).run()

    return answer


class _Batch:
    """One task at work. `kept` holds the machine, which is looked up once in a process."""

    def __init__(self, target: Target, task: Task, kept: dict[str, Any]) -> None:
        from jumar.lab.check.subjects import subject

        self.target, self.task, self.kept = target, task, kept
        self.subject = subject(task.operator)
        self.suspicious = ""

    def run(self) -> Ended:
        """Do the task; findings are told on the way."""
        from jumar.contracts.errors import JumarError
        from jumar.lab.check import implementations

        refused = self.subject.refusal()
        calls = self.subject.plan(self.task, lambda number: tell(Trying(number)))
        planned = [] if refused else list(calls)
        cases = tuple(
            Case(self.task.operator, self.task.dtype, one.number, one.source, one.call.shapes())
            for one in planned
        )
        without = "" if cases else self.subject.without_inputs(self.task.dtype)
        tell(Plan(cases, refused or without))
        try:
            implementation = implementations.find(self.target, self.task.operator, self.task.dtype)
        except JumarError as error:
            tell(Plan((), error.message))
            return Ended()
        for case, one in zip(cases, planned, strict=True):
            if self.task.scripts_of is not None:
                self._script(case, one)
            elif case.number not in self.task.done and self.task.only in (None, {case.number}):
                self._case(case, one, implementation)
                if self.suspicious:
                    break
        return Ended(self.suspicious)

    def _case(self, case: Case, planned: Any, implementation: Callable[..., Any]) -> None:
        from jumar.lab.check.judging import judge

        started = time.perf_counter()
        machine = self._machine()
        judged = self.subject.judged(planned, self.target.device.partition(":")[0])
        tell(Begun(case.number))
        verdict, detail = judge(judged, implementation, planned.call, machine)
        if verdict.kind in BAD and not self._healthy():
            self.suspicious = f"{verdict.kind} in {case.key}"
        tell(Finding(case, verdict, time.perf_counter() - started, detail))

    def _script(self, case: Case, planned: Any) -> None:
        if case.number in (self.task.scripts_of or ()):
            tell((case.number, self.subject.script(self.target, case, planned)))

    def _healthy(self) -> bool:
        """Whether the device still copies there and back: after some errors it answers nothing."""
        import torch

        numbers = torch.arange(64.0)
        try:
            back = numbers.to(self.target.device).cpu()
            self._machine().synchronize()
        except Exception:  # noqa: BLE001  (that it raises is the answer)
            return False
        return bool(torch.equal(back, numbers))

    def _machine(self) -> Any:
        if "machine" not in self.kept:
            from jumar.lab.check.implementations import machine

            self.kept["machine"] = machine(self.target.device)
        return self.kept["machine"]
