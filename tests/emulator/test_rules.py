"""What a fault may say, and how its conditions are read."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.contracts.errors import InvalidValue, UnknownKey
from jumar.emulator.faults.reading import read_faults
from jumar.emulator.faults.rule import HOW, KINDS, Bound, Rule, bound, make_rule
from jumar.emulator.faults.texts import say, texts


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (3, Bound(3, 3)),
        ("3", Bound(3, 3)),
        (">=3", Bound(3, None)),
        ("<= 3", Bound(None, 3)),
        ("2-4", Bound(2, 4)),
        ("*", Bound()),
    ],
)
def test_a_bound_is_a_number_a_range_or_anything(written, read):
    assert bound(written, "calls") == read


@pytest.mark.parametrize("written", ["three", "", "-3", "3-", None, 1.5, [3]])
def test_anything_else_is_no_bound(written):
    with pytest.raises(InvalidValue, match="A fault's calls is"):
        bound(written, "calls")


@given(st.integers(0, 999), st.integers(0, 999), st.integers(0, 999))
def test_a_range_holds_what_lies_in_it(low, high, number):
    assert (number in bound(f"{low}-{high}", "calls")) == (low <= number <= high)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "delay"])
def test_an_operator_and_a_kind_are_enough(kind):
    assert make_rule({"op": "mm", "kind": kind}).kind == kind


@pytest.mark.parametrize(
    ("given_keys", "told"),
    [
        ({"op": "mm"}, "says no kind"),
        ({"kind": "raise"}, "says no op"),
        ({"op": "mm", "kind": "rise"}, "kind is 'rise'"),
        ({"op": "mm", "kind": "delay"}, "says no seconds"),
        ({"op": "mm", "kind": "delay", "seconds": -1}, "seconds is -1"),
        ({"op": "mm", "kind": "raise", "dtype": "float17"}, "dtype is 'float17'"),
        ({"op": "mm", "kind": "raise", "shape": 3}, "shape is 3"),
        ({"op": "mm", "kind": "raise", "device": "npu"}, "device is 'npu'"),
        ({"op": "mm", "kind": "wrong", "how": "very"}, "how is 'very'"),
        ({"op": "mm", "kind": "leak", "bytes": 0}, "bytes is 0"),
    ],
)
def test_a_fault_that_is_not_valid_says_what_is(given_keys, told):
    with pytest.raises(InvalidValue, match=told) as caught:
        make_rule(given_keys)
    assert caught.value.hint


def test_an_unknown_key_names_the_nearest():
    with pytest.raises(UnknownKey) as caught:
        make_rule({"op": "mm", "kind": "raise", "dtpye": "float16"})
    assert caught.value.hint == "Did you mean 'dtype'?"


def test_the_variable_holds_yaml_or_the_name_of_a_file(tmp_path):
    inline = read_faults(
        {"JUMAR_EMULATE_FAULTS": "[{op: mm, kind: raise}, {op: silu, kind: hang}]"}
    )
    assert [(one.op, one.kind) for one in inline] == [("mm", "raise"), ("silu", "hang")]
    headed = read_faults({"JUMAR_EMULATE_FAULTS": "faults: [{op: mm, kind: raise}]"})
    assert [(one.op, one.kind) for one in headed] == [("mm", "raise")]
    path = tmp_path / "faults.yaml"
    path.write_text("faults:\n  - op: mm\n    kind: wrong\n    how: lanes\n    calls: '>=2'\n")
    (one,) = read_faults({"JUMAR_EMULATE_FAULTS": str(path)})
    assert (one.how, one.calls) == ("lanes", Bound(2, None))
    assert read_faults({}) == read_faults({"JUMAR_EMULATE_FAULTS": " "}) == []


def test_texts_name_the_operator():
    assert say("graph-mode", "aten::silu.out") == (
        "graph mode init failed: operator silu is not supported by this CANN version"
    )
    assert "Op [NpuRmsNorm]" in say("compile-op", "npu::npu_rms_norm")
    assert say("my own words", "aten::mm") == "my own words"
    assert "507011" in say("507011", "aten::mm") and say("507011", "aten::mm") != "507011"
    assert all("{" not in say(name, "aten::mm") for name in texts())


def test_the_page_lists_every_kind_condition_and_text():
    page = Path("docs/emulator.md").read_text(encoding="utf-8")
    named = [*KINDS, *texts(), *HOW, *(one.name for one in fields(Rule))]
    assert [name for name in named if f"`{name}`" not in page] == []
