"""A recorded snapshot, with everything private taken out, leads to the same diagnosis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.host.doctor.broken_hosts import BROKEN, PURPOSES

from jumar.host import open_host, open_source
from jumar.host.doctor import Diagnosis, examine
from jumar.host.snapshot import snapshot

MakeHost = Callable[..., str]


def diagnose(host: str, rule: str) -> Diagnosis:
    return examine(open_host(host), PURPOSES.get(rule))  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", sorted(BROKEN))
def test_a_snapshot_keeps_what_each_rule_needs(
    rule: str, make_host: MakeHost, tmp_path: Path
) -> None:
    host = make_host(**BROKEN[rule]())
    archive = tmp_path / "out.tar.gz"
    snapshot(open_source(host), archive)
    seen, kept = diagnose(host, rule), diagnose(str(archive), rule)
    assert [f.id for f in kept.findings] == [f.id for f in seen.findings]
    assert kept.unseen == seen.unseen
