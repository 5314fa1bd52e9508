"""Names of operators, as a fault may write them, and what has to be watched for each."""

from __future__ import annotations

from functools import cache

from jumar.contracts.errors import InvalidValue, did_you_mean

SYNCHRONIZE = "jumar_emulator::synchronize"
NAMESPACES = ("aten", "npu")


def watched_name(op: str) -> str:
    """The full name without overload ("aten::mm") that the core looks for; "*" stays.

    Raises:
        InvalidValue: no such operator, with the nearest names.
    """
    if op == "*":
        return op
    if op == "synchronize":
        return SYNCHRONIZE
    bare = op.split(".", 1)[0]
    full = [bare] if "::" in bare else [f"{space}::{bare}" for space in NAMESPACES]
    for name in full:
        overloads = operators().get(name)
        if overloads and ("." not in op or op.split(".", 1)[1] in overloads):
            return name
    raise InvalidValue(f"There is no operator {op!r}.", hint=_nearest(op), param="op")


def overloads_of(name: str) -> list[str]:
    """All overloads that a kernel exists for: "aten::mm", "aten::mm.out"."""
    import torch

    every = [f"{name}.{one}" if one else name for one in sorted(operators().get(name, ()))]
    return [one for one in every if torch._C._dispatch_has_kernel(one)]


@cache
def operators() -> dict[str, frozenset[str]]:
    """Every operator of torch and of torch_npu, with its overloads ("" is the plain one)."""
    import torch

    found: dict[str, set[str]] = {}
    for full in torch._C._dispatch_get_all_op_names():
        name, _, overload = full.partition(".")
        if name.split("::")[0] in NAMESPACES:
            found.setdefault(name, set()).add(overload)
    return {name: frozenset(overloads) for name, overloads in found.items()}


def _nearest(op: str) -> str | None:
    known = operators()
    if "." in op:
        bare = op.split(".", 1)[0]
        for name in (bare, *(f"{space}::{bare}" for space in NAMESPACES)):
            if name in known:
                shown = ", ".join(sorted(filter(None, known[name]))) or "none"
                return f"{name} has these overloads: {shown}."
    return did_you_mean(op.split("::")[-1], {name.split("::")[-1] for name in known})
