"""Who must multiply in linear layers: a rule by any of the names that torch has for it."""

from __future__ import annotations

import pytest

from jumar.operators.policy.base import Layer, Policy, Rule
from jumar.operators.policy.conditions import Condition
from jumar.operators.policy.taking import ties_products

HERE = {"device_class": "cpu"}


def policy(**rule: object) -> Policy:
    return Policy((Layer("user", (Rule(**{"key": "require", "providers": ("device",), **rule}),)),))


@pytest.mark.parametrize(
    "named",
    [
        {"operators": ("aten::addmm",)},
        {"operators": ("addmm",)},
        {"operators": ("aten::mm.out",)},
        {"operators": ("aten::add.Tensor", "aten::linear")},
        {"families": ("mm",)},
        {"families": ("aten::matmul",)},
    ],
)
def test_a_rule_that_says_who_must_compute_a_product_ties_it(named):
    assert ties_products(policy(**named), HERE)


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"operators": ("aten::add.Tensor",)},
        {"operators": ("rms_norm",)},
        {"operators": ("aten::addmm",), "key": "order"},
        {"operators": ("aten::addmm",), "when": (Condition("device_class", "npu-*"),)},
    ],
)
def test_other_rules_and_those_that_do_not_hold_here_tie_nothing(other):
    assert not ties_products(policy(**other), HERE)
