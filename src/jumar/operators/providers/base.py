"""What a provider of operators is: a class under the entry point group `jumar.operator_providers`.

Its module imports torch and its own library only inside functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Protocol

FLOATS = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class Implementation:
    """One operator of one provider, and where it may be used.

    `make` gives the function, a Python function with the operator's arguments; it is called once
    per model, so that what it looks up costs nothing later. `needs` are patterns on the entries of
    a device's fingerprint: `{"chip": ("Ascend910B*", "Ascend910_93*")}`.
    """

    make: Callable[[], Callable[..., Any]]
    dtypes: tuple[str, ...] = FLOATS
    devices: tuple[str, ...] = ("cpu", "cuda", "npu")
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Provider(Protocol):
    """A library of operators."""

    name: str

    def version(self) -> str | None:
        """The library's version; None where it is not installed."""
        ...

    def unavailable(self) -> str | None:
        """Why it cannot be used in this process, in one sentence; None where it can."""
        ...

    def layers(self) -> Mapping[str, Implementation]:
        """Its layer operators by name."""
        ...

    def functions(self) -> Mapping[str, Implementation]:
        """Its kernels for torch's operators by overload: `aten::mm`."""
        ...


def unfit(
    implementation: Implementation, device: str, dtype: str | None, fingerprint: Mapping[str, str]
) -> str | None:
    """Why an implementation may not be used on this device in this dtype; None where it may."""
    kind = device.split(":")[0]
    if kind not in implementation.devices:
        return f"is for {' and '.join(implementation.devices)}"
    if dtype is not None and dtype not in implementation.dtypes:
        return f"computes {', '.join(implementation.dtypes)}"
    for entry, patterns in implementation.needs.items():
        found = fingerprint.get(entry)
        if found is None or not any(fnmatchcase(found, one) for one in patterns):
            here = "nobody can tell" if found is None else f"it is {found}"
            return f"needs {entry} {' or '.join(patterns)}, and {here}"
    return None
