"""Who computes a layer, where a library is missing, broken or forgotten in a list."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from benchmarks.faults.base import Measured
from benchmarks.faults.scenes.staged import scene
from jumar.contracts.errors import InvalidValue, OperatorUnavailable
from jumar.operators.providers import Implementation

HERE = {"device_class": "npu-emulated", "chip": "Ascend910B1"}
NORM = "rms_norm"
BINDING = "binding"


class Theirs:
    """A vendor's library. `why`: it cannot be used; `broken`: its kernel raises."""

    name = "theirs"

    def __init__(self, why: str | None = None, *, has: bool = True, broken: bool = False) -> None:
        self.why, self.has, self.broken = why, has, broken

    def version(self) -> str | None:
        """Always there."""
        return "1.0"

    def unavailable(self) -> str | None:
        """As it was made."""
        return self.why

    def layers(self) -> Mapping[str, Implementation]:
        """A norm, where it has one."""
        kernel = _raising if self.broken else _norm
        return {NORM: Implementation(lambda: kernel)} if self.has else {}

    def functions(self) -> Mapping[str, Implementation]:
        """None."""
        return {}


def _norm(x: Any, weight: Any, epsilon: float = 1e-6, residual: Any = None) -> Any:
    import torch

    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * weight


def _raising(x: Any, weight: Any, epsilon: float = 1e-6, residual: Any = None) -> Any:
    raise RuntimeError("rms_norm launch failed: error code is 507035, the vector core is abnormal")


def _bound(theirs: Theirs, order: Any) -> tuple[Any, Any]:
    """The function that a layer would hold, and how it came to it."""
    from jumar.operators.binding import Bindings
    from jumar.operators.providers import provider

    def find(name: str) -> Any:
        return theirs if name == theirs.name else provider(name)

    bindings = Bindings({NORM: order}, device="npu:0", fingerprint=HERE, find=find)
    return bindings.bind(NORM, "float32"), bindings.made[-1]


def _right(function: Any) -> bool:
    """Against the formula in float64."""
    import torch

    from jumar.operators.layers import layer_operator

    x, weight = torch.randn(3, 8), torch.ones(8)
    wanted = layer_operator(NORM).golden(x, weight)
    got = function(x.to("npu:0"), weight.to("npu:0"))
    return bool(torch.allclose(got.cpu().double(), wanted, atol=1e-5))


def vendor_absent(ill: bool) -> Measured:
    """The vendor of the machine is in no map: its tier is not there, and nobody is told."""
    try:
        _bound(Theirs(), ("thiers" if ill else "theirs", "reference"))
    except InvalidValue as error:
        return Measured("silent", BINDING, named="thiers" in error.message, said=error.message)
    return Measured("silent", None, named=False)


def tier_missing(ill: bool) -> Measured:
    """The last tier of an order does not have the operator."""
    theirs = Theirs(has=not ill)
    try:
        _bound(theirs, "theirs")
    except OperatorUnavailable as error:
        function, made = _bound(theirs, ("theirs", "reference"))
        told = ("theirs", "does not have it") in made.passed_over
        return Measured("raises", BINDING, told, served=_right(function), said=error.message)
    return Measured("silent", None, named=False)


def library_absent(ill: bool) -> Measured:
    """An operator is not there because Triton is not."""
    function, made = _bound(
        Theirs("needs Triton, which is not installed" if ill else None), ("theirs", "reference")
    )
    if not made.passed_over:
        return Measured("raises", None, named=False)
    ((name, why),) = made.passed_over
    return Measured(
        "raises", BINDING, name == "theirs", served=_right(function), said=f"{name} {why}"
    )


def degraded(ill: bool) -> Measured:
    """A kernel fails at its first call: others go on with the next tier, and nobody is told."""
    from jumar.evidence import quarantine
    from jumar.operators.failures import evidence_of

    theirs = Theirs(broken=ill)
    function, _ = _bound(theirs, ("theirs", "reference"))
    try:
        _right(function)
    except RuntimeError as error:
        record = evidence_of(error, HERE)
        if record is None:
            return Measured("raises", "run", named=False)
        rules = quarantine([record], HERE)
        order = _decided(rules, NORM, ("theirs", "reference"))
        again, _ = _bound(theirs, order)
        named = (record.subject.operator, record.subject.implementation) == (NORM, "theirs")
        held = rules.deny(NORM, "theirs") is not None
        return Measured("raises", "run", named, held, _right(again), said=f"{record.subject}")
    return Measured("silent", None, named=False)


def regenerated(ill: bool) -> Measured:
    """A list is written anew and 22 operators are lost from it. Evidence is in no list."""
    from jumar.evidence import Evidence, Subject, quarantine

    names = [f"aten::{one}" for one in ROUTES.split()]
    records = [
        Evidence(
            subject=Subject(operator=name, implementation="device"),
            fingerprint=HERE, verdict="wrong", found_by="check", at=time.time(),
        )
        for name in names
    ]  # fmt: skip
    rules = quarantine(records if ill else [], HERE)
    kept = [name for name in names if _decided(rules, name, ()) == ("reference",)]
    all_kept = kept == names
    said = f"{len(kept)} of {len(names)} decided by evidence" if kept else ""
    return Measured("silent", "policy" if kept else None, all_kept, all_kept, all_kept, said=said)


ROUTES = (
    "argmin argmax isin median topk sort cumsum cumprod gather index_select bmm mm addmm exp log"
    " tanh sigmoid gelu silu erf pow.Scalar div.Tensor"
)


def _decided(rules: Any, operator: str, providers: tuple[str, ...]) -> tuple[str, ...]:
    """Who may compute an operator under a policy that knows nothing of the fault."""
    from jumar.operators.catalogue import Catalogue, Operator
    from jumar.operators.catalogue import Implementation as Listed
    from jumar.operators.policy import Policy, resolve
    from jumar.operators.policy.files import layer

    catalogue = Catalogue(
        {},
        {operator: Operator(operator, operator.rpartition("::")[2])},
        tuple(Listed(operator, one, "", "layer", "bench") for one in providers if one == "theirs"),
    )
    policy = Policy(
        (layer({"order": [{"providers": list(providers)}]}, "bench"),) if providers else ()
    )
    return resolve(policy, catalogue, HERE, rules).order(operator)


measure = scene(
    {
        one.__name__: one
        for one in (vendor_absent, tier_missing, library_absent, degraded, regenerated)
    }
)
