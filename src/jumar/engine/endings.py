"""What a worker that died or hung says in a report: one error, its causes, and where it stood."""

from __future__ import annotations

import re
from typing import Any

from jumar.contracts.errors import (
    Cancelled,
    DeadlineExceeded,
    InsufficientMemory,
    JumarError,
    RunFailed,
)
from jumar.devices import remedy
from jumar.isolate import Died, Hung, Output
from jumar.runtime.run import Run

FRAMES = 8
"""Innermost Python frames that an error names; the event `worker_ended` has them all."""

_BETWEEN = ("_call_impl", "_wrapped_call_impl")  # of torch, between a module and its forward
_OUTPUT = 4096
_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.+)$')


class Ended(Exception):
    """Cause: how the process ended."""


class LastWords(Exception):
    """Cause: the last line that it wrote, most often the device library's."""


class Stood(Exception):
    """Cause: its innermost Python frames, innermost first."""


def error_of(outcome: Died | Hung, run: Run) -> JumarError:
    """The error of a worker that was lost during `run`; the whole of it becomes an event."""
    run.emit("worker_ended", **_told(outcome))
    if run.cancel is not None and run.cancel.is_set():
        return Cancelled(f"Stopped by the caller during {run.at}; the worker was ended.")
    error = _kind(outcome, run.at)
    link: JumarError | Exception = error
    for cause in _causes(outcome):
        link.__cause__ = cause
        link = cause
    return error


def innermost(python: str, count: int = FRAMES) -> list[str]:
    """The first frames of the thread that worked, as `torch/nn/functional.py:1714 in gelu`.

    `python` is what faulthandler writes: threads, each with its most recent call first. The thread
    that the signal met is the "Current thread"; a worker does its work in it.
    """
    _, found, current = python.partition("Current thread")
    found_frames = []
    for line in (current if found else python).splitlines()[1:]:
        if (frame := _FRAME.match(line)) is None:
            break
        if frame["name"] in _BETWEEN:
            continue
        file = "/".join(frame["file"].split("/")[-3:])
        found_frames.append(f"{file}:{frame['line']} in {frame['name']}")
    return found_frames[:count]


def last_words(output: Output) -> str:
    """The last line that it wrote, Python's own warnings and lines that belong to others apart."""
    for written in (output.stderr, output.stdout):
        lines = written.decode("utf-8", "replace").splitlines()
        if said := [line for line in lines if line[:1].strip() and "Warning: " not in line]:
            return said[-1].strip()
    return ""


def _kind(outcome: Died | Hung, stage: str) -> JumarError:
    said = last_words(outcome.output)
    if isinstance(outcome, Hung):
        if outcome.limit == "deadline":
            return DeadlineExceeded(f"The deadline passed during {stage}; the worker was ended.")
        return RunFailed(
            f"No sign of progress for {outcome.seconds:g} s during {stage}: the worker was ended.",
            hint=remedy(said) or "Where it only needs longer, allow more with --heartbeat.",
        )
    if outcome.out_of_memory:
        return InsufficientMemory(
            f"The worker was killed during {stage}, most likely because this machine's memory"
            " ran out.",
            hint="Take a smaller size or batch, or a smaller model.",
        )
    return RunFailed(
        f"The worker ended during {stage}.",
        hint=remedy(said) or "The cause lies below Python: the report has its stack.",
    )


def _causes(outcome: Died | Hung) -> list[Exception]:
    causes: list[Exception] = [Ended(outcome.reason)]
    if said := last_words(outcome.output):
        causes.append(LastWords(said))
    if frames := innermost(outcome.stacks.python):
        causes.append(Stood("; ".join(frames)))
    return causes


def _told(outcome: Died | Hung) -> dict[str, Any]:
    found = {
        "reason": outcome.reason,
        "signal": getattr(outcome, "signal", None),
        "exit_code": getattr(outcome, "exit_code", None),
        "python": outcome.stacks.python,
        "native": outcome.stacks.native or outcome.stacks.reason,
        "stderr": outcome.output.stderr[-_OUTPUT:].decode("utf-8", "replace"),
        "left": list(outcome.left),
    }
    return {name: value for name, value in found.items() if value not in (None, "", [])}
