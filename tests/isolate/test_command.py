"""Any program, watched alike."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
from tests.isolate.conftest import PATIENT, eventually, is_alive

from jumar.contracts.errors import (
    DeadlineExceeded,
    DependencyMissing,
    InvalidValue,
    RunFailed,
)
from jumar.isolate import Command, Died, Hung, Output, Returned, run

SHORT = 0.5


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_command_that_ends_well_gives_its_output() -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr)"
    assert run(python(code), deadline=PATIENT) == Returned(Output(b"out\n", b"err\n"))


def test_it_reads_what_it_is_given_in_its_folder_and_environment(tmp_path: Path) -> None:
    code = "import os, sys; print(sys.stdin.read(), os.getcwd(), os.environ['VOICE'])"
    done = run(
        python(code), stdin=b"x" * 200_000, cwd=tmp_path, env={"VOICE": "a"}, keep=1 << 20
    ).result()
    assert done.stdout.decode() == f"{'x' * 200_000} {tmp_path} a\n"


def test_an_exit_code_is_an_ending_with_the_last_words() -> None:
    outcome = run(["sh", "-c", "echo no licence >&2; exit 7"], deadline=PATIENT)
    assert isinstance(outcome, Died)
    assert (outcome.exit_code, outcome.signal) == (7, None)
    with pytest.raises(RunFailed, match=r"exit code 7\. It last wrote: no licence"):
        outcome.result()


def test_a_signal_is_told_from_an_exit_code() -> None:
    outcome = run(["sh", "-c", "kill -11 $$"], deadline=PATIENT)
    assert isinstance(outcome, Died) and (outcome.exit_code, outcome.signal) == (None, 11)


def test_a_deadline_ends_it_with_everything_it_started(tmp_path: Path) -> None:
    note = tmp_path / "note"
    script = f"(setsid sleep 1000 & echo $! > {note}.new; mv {note}.new {note}); sleep 1000"
    with Command(["sh", "-c", script]) as command:
        assert eventually(note.exists)
        outcome = command.wait(deadline=SHORT)
    assert isinstance(outcome, Hung) and outcome.limit == "deadline"
    assert not is_alive(int(note.read_text())) and not is_alive(command.pid)


def test_silence_ends_it_and_output_keeps_it_alive() -> None:
    talking = "for i in 1 2 3 4 5 6 7; do echo $i; sleep 0.5; done"
    assert isinstance(run(["sh", "-c", talking], heartbeat=3.0, deadline=PATIENT), Returned)
    outcome = run(["sh", "-c", "echo once; sleep 1000"], heartbeat=SHORT, deadline=PATIENT)
    assert isinstance(outcome, Hung)
    assert (outcome.limit, outcome.output.stdout) == ("heartbeat", b"once\n")


def test_a_python_program_that_hangs_shows_its_stack_where_py_spy_may_look() -> None:
    code = "import time\ndef stuck(): time.sleep(1000)\nprint(1, flush=True); stuck()"
    with Command(python(code)) as command:
        assert eventually(lambda: command.output().stdout)
        outcome = command.wait(deadline=SHORT)
    assert isinstance(outcome, Hung)
    assert outcome.stacks.reason or "stuck" in outcome.stacks.native


def test_a_program_without_python_says_why_it_has_no_stack() -> None:
    outcome = run(["sleep", "1000"], deadline=SHORT)
    assert isinstance(outcome, Hung) and outcome.stacks.python == ""
    assert outcome.stacks.native or outcome.stacks.reason.startswith("py-spy")


def test_a_flood_of_output_is_bounded() -> None:
    outcome = run(["sh", "-c", "yes 123456789 | head -c 20000000"], deadline=PATIENT, keep=100)
    assert isinstance(outcome, Returned)
    assert outcome.value.stdout == b"123456789\n" * 10
    assert outcome.value.stdout_dropped == 20_000_000 - 100


def test_closing_from_another_thread_ends_the_wait() -> None:
    with Command(["sleep", "1000"]) as command:
        closer = threading.Timer(0.2, command.close)
        closer.start()
        outcome = command.wait(deadline=PATIENT)
        closer.join()
    assert isinstance(outcome, Died) and "closed" in outcome.reason


def test_what_cannot_be_run_is_refused_before(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no program")
    with pytest.raises(InvalidValue):
        run([])
    with pytest.raises(DependencyMissing, match="no-such-program"):
        run(["no-such-program"])
    with pytest.raises(DependencyMissing, match="notes.txt"):
        run([str(tmp_path / "notes.txt")])
    with pytest.raises(InvalidValue, match="no folder"):
        run(["true"], cwd=tmp_path / "nowhere")
    with pytest.raises(DeadlineExceeded):
        run(["true"], deadline=0)


def test_a_file_that_only_looks_like_a_program_ends_as_in_a_shell(tmp_path: Path) -> None:
    fake = tmp_path / "fake"
    fake.write_bytes(b"\x7fELF nonsense")
    fake.chmod(0o755)
    outcome = run([str(fake)], deadline=PATIENT)
    assert isinstance(outcome, Died) and outcome.exit_code == 126
    assert b"Exec format error" in outcome.output.stderr
