"""One implementation for each operator, and the line that decided."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.operators.policy.toy import bad, catalogue, policy, quarantine

from jumar.contracts.errors import InvalidValue, OperatorUnavailable
from jumar.operators.base import Override
from jumar.operators.catalogue.base import Implementation
from jumar.operators.policy.decide import Decisions, resolve

GEMS_FIRST = "order: [{providers: [flag_gems, device, reference]}]"
DENY_MM = "deny: [{families: [mm], providers: flag_gems, because: it hangs}]"


def decided(*texts: str, here: dict[str, str] | None = None, rules: object = None) -> Decisions:
    return resolve(policy(*texts), catalogue(), here or {}, rules or quarantine())  # type: ignore[arg-type]


def test_the_first_of_the_order_that_is_here_computes() -> None:
    decisions = decided(GEMS_FIRST)
    assert decisions.decide("aten::mm").override == Override("aten::mm", "flag_gems")
    assert decisions.decide("aten::gelu").implementation == "device"
    assert decisions.decide("rms_norm").implementation == "reference"


def test_without_a_policy_the_device_computes_and_layers_the_reference() -> None:
    assert decided().decide("aten::mm").implementation == "device"
    assert decided().decide("silu_and_mul").implementation == "reference"
    assert decided().decide("aten::mm").line.origin == "built in"


def test_deny_beats_order_and_names_its_line() -> None:
    decision = decided(GEMS_FIRST, DENY_MM).decide("aten::mm.out")
    assert decision.implementation == "device"
    excluded = {s.implementation: s for s in decision.steps if s.effect == "excluded"}
    assert str(excluded["flag_gems"]) == "denied: it hangs (second.yaml:1)"
    assert decided(GEMS_FIRST).decide("aten::mm.out").implementation == "flag_gems"


def test_quarantine_beats_the_policy() -> None:
    evidence = bad("aten::mm", "flag_gems", "hangs")
    decision = decided(GEMS_FIRST, rules=quarantine(evidence)).decide("aten::mm")
    assert decision.implementation == "device"
    assert f"in quarantine: hangs (evidence {evidence.id})" in map(str, decision.steps)


def test_quarantine_of_one_shape_counts_where_the_shape_is_not_known_or_is_that_one() -> None:
    rules = quarantine(bad("aten::mm", "flag_gems", shape_class="1x64", dtype="float32"))
    decide = decided(GEMS_FIRST, rules=rules).decide
    assert decide("aten::mm").implementation == "device"
    assert decide("aten::mm", shape_class="1x64").implementation == "device"
    assert decide("aten::mm", shape_class="8x64").implementation == "flag_gems"
    assert decide("aten::mm", dtype="bfloat16").implementation == "flag_gems"


def test_of_orders_the_later_layer_decides_and_within_one_the_narrower_rule() -> None:
    narrow = """
        order:
          - {operators: [aten::mm], providers: [reference]}
          - {families: [mm], providers: [flag_gems, reference]}
          - {providers: [device, reference]}
    """
    assert decided(narrow).decide("aten::mm").implementation == "reference"
    assert decided(narrow).decide("aten::mm.out").implementation == "flag_gems"
    assert decided(narrow).decide("aten::gelu").implementation == "device"
    later = decided(narrow, "order: [{providers: [device, reference]}]")
    assert later.decide("aten::mm").implementation == "device"
    assert later.decide("aten::mm").line.origin == "second.yaml:1"


def test_of_equal_orders_the_later_line_decides() -> None:
    twice = "order:\n  - providers: [flag_gems, reference]\n  - providers: [device, reference]\n"
    assert decided(twice).decide("aten::mm").line.origin == "first.yaml:3"


@pytest.mark.parametrize(
    ("here", "implementation"),
    [({"cann": "8.5.0"}, "device"), ({"cann": "9.0.0"}, "flag_gems"), ({}, "device")],
)
def test_a_denial_counts_where_its_condition_holds_or_is_not_known(
    here: dict[str, str], implementation: str
) -> None:
    deny = "deny: [{families: mm, providers: flag_gems, when: {cann: '8.5.*'}}]"
    assert decided(GEMS_FIRST, deny, here=here).decide("aten::mm").implementation == implementation


@pytest.mark.parametrize(
    ("here", "implementation"),
    [({"cann": "8.5.0"}, "reference"), ({"cann": "9.0.0"}, "device"), ({}, "device")],
)
def test_an_order_counts_only_where_its_condition_holds(
    here: dict[str, str], implementation: str
) -> None:
    order = "order: [{families: mm, providers: reference, when: {cann: '8.5.*'}}]"
    decision = decided(order, here=here).decide("aten::mm")
    assert decision.implementation == implementation
    idle = [step for step in decision.steps if step.effect == "idle"]
    assert bool(idle) is (implementation == "device")


def test_what_is_required_is_computed_by_that_provider_or_nothing_is_loaded() -> None:
    require = "require: [{operators: rms_norm, providers: torch_npu}]"
    assert decided(require).decide("rms_norm").implementation == "torch_npu"
    with pytest.raises(OperatorUnavailable) as refused:
        decided(require, rules=quarantine(bad("rms_norm", "torch_npu")))
    assert "torch_npu in quarantine: wrong" in refused.value.message
    with pytest.raises(OperatorUnavailable, match="silu_and_mul.*no implementation here"):
        decided("require: [{operators: silu_and_mul, providers: torch_npu}]")


def test_a_later_requirement_lifts_a_denial_and_an_equal_or_earlier_one_does_not() -> None:
    require = "require: [{families: mm, providers: flag_gems}]"
    decision = decided(DENY_MM, require).decide("aten::mm")
    assert decision.implementation == "flag_gems"
    assert [step.effect for step in decision.steps if step.effect == "lifted"] == ["lifted"]
    for texts in ((require, DENY_MM), (f"{require}\n{DENY_MM}",)):
        with pytest.raises(OperatorUnavailable, match="it hangs"):
            decided(*texts)


def test_where_nothing_is_left_the_error_says_why_of_each() -> None:
    decisions = decided(
        "strict: true\norder: [{providers: [flag_gems, device]}]",
        DENY_MM,
        rules=quarantine(bad("aten::mm", "device", "aborts")),
    )
    with pytest.raises(OperatorUnavailable) as refused:
        decisions.decide("aten::mm")
    for part in ("flag_gems denied: it hangs (second.yaml:1)", "device in quarantine: aborts",
                 "reference is not in the order"):  # fmt: skip
        assert part in refused.value.message


def test_where_what_is_required_cannot_be_had_the_error_names_the_line_that_requires_it() -> None:
    with pytest.raises(OperatorUnavailable) as refused:
        decided(
            "require: [{operators: [aten::mm], providers: device}]",
            rules=quarantine(bad("aten::mm", "device", "aborts")),
        )
    assert "reference is not what is required (first.yaml:1)" in refused.value.message
    assert "first.yaml:1" in str(refused.value.hint)


def test_an_order_without_the_reference_needs_a_strict_policy() -> None:
    order = "order: [{families: mm, providers: [device]}]"
    with pytest.raises(InvalidValue, match=r"first.yaml:1: the order of .* leaves the reference"):
        decided(order)
    assert decided(order, "strict: true").decide("aten::mm").implementation == "device"


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("deny: [{operators: aten::mn, providers: flag_gems}]", "'aten::mn'", "aten::mm"),
        ("deny: [{operators: pow, providers: flag_gems}]", "several", "aten::pow.Scalar"),
        ("deny: [{families: linaer, providers: flag_gems}]", "family 'linaer'", "linear"),
        ("deny: [{families: mm, providers: flaggems}]", "provider 'flaggems'", "flag_gems"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest(text: str, words: str, hint: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        decided(text)
    assert refused.value.message.startswith("first.yaml:1: ")
    assert words in refused.value.message
    assert hint in (refused.value.hint or "")


def test_one_overload_can_be_denied_alone() -> None:
    decisions = decided(GEMS_FIRST, "deny: [{operators: aten::mm, providers: flag_gems}]")
    assert decisions.decide("aten::mm").implementation == "device"
    assert decisions.decide("aten::mm.out").implementation == "flag_gems"


def test_a_rule_without_operators_speaks_of_every_one() -> None:
    decisions = decided(GEMS_FIRST, "deny: [{providers: flag_gems}]")
    assert decisions.decide("aten::mm").implementation == "device"
    assert decisions.decide("aten::linear").implementation == "device"


def test_on_an_npu_torch_npu_is_the_devices_own_kernel_and_leaves_with_it() -> None:
    known = catalogue()
    own = Implementation("aten::gelu", "torch_npu", "", "PrivateUse1", "torch_npu")
    known = replace(known, implementations=(*known.implementations, own))
    order = policy("order: [{providers: [device, torch_npu, reference]}]")
    npu, rules = {"device_class": "npu"}, quarantine(bad("aten::gelu", "device"))
    assert resolve(order, known, npu, quarantine()).decide("aten::gelu").implementation == "device"
    assert resolve(order, known, npu, rules).decide("aten::gelu").order == ("reference",)
    deny = policy("deny: [{operators: aten::gelu, providers: torch_npu}]")
    assert resolve(deny, known, npu, quarantine()).decide("aten::gelu").order == ("reference",)
    assert resolve(deny, known, {}, quarantine()).decide("aten::gelu").implementation == "device"


def test_what_is_permitted_after_the_first_is_told_in_order() -> None:
    assert decided(GEMS_FIRST).order("aten::mm") == ("flag_gems", "device", "reference")
    assert decided(GEMS_FIRST, DENY_MM).order("aten::mm") == ("device", "reference")
