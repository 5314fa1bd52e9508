"""Switches that switch nothing: the positive control of overrides, and of a bisection."""

from __future__ import annotations

from benchmarks.faults.base import CARD, Measured
from benchmarks.faults.scenes.staged import scene
from jumar.contracts.errors import InvalidValue

PROOF = "proof of an override"


def _installed(operator: str) -> Measured:
    """Whether an override of that name is taken; named where the error says which and what is."""
    from jumar.operators.base import Override
    from jumar.operators.overrides import installed, live

    override = Override(operator, "reference")
    try:
        with installed({override}, device=CARD):
            ok = live(override, device=CARD)
            return Measured("silent", None if ok else PROOF, named=False, said="" if ok else "dead")
    except InvalidValue as error:
        said = " ".join(filter(None, [error.message, error.hint]))
        return Measured("silent", PROOF, named=operator in said, said=said)


def name_gone(ill: bool) -> Measured:
    """A patch is anchored to a name that a newer torch does not have any more."""
    return _installed("aten::_softmax.default_v1" if ill else "aten::_softmax")


def not_reached(ill: bool) -> Measured:
    """A patch of a function through which no call on the device comes."""
    return _installed("aten::promote_types" if ill else "aten::gelu")


def guard(ill: bool) -> Measured:
    """A guard asks `hasattr(torch.ops, "_C")`, which is True whatever is installed."""
    import torch

    space = "_C" if ill else "aten"
    assert hasattr(torch.ops, space), "the guard lets everything through"
    return _installed(f"{space}::silu")


def replaced_later(ill: bool) -> Measured:
    """A patch is in force when it is applied; then another library takes the operator."""
    import torch

    from jumar.operators.base import Override
    from jumar.operators.overrides import installed, live

    override = Override("aten::gelu", "reference")
    with installed({override}, device=CARD):
        other = torch.library.Library("aten", "IMPL")
        if ill:
            other.impl("gelu", lambda x, **_: x, "PrivateUse1")
        alive = live(override, device=CARD)
        other._destroy()
    detected = None if alive else "live()"
    return Measured("silent", detected, named=not alive, said="" if alive else f"{override}: dead")


def unread_file(ill: bool) -> Measured:
    """Rounds of tuning write a list that the worker does not read: every round tests the same."""
    from jumar.evidence import Verdict
    from jumar.lab.base import Override, Overrides
    from jumar.lab.bisect import bisect

    every = [Override(f"aten::{one}", "device") for one in ("mm", "gelu", "silu", "tanh")]

    def worker(on: Overrides) -> Verdict:
        return Verdict("wrong" if ill or every[1] in on else "correct")

    found = bisect(worker, every)
    elsewhere = found.finding == "elsewhere"
    said = "with everything off it fails too" if elsewhere else ""
    return Measured("silent", "bisect's control" if elsewhere else None, named=False, said=said)


measure = scene(
    {one.__name__: one for one in (name_gone, not_reached, guard, replaced_later, unread_file)}
)
