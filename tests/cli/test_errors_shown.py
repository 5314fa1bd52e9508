"""What a user sees when something goes wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Shell

import jumar.catalog
from jumar.cli import app, main
from jumar.cli.errors import exit_code_for
from jumar.contracts.errors import JumarError


def kinds(kind: type[JumarError] = JumarError) -> list[type[JumarError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in kinds(child))]


def break_catalog(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def rows(tier: str | None = None) -> None:
        raise error

    monkeypatch.setattr(jumar.catalog, "rows", rows)


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.code)
def test_every_error_shows_its_code_message_hint_and_cause_and_exits_with_its_code(
    kind: type[JumarError], run: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = kind("It went wrong.", hint="Do this.")
    error.__cause__ = OSError("disk")
    break_catalog(monkeypatch, error)
    assert run("models").code == kind.exit_code
    assert run.out == ""
    assert run.err.splitlines() == [
        f"error[{kind.code}]: It went wrong.",
        "hint: Do this.",
        "cause: OSError: disk",
    ]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.code)
def test_a_code_in_a_report_has_the_exit_code_of_its_error(kind: type[JumarError]) -> None:
    assert exit_code_for(kind.code) == kind.exit_code


def test_a_code_of_a_later_version_is_a_failed_run() -> None:
    assert exit_code_for("quantum_decoherence") == 1


def test_with_json_the_envelope_is_all_there_is(
    run: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = JumarError("It went wrong.", hint="Do this.", param="x")
    break_catalog(monkeypatch, error)
    assert run("models", "--json").code == 1
    assert run.json == error.envelope()
    assert run.err == ""


def test_a_fault_of_jumar_shows_no_traceback_but_says_how_to_get_one(
    run: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_catalog(monkeypatch, KeyError("lost"))
    assert run("models").code == 1
    assert run.err.splitlines() == [
        "error[internal_error]: Unexpected KeyError.",
        "hint: This is a fault of Jumar. The same command with --debug shows the traceback.",
        "cause: KeyError: 'lost'",
    ]


@pytest.mark.parametrize("line", [("--debug", "models"), ("models", "--debug")])
def test_debug_shows_the_traceback_wherever_it_stands(
    line: tuple[str, ...], run: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_catalog(monkeypatch, KeyError("lost"))
    assert run(*line).code == 1
    assert "Traceback (most recent call last)" in run.err
    assert "in break_catalog" not in run.err
    assert "in rows" in run.err


def test_the_environment_can_ask_for_the_traceback_too(
    run: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_catalog(monkeypatch, KeyError("lost"))
    monkeypatch.setenv("JUMAR_DEBUG", "1")
    assert "in rows" in run("models").err
    monkeypatch.setenv("JUMAR_DEBUG", "0")
    assert "in rows" not in run("models").err


def test_ctrl_c_outside_a_run_is_no_traceback(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    break_catalog(monkeypatch, KeyboardInterrupt())
    assert run("models").code == 130
    assert run.err.strip() == "error[cancelled]: Stopped."


def test_a_reader_that_goes_away_is_no_error() -> None:
    line = f"{sys.executable} -m jumar models --json | true"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("buffered", [True, False], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("line", ["models", "models --json", "models nowhere --json"])
def test_output_that_cannot_be_written_is_told_on_stderr(line: str, buffered: bool) -> None:
    shell = f"{sys.executable} -m jumar {line} > /dev/full"
    environ = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, env=environ)
    assert done.returncode == 4
    assert done.stderr.splitlines()[0] == (
        "error[output_failed]: Cannot write the output: No space left on device."
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_is_no_error(closed: str) -> None:
    shell = f"{sys.executable} -m jumar models {closed}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_while_the_command_line_is_imported_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(argv: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(app.jumar, "main", interrupted)
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 130


def test_an_output_that_lacks_a_letter_is_told_with_the_way_out(
    run: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_catalog(monkeypatch, UnicodeEncodeError("ascii", "ok \u2713", 3, 4, "not in range"))
    assert run("models").code == 4
    assert run.err.splitlines() == [
        "error[output_failed]: The output is in ascii, which has no '\u2713'.",
        "hint: Set PYTHONIOENCODING=utf-8.",
    ]
