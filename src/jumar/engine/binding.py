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
from jumar.operators.policy.base import EVERYTHING, Policy
from jumar.operators.policy.conditions import all_hold
from jumar.operators.policy.files import effective
from jumar.operators.policy.taking import taking

if TYPE_CHECKING:
    from jumar.operators.policy.decide import Decision

_HERE = ("device", "reference")
"""What a model's own operators can be computed by: the device's kernel, or the CPU's."""

_NOT_FOLLOWED = "not followed, the device computes all that no rule names"
_NO_LAYERS = "not followed, the model has torch's operators and no layer operators"


def bind_operators(seat: Seat, placement: Placement, until: ExitStack) -> list[str]:
    """Let the reference compute what policy or quarantine forbid the device's own kernels.

    Only operators that a rule names are looked at; without any, nothing is. `until` takes all of it
    back when it is closed. What is bound and what stands in quarantine is noted in `seat`; given
    back are the sentences that every report of the model has to have, also of orders that a model
    cannot follow.

    Raises:
        OperatorUnavailable: nothing that can be used here may compute an operator, or a rule takes
            all of them from the device.
        InvalidRequest: a policy, or a record of evidence, cannot be read; names the file.
    """
    policy = effective(placement.device.kind)
    told = _about_everything(policy, seat, placement)
    seat.operators = Operators()
    for decision in _decided(policy, seat, told):
        name, implementation = decision.operator, decision.implementation
        if implementation != "device":
            _install(decision, placement, until)
            seat.operators.bound[name] = implementation
            told.append(f"{name} is computed by the {implementation}: {_why(decision)}.")
    return told


def _about_everything(policy: Policy, seat: Seat, placement: Placement) -> list[str]:
    """What to tell of rules on every operator: a model's are bound one by one, where one is named.

    An order gives way to the device; a rule that forbids the device everything cannot.
    """
    everything = [rule for rule in taking(policy, seat.fingerprint) if rule.breadth == EVERYTHING]
    for rule in everything:
        if rule.key != "order":
            raise OperatorUnavailable(
                f"{rule.origin}: {rule}, and a model on {placement.device.label} needs the device.",
                hint="Name operators or families in the rule, or run on another device.",
                param="backend",
            )
    holding = [rule for _, rule in policy.rules("order") if all_hold(rule.when, seat.fingerprint)]
    deciding = [rule for rule in holding if rule.breadth == EVERYTHING][-1:]
    return [f"{one.origin}: {one}: {_NOT_FOLLOWED}." for one in deciding if one in everything]


def _decided(policy: Policy, seat: Seat, told: list[str]) -> Iterator[Decision]:
    rules = quarantine(Store(), seat.fingerprint)
    seat.operators.quarantined = sorted({str(subject) for subject in rules.subjects()})
    suspects = {one.operator for one in rules.subjects() if one.implementation == "device"}
    spoken_of = [rule for rule in taking(policy, seat.fingerprint) if rule.breadth != EVERYTHING]
    if not suspects and not spoken_of:
        return
    from jumar.operators.catalogue import live
    from jumar.operators.policy.decide import names_of, resolve
    from jumar.operators.policy.layers import with_layers

    catalogue = with_layers(live(), usable_only=True)
    decisions = resolve(policy, catalogue, seat.fingerprint, rules)
    for rule in spoken_of:
        names = names_of(rule, catalogue, {*_HERE, *catalogue.providers}) or frozenset()
        suspects |= names
        if not any("::" in name for name in names):
            told.append(f"{rule.origin}: {rule}: {_NO_LAYERS}.")
    for name in sorted(one for one in suspects if "::" in one):
        yield decisions.decide(name)


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
