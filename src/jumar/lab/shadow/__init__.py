"""Shadow: every operator of a forward is also computed by the CPU, from the same inputs.

with Shadow("npu:0") as shadow:
    model(x)
shadow.guilty        # the operators whose own numbers are wrong, each with its worst element
shadow.coverage      # how many were compared, and why the others were not
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumar.lab.shadow.findings import Coverage, Guilty
    from jumar.lab.shadow.mode import Shadow

__all__ = ["Coverage", "Guilty", "Shadow"]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "mode" if name == "Shadow" else "findings"
    return getattr(import_module(f"{__name__}.{home}"), name)
