"""Which implementation computes an operator on a device: asked once, when a model is loaded."""

from __future__ import annotations

from contextlib import ExitStack

from jumar.contracts.errors import InvalidValue, OperatorUnavailable
from jumar.contracts.results import Operators
from jumar.devices import Placement
from jumar.engine.seat import Seat
from jumar.evidence import Evidence, Store, quarantine
from jumar.operators.base import Override


def bind_operators(seat: Seat, placement: Placement, until: ExitStack) -> list[str]:
    """Let the CPU's reference compute what stands in quarantine on this device.

    `until` takes it back again when it is closed. What is bound and quarantined is noted in `seat`;
    given back are the sentences that every report of the model has to have.

    Raises:
        OperatorUnavailable: nothing else computes an operator that stands in quarantine.
        InvalidInput: the store of evidence has a file that cannot be read.
    """
    rules = quarantine(Store(), seat.fingerprint).rules
    seat.operators = Operators(quarantined=sorted({str(rule.subject) for rule in rules}))
    device = [rule for rule in rules if rule.subject.implementation == "device"]
    culprits = {rule.subject.operator: rule for rule in device if "::" in rule.subject.operator}
    for name, rule in sorted(culprits.items()):
        _install(Override(name, "reference"), rule, placement, until)
        seat.operators.bound[name] = "reference"
    return [
        f"{name} {rule.verdict} on this device (evidence {rule.id}): it is in quarantine and"
        " computed by the CPU's reference."
        for name, rule in sorted(culprits.items())
    ]


def _install(override: Override, rule: Evidence, placement: Placement, until: ExitStack) -> None:
    from jumar.operators.overrides import installed

    try:
        until.enter_context(installed({override}, device=placement.torch_device))
    except InvalidValue as dead:
        raise OperatorUnavailable(
            f"{override.operator} is in quarantine on {placement.device.label} ({rule.verdict},"
            f" evidence {rule.id}), and nothing else computes it.",
            hint="Take another device, or check the operator anew: jumar operators check",
        ) from dead
