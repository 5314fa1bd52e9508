"""What is not known is said, never guessed: any part of the facts may be missing."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.host.ascend_hosts import LINES, healthy, inside
from tests.host.doctor.broken_hosts import BROKEN
from tests.host.recorded import make_host

from jumar.host import open_host
from jumar.host.doctor import examine
from jumar.host.doctor.rules import rules
from jumar.host.facts import HostFacts

KEPT = {"source", "unseen", "unread"}
PARTS = [field.name for field in fields(HostFacts) if field.name not in KEPT]
EMPTY = HostFacts()
ENTRIES = st.text(alphabet="0123456789,- vxdnpu:", max_size=12)


@cache
def facts_of(line: str, place: str) -> HostFacts:
    with TemporaryDirectory() as folder:
        spec = healthy(line)
        spec = inside(spec, privileged=line == "950") if place == "container" else spec
        return open_host(make_host(Path(folder), **spec))


@cache
def broken_facts(rule: str) -> HostFacts:
    with TemporaryDirectory() as folder:
        return open_host(make_host(Path(folder), **BROKEN[rule]()))


def hide(facts: HostFacts, parts: set[str]) -> HostFacts:
    """The same host where some parts could not be looked at."""
    gone: dict[str, Any] = {part: getattr(EMPTY, part) for part in parts}
    return replace(facts, **gone, unseen=dict.fromkeys(parts, "not recorded"))


@settings(max_examples=60, deadline=None)
@given(
    line=st.sampled_from(sorted(LINES)),
    place=st.sampled_from(["host", "container"]),
    hidden=st.sets(st.sampled_from(PARTS)),
)
def test_hidden_parts_make_no_crash_no_false_error_and_are_named(
    line: str, place: str, hidden: set[str]
) -> None:
    diagnosis = examine(hide(facts_of(line, place), hidden), "vllm")
    wrong = [f.id for f in diagnosis.findings if f.severity == "error"]
    assert wrong == [], (wrong, hidden)
    left_out = {rule for gap in diagnosis.unseen for rule in gap.rules}
    for rule in rules():
        if rule.purposes in ((), ("vllm",)) and {n.split(".")[0] for n in rule.needs} & hidden:
            assert rule.id in left_out


@settings(max_examples=40, deadline=None)
@given(rule=st.sampled_from(sorted(BROKEN)), hidden=st.sets(st.sampled_from(PARTS)))
def test_a_broken_host_seen_in_part_makes_no_crash(rule: str, hidden: set[str]) -> None:
    diagnosis = examine(hide(broken_facts(rule), hidden), "serve")
    for root in diagnosis.findings:
        for finding in root.walk():
            assert finding.evidence("en") and finding.evidence("zh") and finding.fix("zh")
    if "environ" in hidden:
        assert "environ" in {gap.what for gap in diagnosis.unseen}


@settings(max_examples=150, deadline=None)
@given(value=ENTRIES)
def test_any_device_list_is_either_plain_or_complained_about(value: str) -> None:
    facts = facts_of("310p", "container")
    environ = {**facts.environ, "ASCEND_RT_VISIBLE_DEVICES": value}
    diagnosis = examine(replace(facts, environ=environ))
    complaints = {f.id for f in diagnosis.findings if f.id.startswith("visible-")}
    parts = value.split(",")
    plain = all(part.isdecimal() and int(part) < 8 for part in parts)
    ascending = plain and [int(p) for p in parts] == sorted({int(p) for p in parts})
    assert (complaints == set()) == ascending


@pytest.mark.parametrize("line", LINES)
def test_nothing_known_at_all_is_said_for_every_need(line: str) -> None:
    diagnosis = examine(hide(facts_of(line, "host"), set(PARTS)), "vllm")
    assert [f.id for f in diagnosis.findings] == []
    assert diagnosis.looked == 0 or all(not rule.needs for rule in rules()[: diagnosis.looked])
