"""Quarantine follows from evidence and from nothing else."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.evidence import BAD, KINDS, Evidence, Subject, quarantine

HERE = {"device_class": "npu", "cann": "8.5.0", "torch": "2.13"}
NEWER = {**HERE, "cann": "8.6.0"}
CPU = {"device_class": "cpu", "torch": "2.13"}


def found(verdict, *, at=1.0, fingerprint=HERE, **subject):
    named = {"operator": "aten::mm", "implementation": "device", **subject}
    return Evidence(
        subject=Subject(**named),
        fingerprint=fingerprint,
        verdict=verdict,
        found_by="check",
        at=at,
    )


@pytest.mark.parametrize("verdict", KINDS)
def test_a_defect_is_a_rule_and_nothing_else_is(verdict):
    rules = quarantine([found(verdict)], HERE)
    assert bool(rules.deny("aten::mm", "device")) == (verdict in BAD)


def test_without_the_record_the_operator_is_allowed():
    assert quarantine([], HERE).deny("aten::mm", "device") is None
    rules = quarantine([found("wrong")], HERE)
    assert rules.deny("aten::mm", "flag_gems") is None
    assert rules.deny("aten::bmm", "device") is None


@given(st.permutations(["wrong", "correct", "hangs"]))
def test_the_newest_word_counts_in_whatever_order_records_are_read(order):
    records = [found(verdict, at=float(place)) for place, verdict in enumerate(order)]
    for shuffled in itertools.permutations(records):
        assert bool(quarantine(shuffled, HERE).rules) == (order[-1] != "correct")


@pytest.mark.parametrize("verdict", [kind for kind in KINDS if kind not in BAD])
def test_of_what_is_no_defect_only_correct_ends_a_rule(verdict):
    rules = quarantine([found("wrong"), found(verdict, at=2.0)], HERE).rules
    assert bool(rules) == (verdict != "correct")


@pytest.mark.parametrize("name", ["python", "transformers", "diffusers", "onnxruntime", "numpy"])
def test_a_library_that_computes_no_operator_ends_no_rule(name):
    then = found("wrong", fingerprint={**HERE, name: "1.0"})
    for now in (HERE, {**HERE, name: "2.0"}):
        assert quarantine([then], now).rules == (then,)
        assert quarantine([then, found("correct", at=2.0, fingerprint=now)], HERE).rules == ()


@given(st.sampled_from(["chip", "driver", "cann", "torch", "torch_npu", "triton-ascend", "new"]))
def test_everything_else_does(name):
    rules = quarantine([found("wrong", fingerprint={**HERE, name: "1"})], {**HERE, name: "2"})
    assert (rules.rules, rules.expired[0].changed) == ((), {name: ("1", "2")})


@pytest.mark.parametrize(
    ("implementation", "ends"),
    [("flag_gems", True), ("theirs", True), ("device", False), ("torch_npu", False)],
)
def test_another_flag_gems_ends_the_rules_about_flag_gems_only(implementation, ends):
    before = {**HERE, "flag_gems": "5.0.2"}
    record = found("wrong", fingerprint=before, implementation=implementation)
    now = quarantine([record], {**HERE, "flag_gems": "5.3.4"})
    assert now.rules == (() if ends else (record,))
    assert [one.changed for one in now.expired] == (
        [{"flag_gems": ("5.0.2", "5.3.4")}] if ends else []
    )


def test_what_was_lifted_before_the_change_is_not_listed_as_expired():
    assert quarantine([found("wrong"), found("correct", at=2.0)], NEWER).expired == ()


def test_another_fingerprint_ends_a_rule_and_says_what_changed():
    rules = quarantine([found("wrong")], NEWER)
    assert rules.rules == ()
    assert rules.expired[0].changed == {"cann": ("8.5.0", "8.6.0")}
    gone = quarantine([found("wrong")], {**HERE, "driver": "25.2"})
    assert gone.expired[0].changed == {"driver": (None, "25.2")}


def test_a_lift_on_another_fingerprint_lifts_nothing_here():
    records = [found("wrong"), found("correct", at=2.0, fingerprint=NEWER)]
    assert quarantine(records, HERE).rules


def test_device_classes_never_meet():
    emulated = {**HERE, "device_class": "npu-emulated"}
    for elsewhere in (CPU, emulated):
        rules = quarantine([found("wrong", fingerprint=elsewhere)], HERE)
        assert (rules.rules, rules.expired) == ((), ())


@pytest.mark.parametrize(
    ("rule", "asked", "denied"),
    [
        ({}, {"dtype": "float16", "shape_class": "4x4"}, True),
        ({"dtype": "float16"}, {"dtype": "float16"}, True),
        ({"dtype": "float16"}, {"dtype": "float32"}, False),
        ({"dtype": "float16"}, {}, True),
        ({"dtype": "float16", "shape_class": "4x4"}, {"dtype": "float16"}, True),
        ({"shape_class": "4x4"}, {"shape_class": "8x8"}, False),
        ({"shape_class": "4x4"}, {"shape_class": "4x4", "dtype": "float32"}, True),
    ],
)
def test_a_rule_denies_what_it_is_about(rule, asked, denied):
    rules = quarantine([found("wrong", **rule)], HERE)
    assert bool(rules.deny("aten::mm", "device", **asked)) == denied


def test_the_evidence_itself_is_the_answer():
    one = found("wrong", dtype="float16")
    rules = quarantine([one], HERE)
    assert rules.deny("aten::mm", "device") is not None
    assert rules.deny("aten::mm", "device").id == one.id
    assert rules.subjects() == [one.subject]


def test_the_query_still_has_its_name_after_its_module_was_imported():
    import jumar.evidence.rules
    from jumar.evidence import quarantine as query

    assert callable(query)
    assert query is jumar.evidence.rules.quarantine
