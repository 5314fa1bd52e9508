"""The words of this package.

An *operator* is named as torch names it: `aten::mm`, `aten::add.Tensor` (the default overload has
no suffix), or, for a layer of a model, by its own name: `rms_norm`. An *implementation* is named by
its provider: `device` (the kernel that torch's dispatcher has for the device), `reference`,
`torch_npu`, `flag_gems`, or that of a third party.
"""

from __future__ import annotations

from typing import NamedTuple


class Override(NamedTuple):
    """One operator computed by one implementation: the unit that the lab switches on and off."""

    operator: str
    implementation: str

    def __str__(self) -> str:
        return f"{self.operator} by {self.implementation}"


Overrides = frozenset[Override]
"""Those that are on; every other operator is computed by the reference."""
