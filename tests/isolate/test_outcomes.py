"""Outcomes read well, and give a JumarError back as it was."""

from __future__ import annotations

import signal

import pytest

from jumar.contracts import errors
from jumar.contracts.errors import DeadlineExceeded, JumarError, RunFailed
from jumar.isolate import Died, Failure, Hung, Output, Raised, Returned
from jumar.isolate.messages import Report
from jumar.isolate.watched import died

TREE = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind is not object]
KINDS = [kind for kind in TREE if issubclass(kind, JumarError)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_of_the_tree_comes_back_as_itself(kind: type[JumarError]) -> None:
    error = kind("It did not work.", hint="Do this.", param="steps")
    error.__cause__ = ValueError("deep")
    error.__cause__.__cause__ = KeyError("deeper")
    back = Failure.of(error).error()
    assert type(back) is kind
    assert (back.detail(), back.param) == (error.detail(), "steps")


def test_causes_in_a_circle_end() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert Failure.of(one).causes == (("ValueError", "two"),)


def test_each_outcome_has_a_result_or_raises() -> None:
    assert Returned(3).result() == 3
    with pytest.raises(RunFailed, match="made no progress for 5 s"):
        Hung("heartbeat", 5.0).result()
    with pytest.raises(DeadlineExceeded, match="not done after 0.5 s"):
        Hung("deadline", 0.5).result()
    with pytest.raises(RunFailed, match="ZeroDivisionError"):
        Raised(Failure("ZeroDivisionError", "", "")).result()
    with pytest.raises(RunFailed, match=r"^Gone\. It last wrote: bye$"):
        Died("Gone.", output=Output(b"out\n", b"oops\n bye \n\n")).result()


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (Report(status=signal.SIGSEGV), "It was killed by SIGSEGV (Segmentation fault)."),
        (
            Report(status=signal.SIGKILL, out_of_memory=True),
            "It was killed by SIGKILL (Killed), most likely because memory ran out.",
        ),
        (Report(status=signal.SIGRTMIN + 3), f"It was killed by signal {signal.SIGRTMIN + 3}."),
        (Report(status=3 << 8), "It ended with exit code 3."),
        (Report(status=signal.SIGTERM, ended=True), "It was closed."),
        (Report(), "Its guard was killed, and it with it."),
    ],
)
def test_every_end_has_a_sentence(report: Report, reason: str) -> None:
    assert died(report, "It was closed.").reason == reason
