"""Which implementation computes an operator on a device: decided once, when a model is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from jumar.contracts.errors import InvalidValue, OperatorUnavailable
from jumar.contracts.results import Operators
from jumar.devices import Placement
from jumar.engine.seat import Seat
from jumar.evidence import Store, quarantine
from jumar.operators.base import Override
from jumar.operators.policy.base import Policy, Rule
from jumar.operators.policy.files import effective

if TYPE_CHECKING:
    from jumar.operators.policy.decide import Decision

_HERE = ("device", "reference")
"""What a model's own operators can be computed by: the device's kernel, or the CPU's."""


def bind_operators(seat: Seat, placement: Placement, until: ExitStack) -> list[str]:
    """Let the reference compute what policy or quarantine forbid the device's own kernels.

    Only operators that a rule names are looked at; without any, nothing is. `until` takes all of it
    back when it is closed. What is bound and what stands in quarantine is noted in `seat`; given
    back are the sentences that every report of the model has to have.

    Raises:
        OperatorUnavailable: nothing that can be used here may compute an operator.
        InvalidRequest: a policy, or a record of evidence, cannot be read; names the file.
    """
    told = []
    seat.operators = Operators()
    for decision in _decided(seat, placement):
        name, implementation = decision.operator, decision.implementation
        if implementation != "device":
            _install(decision, placement, until)
            seat.operators.bound[name] = implementation
            told.append(f"{name} is computed by the {implementation}: {_why(decision)}.")
    return told


def _decided(seat: Seat, placement: Placement) -> Iterator[Decision]:
    policy = effective(placement.device.kind)
    rules = quarantine(Store(), seat.fingerprint)
    seat.operators.quarantined = sorted({str(subject) for subject in rules.subjects()})
    suspects = {one.operator for one in rules.subjects() if one.implementation == "device"}
    spoken_of = list(_about_the_device(policy))
    if not suspects and not spoken_of:
        return
    from jumar.operators.catalogue import live
    from jumar.operators.policy.decide import names_of, resolve
    from jumar.operators.policy.layers import with_layers

    catalogue = with_layers(live(), usable_only=True)
    decisions = resolve(policy, catalogue, seat.fingerprint, rules)
    for rule in spoken_of:
        suspects |= names_of(rule, catalogue, {*_HERE, *catalogue.providers}) or set()
    for name in sorted(one for one in suspects if "::" in one):
        yield decisions.decide(name)


def _about_the_device(policy: Policy) -> Iterator[Rule]:
    """The rules that name operators and can take them away from the device's kernel."""
    for key in ("order", "deny", "require"):
        for _, rule in policy.rules(key):
            takes = ("device" in rule.providers) if key == "deny" else rule.providers[0] != "device"
            if takes and (rule.operators or rule.families):
                yield rule


def _install(decision: Decision, placement: Placement, until: ExitStack) -> None:
    from jumar.operators.overrides import installed

    override = Override(decision.operator, decision.implementation)
    try:
        if override.implementation not in _HERE:
            raise InvalidValue("A model's operators are bound to the device or the reference only.")
        until.enter_context(installed({override}, device=placement.torch_device))
    except InvalidValue as dead:
        raise OperatorUnavailable(
            f"{decision.operator} cannot be computed by the {decision.implementation} on"
            f" {placement.device.label}: {_why(decision)}.",
            hint=f"jumar operators explain {decision.operator}",
        ) from dead


def _why(decision: Decision) -> str:
    """What takes the operator away from the device: `device in quarantine: aborts (evidence …)`."""
    against = [
        step
        for step in decision.steps
        if step.effect == "excluded" and step.implementation == "device"
    ]
    return "; ".join(f"device {step}" for step in against) or str(decision.line)
