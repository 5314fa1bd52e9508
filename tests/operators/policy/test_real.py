"""The policy that is shipped, and real lists of others, against what FlagGems really registers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.operators.catalogue.peers import FACTS, as_released
from tests.operators.policy.toy import lines_with, quarantine, written

from jumar.operators.catalogue import Catalogue, Implementation, live
from jumar.operators.policy.base import Policy
from jumar.operators.policy.decide import resolve
from jumar.operators.policy.files import platform_file, read_file
from jumar.operators.policy.layers import with_layers
from jumar.operators.policy.lint import lint

PEERS = Path(__file__).parent / "peers"
ASCEND = platform_file("npu")
REPEAT = "aten::repeat_interleave.Tensor"
GEMS_FIRST = "{order: [{providers: [flag_gems, device, reference]}]}"


NEWER = {"aten::linear": "linear", "aten::lift_fresh": "lift_fresh"}
"""What FlagGems 5.3.4 registers and 5.0.2 does not."""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    """This torch, and FlagGems' table as it was released."""
    found = live([as_released(tmp_path_factory.mktemp("released"))])
    return replace(found, versions={**found.versions, "flag_gems": FACTS["version"]})


def test_the_shipped_policy_does_what_it_says(real: Catalogue) -> None:
    assert ASCEND is not None
    findings = lint(ASCEND, real)
    assert [one for one in findings if one.severity != "note"] == []


def test_every_denial_that_is_shipped_names_its_reason_and_a_public_source() -> None:
    assert ASCEND is not None
    denials = [rule for rule in read_file(ASCEND).rules if rule.key == "deny"]
    assert len(denials) > 15
    for rule in denials:
        assert rule.because, rule.origin
        assert rule.sources, rule.origin
        assert all(one.startswith("https://github.com/") for one in rule.sources), rule.origin


@pytest.mark.parametrize(
    ("operator", "here", "implementation"),
    [
        ("aten::lift_fresh", {}, "device"),
        ("aten::cumsum.out", {"cann": "8.5.0", "torch_npu": "2.9.0"}, "device"),
        ("aten::pow.Scalar", {"triton-ascend": "3.2.0"}, "device"),
        ("aten::pow.Scalar", {"flagtree": "0.6.0+ascend3.2"}, "flag_gems"),
        ("aten::repeat_interleave.Tensor", {"cann": "8.5.0", "triton-ascend": "3.2.0"}, "device"),
        (
            "aten::repeat_interleave.Tensor",
            {"cann": "9.0.0", "triton-ascend": "3.2.0"},
            "flag_gems",
        ),
        ("aten::linear", {"chip": "Ascend910B4", "triton-ascend": "3.2.0"}, "device"),
        ("aten::linear", {"chip": "Ascend910B4", "flagtree": "0.6.0"}, "flag_gems"),
        ("aten::linear", {"chip": "Ascend910_9391", "flagtree": "0.6.0"}, "device"),
        ("aten::index_select", {"cann": "8.5.0"}, "device"),
        ("aten::index_select", {"cann": "9.0.0"}, "flag_gems"),
    ],
)
def test_whoever_puts_flag_gems_first_is_kept_from_what_is_known_to_fail(
    real: Catalogue, operator: str, here: dict[str, str], implementation: str
) -> None:
    assert ASCEND is not None
    policy = Policy((read_file(ASCEND), written(GEMS_FIRST)))
    fingerprint = {"device_class": "npu", **here}
    more = [Implementation(op, "flag_gems", name, "PrivateUse1", "") for op, name in NEWER.items()]
    newer = replace(real, implementations=(*real.implementations, *more))
    known = with_layers(newer, usable_only=False)
    decisions = resolve(policy, known, fingerprint, quarantine())
    assert decisions.decide(operator).implementation == implementation
    unguarded = resolve(Policy(policy.layers[-1:]), known, fingerprint, quarantine())
    assert unguarded.decide(operator).implementation == "flag_gems"


def test_the_plugins_list_for_ascend_has_the_dead_entries_that_were_counted_by_hand(
    real: Catalogue,
) -> None:
    findings = lint(PEERS / "ascend.yaml", real)
    assert {*lines_with("dead-entry", findings)} >= {
        "_to_copy", "bitwise_and", "_log_softmax", "chunk_gated_delta_rule_fwd", "reshape", "view",
        "tensor",
    }  # fmt: skip
    assert lines_with("wrong-list", findings) == ["silu_and_mul"]
    left = {one.entry: one.nearest for one in findings if one.code == "partial-cover"}
    assert left["mm"] == ("mm_out",)
    assert "addmm_out" in left["addmm"]


def test_the_plugins_file_for_metax_lists_operators_among_layer_classes(
    real: Catalogue,
) -> None:
    findings = lint(PEERS / "metax.yaml", real)
    assert lines_with("wrong-list", findings) == ["masked_fill", "masked_fill_"]
