"""`--isolate`: a hang or an abort leaves a report, and Ctrl-C is heard whatever the model does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Shell
from tests.support import toy

ROOT = Path(__file__).parents[2]
LINE = ("generate", "--model", "toy", "--isolate", "on", "--prompt")


def test_an_abort_is_told_with_its_report(run: Shell) -> None:
    assert run(*LINE, "abort").code == 1
    told = run.err.splitlines()
    assert told[0] == "error[run_failed]: The worker ended during speak."
    assert told[2].startswith("cause: Ended: It was killed by SIGABRT (Aborted).")
    (report,) = (run.folder / "jumar-out").glob("*.report.json")
    assert told[3] == f"report: jumar-out/{report.name}"


def test_a_hang_is_told_after_the_silence_that_is_allowed(run: Shell) -> None:
    assert run(*LINE, "stuck", "--heartbeat", "2").code == 1
    assert run.err.startswith("error[run_failed]: No sign of progress for 2 s during speak")


def test_a_silence_of_no_time_is_refused(run: Shell) -> None:
    assert run(*LINE, "x", "--heartbeat", "0").code == 2
    assert run.err.startswith("error[invalid_request]: Invalid value for '--heartbeat'")


@pytest.mark.parametrize(("isolate", "mode"), [("on", "isolated"), ("auto", "inline")])
def test_the_cpu_is_left_in_this_process_unless_it_is_asked_for(
    isolate: str, mode: str, run: Shell
) -> None:
    run("generate", "--model", "toy", "--isolate", isolate, "--prompt", "x", "--json")
    assert run.json["metadata"]["execution_mode"] == mode


@pytest.mark.parametrize("where", ["load", "speak"])
def test_ctrl_c_is_heard_while_the_model_does_not_listen(where: str, tmp_path: Path) -> None:
    toy.install(tmp_path)
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    if where == "load":
        environ["JUMAR_TOY_LOAD"] = "stuck"
    with subprocess.Popen(
        [sys.executable, "-m", "jumar", *LINE, "stuck", "--json"],
        cwd=tmp_path,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None and process.stdout is not None
        assert process.stderr.readline() == "It stands still.\n"
        process.send_signal(signal.SIGINT)
        result = json.loads(process.stdout.read())
    assert process.returncode == 130
    assert result["metadata"]["error_detail"]["code"] == "cancelled"
    assert f"during {where}" in result["metadata"]["error"]
