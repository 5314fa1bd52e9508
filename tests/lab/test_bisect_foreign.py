"""A foreign command is bisected by the variable that it heeds."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from jumar.cli.app import jumar
from jumar.contracts.errors import DependencyMissing
from jumar.lab.bisect import bisect
from jumar.lab.foreign import Command
from jumar.operators.base import Override

NAMES = ["add", "gelu", "mm", "softmax"]
SCRIPT = "import os, sys; off = os.environ.get('DENY', '').split(','); "


def command(code: str, **options) -> Command:
    return Command(
        [sys.executable, "-S", "-c", SCRIPT + code], NAMES, "DENY", **{"limit": 20.0, **options}
    )


def on(*names: str) -> frozenset[Override]:
    return frozenset(Override(name, "device") for name in names)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("sys.exit('gelu' not in off)", "raises"),
        ("'gelu' in off or os.abort()", "aborts"),
        ("print('!!!!' if 'gelu' not in off else 'a cat')", "wrong"),
    ],
)
def test_the_guilty_name_is_found_by_how_the_command_ends(code, kind):
    check = command(code, expect="a cat" if kind == "wrong" else None)
    (culprit,) = bisect(check, check.overrides).culprits
    assert culprit.overrides == (Override("gelu", "device"),)
    assert culprit.verdict.kind == kind


def test_what_takes_longer_than_the_limit_hangs():
    verdict = command("import time; time.sleep(60)", limit=1.0)(on(*NAMES))
    assert verdict.kind == "hangs" and "1 s" in verdict.reason


def test_a_command_that_ran_out_of_memory_has_no_verdict():
    code = "sys.exit('torch.OutOfMemoryError: NPU out of memory')"
    assert command(code)(on(*NAMES)).kind == "out_of_memory"


def test_what_the_variable_holds_already_stays_there(monkeypatch):
    monkeypatch.setenv("DENY", "mine")
    check = command("sys.exit(off != ['mine', 'add', 'mm'])")
    assert check(on("gelu", "softmax")).ok
    assert check.line(["gelu"]).startswith("DENY=mine,gelu ")


def test_the_limit_follows_from_a_run_with_everything_off():
    assert command("sys.exit(set(off) != {'add', 'gelu', 'mm', 'softmax'})").measured().limit >= 5


def test_a_program_that_is_not_there_is_told():
    with pytest.raises(DependencyMissing):
        Command(["no-such-program"], NAMES, "DENY")(frozenset())


def invoked(tmp_path, *options: str, code: str):
    listed = tmp_path / "names"
    listed.write_text("# what can be switched\n" + "\n".join(NAMES) + "\n")
    line = ["bisect", "--operators", str(listed), "--deny-variable", "DENY", *options, "--"]
    return CliRunner().invoke(jumar, [*line, sys.executable, "-S", "-c", SCRIPT + code])


def test_the_command_line_names_a_pair_and_how_to_run_without_it(tmp_path):
    done = invoked(tmp_path, "--json", code="sys.exit(not {'add', 'mm'} & set(off))")
    told = json.loads(done.stdout)
    assert done.exit_code == 1
    (culprit,) = told["culprits"]
    assert {one["operator"] for one in culprit["overrides"]} == {"add", "mm"}
    shown = invoked(tmp_path, code="sys.exit(not {'add', 'mm'} & set(off))").stdout
    assert "without them: DENY=add,mm " in shown


def test_a_command_that_does_not_fail_is_exit_code_0(tmp_path):
    done = invoked(tmp_path, code="pass")
    assert done.exit_code == 0 and "Nothing fails" in done.stdout


def test_a_command_that_fails_with_everything_off_is_said_to_fail_elsewhere(tmp_path):
    done = invoked(tmp_path, code="sys.exit(3)")
    assert done.exit_code == 1 and "not in these operators" in done.stdout


def test_names_that_cannot_be_read_are_told(tmp_path):
    line = ["bisect", "--operators", str(tmp_path / "none"), "--", "true"]
    done = CliRunner().invoke(jumar, line)
    assert done.exit_code == 2 and "Cannot read the names" in done.stderr


@pytest.mark.parametrize(
    "line",
    [
        ["bisect", "--model", "all-minilm-l6-v2", "--", "true"],
        ["bisect", "--model", "all-minilm-l6-v2", "--expect", "a cat"],
    ],
)
def test_options_that_would_do_nothing_are_refused(line):
    done = CliRunner().invoke(jumar, line)
    assert done.exit_code == 2 and "belongs to a" in done.stderr
