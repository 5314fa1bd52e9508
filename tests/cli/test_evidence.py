"""`jumar evidence` and `jumar quarantine`, as a user reads them."""

from __future__ import annotations

import pytest

from jumar.cli.bisect.model import fingerprint
from jumar.evidence import Evidence, Store, Subject, quarantine

SCRIPT = "print('it is wrong')\n"


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("JUMAR_EVIDENCE", str(tmp_path))
    return Store()


@pytest.fixture(scope="module")
def here():
    return fingerprint("cpu")


def evidence(here, **changes):
    given = {
        "subject": Subject(operator="aten::gelu", implementation="device", dtype="float32"),
        "fingerprint": here,
        "verdict": "wrong",
        "reason": "3 of 4 elements are off",
        "layer": "BertModel.encoder",
        "found_by": "shadow",
        "reproducer": SCRIPT,
        "at": 1.0,
    }
    return Evidence(**{**given, **changes})


def test_evidence_is_listed_and_can_be_narrowed(run, store, here):
    right = evidence(
        here, verdict="correct", subject=Subject(operator="aten::mm", implementation="device")
    )
    for one in (evidence(here), right):
        store.add(one)
    assert {one["id"] for one in run("evidence", "list", "--json").json} == {
        evidence(here).id,
        right.id,
    }
    assert "aten::mm" not in run("evidence", "list", "--bad").out
    assert "aten::gelu" not in run("evidence", "list", "--op", "mm").out
    assert "no such evidence" in run("evidence", "list", "--op", "add").out


def test_a_record_is_shown_whole_or_as_its_script(run, store, here):
    one = evidence(here)
    store.add(one)
    shown = run("evidence", "show", one.id[:5]).out
    for said in ("aten::gelu by device", "wrong: 3 of 4", "BertModel.encoder", "shadow", "cpu"):
        assert said in shown
    assert run("evidence", "show", one.id, "--script").out == SCRIPT
    assert run("evidence", "show", one.id, "--json").json["layer"] == one.layer


def test_a_record_without_script_says_so(run, store, here):
    one = evidence(here, reproducer=None)
    store.add(one)
    done = run("evidence", "show", one.id, "--script")
    assert done.code == 2
    assert "no script" in done.err


def test_rules_in_force_and_expired_ones_with_what_changed(run, store, here):
    old = evidence({**here, "torch": "1.0"}, subject=Subject(operator="x", implementation="device"))
    for one in (evidence(here), old):
        store.add(one)
    shown = run("quarantine", "list", "--device", "cpu").out
    assert "cpu: 1 in quarantine" in shown
    assert "cpu: 1 expired" in shown
    assert "torch 1.0 -> " in shown
    data = run("quarantine", "list", "--device", "cpu", "--json").json["cpu"]
    assert [one["id"] for one in data["rules"]] == [evidence(here).id]
    assert data["expired"][0]["changed"]["torch"][0] == "1.0"


def test_a_lift_needs_a_reason_and_leaves_it_as_evidence(run, store, here):
    one = evidence(here)
    store.add(one)
    assert run("quarantine", "lift", one.id).code == 2
    assert run("quarantine", "lift", one.id, "--because", " ").code == 2
    assert quarantine(store, here).rules
    done = run("quarantine", "lift", one.id, "--because", "a new build", "--by", "Ada")
    assert done.code == 0, done.err
    assert not quarantine(store, here).rules
    *_, lifted = store
    assert (lifted.reason, lifted.found_by) == ("Lifted by Ada: a new build", "hand")
    assert run("quarantine", "lift", one.id, "--because", "again").code == 2


def test_a_defect_that_is_found_after_a_lift_outweighs_it(run, store, here):
    one = evidence(here)
    store.add(one)
    run("quarantine", "lift", one.id, "--because", "a new build")
    *_, lifted = store
    store.add(evidence(here, at=lifted.at + 1))
    assert quarantine(store, here).rules


def test_rules_are_printed_as_the_lists_of_others(run, store, here):
    store.add(evidence(here))
    for form in ("jumar", "vllm-plugin-fl", "flag-gems"):
        done = run("quarantine", "export", "--to", form, "--device", "cpu")
        assert done.code == 0, done.err
        assert "gelu" in done.out
