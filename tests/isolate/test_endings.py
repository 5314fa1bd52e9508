"""How a child ended is told apart, and with what evidence."""

from __future__ import annotations

import os
import signal

import pytest
from tests.isolate import misbehaving
from tests.isolate.conftest import PATIENT, eventually, is_alive

from jumar.contracts.errors import DeadlineExceeded, RunFailed
from jumar.isolate import Child, Died, Hung, Returned, Zygote
from jumar.isolate.stacks import _py_spy

SHORT = 0.3  # for calls that never end: any limit will do


@pytest.mark.parametrize(
    ("how", "number"), [("segfault", signal.SIGSEGV), ("abort", signal.SIGABRT)]
)
def test_a_crash_names_its_signal_and_where_it_happened(
    child: Child, how: str, number: signal.Signals
) -> None:
    outcome = child.call((how,), deadline=PATIENT)
    assert isinstance(outcome, Died)
    assert (outcome.signal, outcome.exit_code) == (number, None)
    assert number.name in outcome.reason
    assert f"in {how}" in outcome.stacks.python
    assert not child.alive and not is_alive(child.pid)


@pytest.mark.parametrize("how", ["leave", "sys_exit"])
def test_an_exit_names_its_code(child: Child, how: str) -> None:
    outcome = child.call((how, 3), deadline=PATIENT)
    assert isinstance(outcome, Died)
    assert (outcome.signal, outcome.exit_code) == (None, 3)
    with pytest.raises(RunFailed, match="exit code 3"):
        outcome.result()


def test_a_child_that_goes_as_if_all_were_well_has_not_answered(child: Child) -> None:
    outcome = child.call(("leave", 0), deadline=PATIENT)
    assert isinstance(outcome, Died) and outcome.exit_code == 0
    with pytest.raises(RunFailed, match="exit code 0"):
        outcome.result()


def test_a_kill_from_outside_is_told_from_an_end_by_the_watchdog(child: Child) -> None:
    child.ready(deadline=PATIENT)
    os.kill(child.pid, signal.SIGKILL)
    outcome = child.call(("echo", 1), deadline=PATIENT)
    assert isinstance(outcome, Died) and outcome.signal == signal.SIGKILL


def test_a_dead_child_tells_how_it_died_to_every_later_call(child: Child) -> None:
    outcome = child.call(("leave", 4), deadline=PATIENT)
    assert child.call(("echo", 1), deadline=PATIENT) is outcome


def test_the_last_words_are_kept(child: Child) -> None:
    outcome = child.call(("say_and_die", "EZ9999: the device is gone"), deadline=PATIENT)
    assert isinstance(outcome, Died)
    assert outcome.output.stderr == b"EZ9999: the device is gone\n"
    with pytest.raises(RunFailed, match="It last wrote: EZ9999: the device is gone"):
        outcome.result()


def test_the_end_of_a_long_output_is_kept_and_the_rest_counted(zygote: Zygote) -> None:
    with zygote.spawn(misbehaving.obeying, keep=1000) as child:
        child.call(("write", 200_000, "0123456789"), deadline=PATIENT).result()
        output = child.output()
    assert output.stdout == b"0123456789" * 100
    assert output.stdout_dropped == 2_000_000 - 1000


def test_output_passes_through_where_asked(
    zygote: Zygote, capfd: pytest.CaptureFixture[str]
) -> None:
    with Zygote() as own:  # started now: it writes where this test's output goes
        with own.spawn(misbehaving.obeying, echo=True) as child:
            child.call(("print_line", "for all to see"), deadline=PATIENT)
        with own.spawn(misbehaving.obeying) as child:
            child.call(("print_line", "for the record"), deadline=PATIENT)
    assert capfd.readouterr().out == "for all to see\n"


@pytest.mark.parametrize(
    "how",
    ["loop_in_python", "hold_the_gil", "sleep_without_the_gil", "sleep_with_the_gil"],
)
def test_a_hang_is_ended_and_shows_where_it_stood(child: Child, how: str) -> None:
    child.ready(deadline=PATIENT)
    outcome = child.call((how,), deadline=SHORT)
    assert isinstance(outcome, Hung)
    assert (outcome.limit, outcome.seconds) == ("deadline", SHORT)
    assert f"in {how}" in outcome.stacks.python
    if how == "loop_in_python":
        assert "in where_it_loops" in outcome.stacks.python
    if not outcome.stacks.native:
        assert "py-spy" in outcome.stacks.reason
    assert not is_alive(child.pid)
    with pytest.raises(DeadlineExceeded):
        outcome.result()


@pytest.mark.skipif(_py_spy() is None, reason="py-spy is not installed")
def test_native_frames_of_a_hang_are_there_where_py_spy_may_look(child: Child) -> None:
    child.ready(deadline=PATIENT)
    outcome = child.call(("sleep_with_the_gil",), deadline=SHORT)
    assert isinstance(outcome, Hung)
    if outcome.stacks.reason:  # ptrace is forbidden in some containers; then it must say so
        assert outcome.stacks.reason.startswith("py-spy")
    else:
        assert "sleep_with_the_gil" in outcome.stacks.native


def test_without_py_spy_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    from jumar.isolate import stacks

    monkeypatch.setattr(stacks, "_py_spy", lambda: None)
    assert stacks._native(os.getpid()) == ("", "py-spy is not installed: pip install py-spy")


@pytest.mark.parametrize("how", ["stop_oneself", "ignore_sigterm"])
def test_one_that_does_not_listen_is_killed(child: Child, how: str) -> None:
    child.ready(deadline=PATIENT)
    assert isinstance(child.call((how,), deadline=SHORT), Hung)
    assert not is_alive(child.pid)


def test_no_progress_ends_a_child_whose_deadline_is_far(child: Child) -> None:
    child.ready(deadline=PATIENT)
    outcome = child.call(("progress_then_hang", 5), deadline=1000, heartbeat=2.0)
    assert isinstance(outcome, Hung)
    assert (outcome.limit, outcome.progress) == ("heartbeat", (5, 10))
    assert "in progress_then_hang" in outcome.stacks.python
    assert outcome.reason == "It made no progress for 2 s and was ended."


def test_progress_without_end_does_not_outlast_the_deadline(child: Child) -> None:
    child.ready(deadline=PATIENT)
    outcome = child.call(("progress_all_the_time",), deadline=SHORT, heartbeat=PATIENT)
    assert isinstance(outcome, Hung) and outcome.limit == "deadline"


def test_a_living_thread_beside_the_work_does_not_count_as_progress(child: Child) -> None:
    child.ready(deadline=PATIENT)
    outcome = child.call(("heartbeat_of_another_thread",), deadline=1000, heartbeat=SHORT)
    assert isinstance(outcome, Hung) and outcome.limit == "heartbeat"


def test_progress_keeps_a_child_alive_beyond_its_heartbeat(child: Child) -> None:
    child.ready(deadline=PATIENT)
    assert child.call(("progress_for", 3.0), deadline=PATIENT, heartbeat=2.0) == Returned("done")


@pytest.mark.parametrize("how", ["close_every_descriptor", "scribble_on_every_descriptor"])
def test_one_that_breaks_its_channel_is_ended_and_found_out(child: Child, how: str) -> None:
    child.ready(deadline=PATIENT)
    outcome = child.call((how,), deadline=PATIENT)
    assert isinstance(outcome, Died)
    assert (outcome.signal, outcome.exit_code) == (None, None)
    assert "channel" in outcome.reason
    assert not is_alive(child.pid)


def test_a_child_dies_with_its_guard(child: Child) -> None:
    outcome = child.call(("kill_the_guard",), deadline=PATIENT)
    assert isinstance(outcome, Died) and "guard" in outcome.reason
    assert eventually(lambda: not is_alive(child.pid))  # the kernel does it
