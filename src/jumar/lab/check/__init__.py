"""Each implementation of an operator, by itself, against the CPU in float64.

    target = Target("device", "npu:0")
    summary = check(target, ["aten::mm"])       # workers, cases, verdicts, reproducers
    summary.evidence(store)                     # records for quarantine

A *case* is one call. Its inputs come from torch's OpInfo samples, from calls that were captured in
a model, and from rows that make such a call hard. It runs in a reused watched worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumar.lab.check.base import Case, Finding, Target
    from jumar.lab.check.session import check
    from jumar.lab.check.summary import Judgement, Summary

__all__ = ["Case", "Finding", "Judgement", "Summary", "Target", "check"]

_HOMES = {"check": "session", "Judgement": "summary", "Summary": "summary"}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'base')}"), name)
