"""What was found out about operators, and what follows from it.

store = Store()                                       # a folder of small JSON files
store.add(Evidence(subject=..., fingerprint=..., verdict="wrong", ...))
rules = quarantine(store, fingerprint)                # a query: nothing is switched by hand
rules.deny("aten::gelu", "device", dtype="float32")   # the evidence, or None
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumar.evidence.records import BAD, KINDS, Evidence, Kind, Subject, Verdict, shape_class
    from jumar.evidence.rules import Expired, Quarantine, quarantine
    from jumar.evidence.store import Store

__all__ = [
    "BAD",
    "KINDS",
    "Evidence",
    "Expired",
    "Kind",
    "Quarantine",
    "Store",
    "Subject",
    "Verdict",
    "quarantine",
    "shape_class",
]

_HOMES = {"Expired": "rules", "Quarantine": "rules", "quarantine": "rules", "Store": "store"}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'records')}"), name)
