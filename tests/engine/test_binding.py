"""A rule of the policy is followed when a model is loaded, or the user is told that it is not."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from jumar.contracts.errors import OperatorUnavailable
from jumar.devices import place
from jumar.engine.binding import bind_operators
from jumar.engine.seat import Seat
from jumar.engine.steps import _has_rules

CPU = {"device_class": "cpu", "cann": "8.5.0"}


@pytest.fixture
def bind(tmp_path, monkeypatch):
    """What is told of a policy on the CPU, and what it binds there."""
    monkeypatch.setenv("JUMAR_EVIDENCE", str(tmp_path))
    monkeypatch.delenv("JUMAR_OPERATORS_DENY", raising=False)

    def bind(rules: str, strongest: str = "") -> tuple[list[str], dict[str, str]]:
        (tmp_path / "mine.yaml").write_text(rules)
        monkeypatch.setenv("JUMAR_OPERATOR_POLICY", str(tmp_path / "mine.yaml"))
        monkeypatch.setenv("JUMAR_OPERATOR_RULES", strongest)
        seat = Seat(fingerprint=CPU)
        with ExitStack() as until:
            return bind_operators(seat, place("cpu"), until), seat.operators.bound

    return bind


EVERYTHING = "order: [{providers: [flag_gems, reference]}]"


def test_an_order_of_every_operator_is_told_to_be_not_followed(bind):
    ((told,), bound) = bind(EVERYTHING)
    assert told.startswith(
        "mine.yaml:1: order of every operator: flag_gems, reference: not followed"
    )
    assert bound == {}


@pytest.mark.parametrize(
    ("rules", "strongest"),
    [
        ("{}", ""),
        ("order: [{providers: [device, flag_gems, reference]}]", ""),
        ("order: [{providers: [flag_gems, reference], when: {cann: '9.*'}}]", ""),
        ("order: [{providers: [flag_gems, reference], when: {driver: '25.*'}}]", ""),
        (EVERYTHING, "order: [{providers: [device, reference]}]"),
        ("deny: [{providers: flag_gems}]", ""),
        ("deny: [{providers: device, when: {cann: '9.*'}}]", ""),
    ],
)
def test_nothing_is_told_where_the_device_is_what_the_policy_asks_for(bind, rules, strongest):
    assert bind(rules, strongest) == ([], {})


@pytest.mark.parametrize(
    "rules",
    [
        "deny: [{providers: device}]",
        "deny: [{providers: device, when: {driver: '25.*'}}]",
        "require: [{providers: flag_gems}]",
    ],
)
def test_a_rule_that_takes_everything_from_the_device_is_refused_by_its_line(bind, rules):
    with pytest.raises(OperatorUnavailable, match=r"^mine\.yaml:1: .* every operator") as refused:
        bind(rules)
    assert "families" in str(refused.value.hint)


def test_an_order_of_layer_operators_is_told_to_be_not_followed(bind):
    rules = "order: [{operators: [silu_and_mul], providers: [flag_gems, reference]}]"
    ((told,), bound) = bind(rules)
    assert "silu_and_mul" in told
    assert "no layer operators" in told
    assert bound == {}


@pytest.mark.parametrize("key", ["order", "require"])
@pytest.mark.parametrize("about", ["", "operators: [aten::tanh], "])
def test_the_reference_is_what_the_cpu_has_by_itself(bind, key, about):
    assert bind(f"{key}: [{{{about}providers: [reference]}}]") == ([], {})


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("require: [{operators: [mm], providers: flag_gems}]", "flag_gems has no implementation"),
        ("deny: [{operators: [aten::tanh], providers: device}]", "device denied"),
    ],
)
def test_what_a_model_cannot_be_bound_to_is_refused(bind, rules, why):
    with pytest.raises(OperatorUnavailable, match=why):
        bind(rules)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("require: [{operators: [aten::addmm], providers: [device]}]", True),
        ("require: [{operators: [aten::tanh], providers: [device]}]", False),
        ("{}", False),
    ],
)
def test_who_must_compute_a_product_is_said_where_the_model_is_bound(bind, rules, said):
    assert bind(rules) == ([], {})
    assert _has_rules(Seat(fingerprint=CPU), place("cpu")) is said
