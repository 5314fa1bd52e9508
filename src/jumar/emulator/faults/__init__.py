"""Faults that can be ordered: per operator, device, shape, dtype or call number.

>>> with fault("softmax", "wrong", how="nan", dtype="float16") as set_fault:
...     run()
>>> set_fault.hits
3

In child processes by `JUMAR_EMULATE_FAULTS`, a YAML file or the same inline.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jumar.emulator.faults.rule import KINDS, Rule, make_rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jumar.emulator.faults.acting import Fault

__all__ = ["KINDS", "Rule", "fault", "make_rule"]


@contextmanager
def fault(op: str, kind: str = "raise", **conditions: Any) -> Iterator[Fault]:
    """Order a fault for the block; `Rule` names the conditions.

    Raises:
        InvalidValue: no such operator or kind, or a condition that is not valid.
        UnknownKey: a condition that faults do not have.
    """
    from jumar.emulator.faults.acting import add, remove

    one = add(make_rule({"op": op, "kind": kind, **conditions}))
    try:
        yield one
    finally:
        remove(one)
