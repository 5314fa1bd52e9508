"""Which rules of a policy take operators of torch away from the device's own kernels, or tie them
to somebody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jumar.operators.policy.base import REFERENCE, Policy, Rule
from jumar.operators.policy.conditions import all_hold

DEVICE = "device"
_PRODUCTS = frozenset({"linear", "matmul", "mm", "addmm"})
"""What a linear layer is to torch."""


def taking(policy: Policy, fingerprint: Mapping[str, str]) -> Iterator[Rule]:
    """The rules in force on a device that can take operators away from its kernels.

    torch_npu's kernels are an NPU's own, and the reference is the CPU's own.
    """
    kind = fingerprint["device_class"].partition("-")[0]
    denied = {DEVICE, "torch_npu"} if kind == "npu" else {DEVICE}
    first = denied | {REFERENCE} if kind == "cpu" else denied
    for key in ("order", "deny", "require"):
        for _, rule in policy.rules(key):
            takes = denied & {*rule.providers} if key == "deny" else rule.providers[0] not in first
            if takes and all_hold(rule.when, fingerprint) is not False:
                yield rule


def ties_products(policy: Policy, fingerprint: Mapping[str, str]) -> bool:
    """Whether a rule in force says who must compute the products of linear layers."""
    return any(
        _PRODUCTS & {_bare(name) for name in (*rule.operators, *rule.families)}
        and all_hold(rule.when, fingerprint) is not False
        for _, rule in policy.rules("require")
    )


def _bare(name: str) -> str:
    """`mm` of `aten::mm.out`."""
    return name.rpartition("::")[2].partition(".")[0]
