"""Operators of torch that policy or quarantine take from the device's own kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from jumar.contracts.errors import InvalidValue, OperatorUnavailable
from jumar.operators.overrides import installed
from jumar.operators.policy.base import EVERYTHING, REFERENCE, Rule
from jumar.operators.policy.decide import Decision, names_of
from jumar.operators.policy.taking import DEVICE, taking
from jumar.vllm.operators.process import Process

OF_THE_DEVICE = frozenset({DEVICE, "torch_npu", REFERENCE})

_in_force = ExitStack()
"""The overrides of this process's newest engine, for the life of the process."""


def install(here: Process) -> None:
    """Decide about every operator that a rule or a piece of evidence names, and override those that
    another implementation than the device's kernel has to compute; each is proven live.

    Raises:
        OperatorUnavailable: nothing is left for an operator, or no call of it on this device
            arrives at what was decided; says which.
    """
    end()
    for decision in _decided(here):
        try:
            _in_force.enter_context(installed({decision.override}, device=here.device))
        except (InvalidValue, OperatorUnavailable) as refused:
            raise OperatorUnavailable(
                f"{decision.operator} cannot be computed by {decision.implementation} on"
                f" {here.device}, as {decision.line.origin} says: {refused.message}",
                hint=f"jumar operators explain {decision.operator}",
                param="operators",
            ) from refused
        here.overrides.append(decision)


def end() -> None:
    """Take the overrides of this process's engine back."""
    _in_force.close()


def _decided(here: Process) -> Iterator[Decision]:
    for name in sorted(_suspects(here)):
        decision = here.decisions.decide(name)
        if decision.implementation != DEVICE:
            yield decision


def _suspects(here: Process) -> set[str]:
    """Operators of torch's dispatcher that may have to leave the device."""
    catalogue, evidence = here.decisions.catalogue, here.decisions.quarantine.subjects()
    names = {one.operator for one in evidence if one.implementation == DEVICE}
    for rule in taking(here.decisions.policy, here.fingerprint):
        spoken_of = names_of(rule, catalogue)
        names |= _of_everything(rule, here) if spoken_of is None else spoken_of
    kinds = {name: catalogue.operator(name).kind for name in names}
    for name in (name for name, kind in kinds.items() if kind == "ir"):
        raise InvalidValue(
            f"A rule names {name}, which vLLM's layers do not ask for by that name.",
            hint=f"The layer operator: {name.rpartition('::')[2].removeprefix('fused_add_')}.",
            param="operators",
        )
    return {name for name, kind in kinds.items() if kind != "layer"}


def _of_everything(rule: Rule, here: Process) -> set[str]:
    """What a rule on every operator means for torch's: those that its first providers have."""
    if rule.breadth != EVERYTHING or rule.key != "order":
        raise OperatorUnavailable(
            f"{rule.origin}: {rule}, and a model on {here.device} needs the device.",
            hint="Name operators or families in the rule, or run on another device.",
            param="operators",
        )
    first = {name for name in rule.providers if name not in OF_THE_DEVICE}
    found = {
        one.operator
        for one in here.decisions.catalogue.implementations
        if one.provider in first and "::" in one.operator and one.key != "ir"
    }
    if not found:
        here.told.append(
            f"{rule.origin}: {rule}: followed for layers; the device computes those operators of "
            "torch that no rule names."
        )
    return found
