"""Jobs without an engine: what they ask is in the test's hands."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from jumar.contracts.requests import GenerateRequest, text2audio
from jumar.contracts.results import GenerateResult, RunReport, StageEventRecord
from jumar.engine.jobs import Job
from jumar.runtime.run import Listener


def request(prompt: str = "hello") -> GenerateRequest:
    return text2audio("toy", prompt, backend="cpu")


def job(**given: Any) -> Job:
    return Job(request=request(), backend="cpu", **given)


def event(name: str = "step", **data: Any) -> StageEventRecord:
    return StageEventRecord(event=name, stage="speak", timestamp_ms=1, data=data)


def result(error: str | None = None) -> GenerateResult:
    report = RunReport(run_id="r", task="text2audio", model="toy", backend="cpu", error=error)
    return GenerateResult(metadata=report)


class Asked:
    """What jobs ask, in the test's hands: each request, who listens, and the future."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self.cancels: list[threading.Event] = []
        self.futures: list[Future[GenerateResult]] = []
        self.runs: list[SimpleNamespace] = []
        self.refusing: Exception | None = None

    def visit(self, request: GenerateRequest, listener: Listener, cancel: threading.Event) -> Any:
        self.listeners.append(listener)
        self.cancels.append(cancel)
        self.runs.append(SimpleNamespace(known={}))
        return SimpleNamespace(request=request, run=self.runs[-1])

    def ask(self, visit: Any) -> Future[GenerateResult]:
        if self.refusing:
            raise self.refusing
        self.futures.append(Future())
        return self.futures[-1]

    def begin(self, number: int = -1) -> None:
        self.futures[number].set_running_or_notify_cancel()
        self.listeners[number](event("stage_started"))
