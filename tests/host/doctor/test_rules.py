"""Every rule has a host on which it fires, one on which it does not, and both languages."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

import click
import pytest
from tests.host.ascend_hosts import LINES, healthy, inside
from tests.host.doctor.broken_hosts import BROKEN, PURPOSES

from jumar.cli.app import COMMANDS, jumar
from jumar.host import open_host
from jumar.host.doctor import examine
from jumar.host.doctor.base import PURPOSES as ALL_PURPOSES
from jumar.host.doctor.base import SEVERITIES
from jumar.host.doctor.checks import CHECKS
from jumar.host.doctor.logs import log_rules
from jumar.host.doctor.rules import rules

MakeHost = Callable[..., str]
RULES = {rule.id: rule for rule in rules()}
EVERYTHING = {**RULES, **{rule.id: rule for rule in log_rules()}}
CHINESE = re.compile(r"[\u4e00-\u9fff]")
PLACEHOLDER = re.compile(r"\{[a-z_]*\}")
BY_THE_MODEL = {"--dtype"}
"""Flags that come from a model's manifest."""
TELLS_OF_THE_PRODUCT = {
    *("bf16-default", "chip-without-bf16", "compile-on-310p", "pooling-on-310p"),
    "id-spaces-differ",
}
"""Notes about a product, not faults: a healthy host of another line is their negative control."""


def findings(host: str, purpose: str | None = None) -> dict[str, object]:
    diagnosis = examine(open_host(host), purpose)  # type: ignore[arg-type]
    return {one.id: one for root in diagnosis.findings for one in root.walk()}


def test_rules_checks_and_broken_hosts_name_the_same_ids() -> None:
    assert set(RULES) == set(CHECKS) == set(BROKEN)
    assert len(RULES) == len(rules())
    assert len(EVERYTHING) == len(rules()) + len(log_rules())


@pytest.mark.parametrize("rule", sorted(RULES))
def test_each_rule_fires_on_the_host_that_has_its_fault(rule: str, make_host: MakeHost) -> None:
    found = findings(make_host(**BROKEN[rule]()), PURPOSES.get(rule))
    assert rule in found
    finding = found[rule]
    for lang in ("en", "zh"):
        said = [finding.title(lang), finding.cause(lang), *finding.evidence(lang)]
        said += finding.fix(lang)
        assert all(said), said
        assert not [text for text in said if PLACEHOLDER.search(text)], said
        assert "None" not in " ".join(said)


@pytest.mark.parametrize("rule", sorted(RULES))
def test_no_rule_fires_on_a_healthy_host(rule: str, make_host: MakeHost) -> None:
    line = "310b" if rule in ("bf16-default", "id-spaces-differ") else "910b"
    assert rule not in findings(make_host(**healthy(line)), PURPOSES.get(rule))


@pytest.mark.parametrize("purpose", [None, *ALL_PURPOSES])
@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("place", ["host", "container"])
def test_a_healthy_machine_has_nothing_above_a_note(
    place: str, line: str, purpose: str | None, make_host: MakeHost
) -> None:
    spec = healthy(line)
    if place == "container":
        spec = inside(spec, privileged=line == "950", shm_mb=16_384)
    diagnosis = examine(open_host(make_host(**spec)), purpose)  # type: ignore[arg-type]
    assert diagnosis.worst() in (None, "info")
    assert {root.id for root in diagnosis.findings} <= TELLS_OF_THE_PRODUCT
    assert diagnosis.unseen == ()


@pytest.mark.parametrize("rule", sorted(EVERYTHING))
def test_each_row_is_whole_and_bilingual(rule: str) -> None:
    row = EVERYTHING[rule]
    assert row.severity in SEVERITIES
    assert row.fix
    texts = [row.title, row.cause, *(step.say for step in row.fix if step.say is not None)]
    for text in texts:
        assert text.en and CHINESE.search(text.zh), text
        assert not CHINESE.search(text.en), text
    for reference in row.reference:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", reference)


def test_after_names_rules_that_exist_and_never_goes_in_a_circle() -> None:
    for row in EVERYTHING.values():
        assert set(row.after) <= {*EVERYTHING, "*"}, row.id

    def above(rule: str, path: tuple[str, ...] = ()) -> None:
        assert rule not in path, (rule, path)
        for cause in EVERYTHING[rule].after:
            if cause != "*":
                above(cause, (*path, rule))

    for rule in EVERYTHING:
        above(rule)


def test_fixes_name_only_commands_and_options_that_jumar_has() -> None:
    group = click.Context(jumar)
    commands = [
        (row.id, step.run.split(" -- ")[0].split()[1:])
        for row in EVERYTHING.values()
        for step in row.fix
        if step.run is not None and step.run.startswith("jumar ")
    ]
    assert len(commands) > 10
    for rule, (name, *words) in commands:
        assert name in COMMANDS, rule
        command = jumar.get_command(group, name)
        if isinstance(command, click.Group):
            command = command.commands[words[0]]
        assert command is not None
        known = {option for param in command.params for option in param.opts}
        used = {word for word in words if word.startswith("--")} - BY_THE_MODEL
        assert used <= known, (rule, used - known)


def test_every_fix_is_something_that_a_shell_reads(make_host: MakeHost) -> None:
    fixes = {}
    for rule in sorted(RULES):
        finding = findings(make_host(**BROKEN[rule]()), PURPOSES.get(rule))[rule]
        for lang in ("en", "zh"):
            fixes[rule, lang] = finding.fix(lang)  # type: ignore[attr-defined]
    for row in log_rules():
        fixes[row.id, "en"] = [step.run for step in row.fix if step.run is not None]
    script = "\n".join(f"# {name}\n" + "\n".join(lines) for name, lines in fixes.items())
    read = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (read.returncode, read.stderr) == (0, "")
    broken = subprocess.run(["bash", "-n"], input="echo 'x", text=True, capture_output=True)
    assert broken.returncode != 0  # Positive control.


@pytest.mark.parametrize("rule", ["uid-without-passwd", "work-path-not-writable"])
def test_what_only_matters_to_an_npu_is_not_said_without_one(
    rule: str, make_host: MakeHost
) -> None:
    about = {"user": None, "uid": 4711, "cwd_writable": False, "cwd": "/usr/bin"}
    assert rule not in findings(make_host(process=about))
    assert rule in findings(make_host(**{**healthy(), "process": about}))


def test_memory_of_a_card_that_the_process_table_passes_over_is_told(make_host: MakeHost) -> None:
    host = make_host(npu_smi="npu-smi-info__950PRx3__25.7.rc1__alarm__procs.txt", complete=False)
    finding = findings(host)["memory-held-without-process"]
    assert [line.split(":")[0] for line in finding.evidence("en")] == [  # type: ignore[attr-defined]
        "NPU 0 chip 0",
        "NPU 1 chip 0",
    ]
    without_table = "npu-smi-info__310P3x8__25.5.1__all-dash-separators__no-process-table.txt"
    assert "memory-held-without-process" not in findings(
        make_host(npu_smi=without_table, complete=False)
    )
