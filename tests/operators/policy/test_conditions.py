"""What a rule may ask of the machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.contracts.errors import InvalidValue
from jumar.operators.policy.conditions import Condition, all_hold

NUMBERS = st.integers(0, 30)


@pytest.mark.parametrize(
    ("name", "text", "fingerprint", "expected"),
    [
        ("cann", "8.5.*", {"cann": "8.5.0"}, True),
        ("cann", "8.5.*", {"cann": "8.50.0"}, False),
        ("cann", "8.5.*", {"cann": "9.0.0"}, False),
        ("cann", ">=8.5,<9", {"cann": "8.5.1"}, True),
        ("cann", "8.5.*", {}, None),
        ("cann", "8.5.*", {"cann": "8.0.RC1.alpha003"}, None),
        ("torch_npu", "2.9.*", {"torch_npu": "2.9.0.post2"}, True),
        ("torch", "2.10.0", {"torch": "2.10.0+cpu"}, True),
        ("compiler", "triton-ascend==3.2.0", {"triton-ascend": "3.2.0"}, True),
        ("compiler", "triton-ascend==3.2.0", {"triton-ascend": "3.2.1"}, False),
        ("compiler", "triton-ascend==3.2.0", {"flagtree": "0.6.0"}, False),
        ("compiler", "triton-ascend==3.2.0", {"cann": "8.5.0"}, None),
        ("compiler", "flagtree", {"flagtree": "0.6.0+ascend3.2"}, True),
        ("chip", "910B*", {"chip": "Ascend910B4-1"}, True),
        ("chip", "910_93*", {"chip": "Ascend910_9391"}, True),
        ("chip", "910B*", {"chip": "Ascend310P3"}, False),
        ("device_class", "npu", {"device_class": "npu-emulated"}, False),
    ],
)
def test_a_condition_holds_does_not_or_is_not_known(
    name: str, text: str, fingerprint: dict[str, str], expected: bool | None
) -> None:
    assert Condition(name, text).holds(fingerprint) is expected


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_a_range_means_what_its_numbers_mean(major: int, minor: int, low: int, high: int) -> None:
    asked = Condition("cann", f">={low},<{high}")
    expected = (low, 0) <= (major, minor) < (high, 0)
    assert asked.holds({"cann": f"{major}.{minor}"}) is expected


def test_all_conditions_of_a_rule_have_to_hold() -> None:
    when = (Condition("cann", "8.5.*"), Condition("chip", "910B*"))
    assert all_hold(when, {"cann": "8.5.0", "chip": "910B4"}) is True
    assert all_hold(when, {"cann": "8.5.0"}) is None
    assert all_hold(when, {"cann": "9.0.0"}) is False
    assert all_hold((), {}) is True


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("can", "8.5.*", "cann"),
        ("cann", "around 8", None),
        ("compiler", "triton_ascendd==3.2.0", "triton-ascend"),
        ("compiler", "==3.2.0", None),
    ],
)
def test_a_condition_that_can_never_be_answered_is_refused(
    name: str, text: str, hint: str | None
) -> None:
    with pytest.raises(InvalidValue) as refused:
        Condition(name, text).check()
    assert hint is None or hint in (refused.value.hint or "")
