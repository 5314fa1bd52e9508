"""The names of operators: from what is installed, or from a catalogue recorded elsewhere.

catalogue = live()                          # torch, and what else is installed here
catalogue = read("npu-host.json")           # as `jumar operators record` wrote it there
catalogue.operator("add.Tensor").family     # 'add'
catalogue.named("pow")                      # operators and provider functions of that name
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumar.operators.catalogue.base import (
        Catalogue,
        Implementation,
        Named,
        Operator,
        Reentry,
        merged,
    )
    from jumar.operators.catalogue.record import opened, read, shipped, write
    from jumar.operators.catalogue.sources import live

__all__ = [
    "Catalogue",
    "Implementation",
    "Named",
    "Operator",
    "Reentry",
    "live",
    "merged",
    "opened",
    "read",
    "shipped",
    "write",
]

_HOMES = dict.fromkeys(("opened", "read", "shipped", "write"), "record") | {"live": "sources"}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'base')}"), name)
