"""Overloads that write, called as their functional sibling is: `mm.out` as `mm`, `add_` as `add`.

torch's test samples call functional overloads, and a few in place. A sibling is not guessed: it has
the same base name but for the sign of in-place work, and the same arguments but for outputs (what
torchgen calls the signature of a schema).
"""

from __future__ import annotations

from typing import Any

from jumar.lab.check.adversarial import padded, poisoned
from jumar.lab.check.calls import Call
from jumar.lab.shadow import facts


def functional(name: str) -> str | None:
    """The overload that returns what the overload `name` writes; None where there is none."""
    import torch

    space, _, rest = name.rpartition("::")
    base, _, overload = rest.partition(".")
    packets = getattr(torch.ops, space or "aten")
    op = getattr(getattr(packets, base, None), overload or "default", None)
    packet = getattr(packets, base.removesuffix("_") or base, None)
    if op is None or packet is None or not any(map(facts.is_written, op._schema.arguments)):
        return None
    wanted = _signature(op)
    for one in (getattr(packet, each) for each in packet.overloads()):
        if _signature(one) == wanted and not any(map(facts.is_written, one._schema.arguments)):
            sibling: str = one.name()
            return sibling
    return None


def with_outputs(op: Any, sibling: Any, call: Call) -> Call:
    """The call of `sibling` as one of `op`: outputs are poisoned tensors of the right form, within
    poisoned padding. What works in place has none, and takes the call as it is.
    """
    import torch
    from torch.utils._pytree import tree_map_only

    names = [one.name for one in op._schema.arguments if one.is_out]
    if not names:
        return call
    copy = call.cloned()
    with torch.no_grad():
        results = sibling(*copy.args, **copy.kwargs)
    values = results if len(names) > 1 else [results]

    def empty(result: Any) -> Any:
        return padded(poisoned(result.numel(), result.dtype).view(result.shape))

    outputs = tree_map_only(torch.Tensor, empty, dict(zip(names, values, strict=True)))
    return Call(call.args, {**call.kwargs, **outputs})


def _signature(op: Any) -> list[tuple[str, str]]:
    return [(one.name, str(one.real_type)) for one in op._schema.arguments if not one.is_out]
