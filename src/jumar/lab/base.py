"""What the lab is given: a check of some overrides, and nothing about what it checks."""

from __future__ import annotations

from collections.abc import Callable

from jumar.evidence.records import Verdict
from jumar.operators.base import Override, Overrides

Check = Callable[[Overrides], Verdict]
"""Runs something with only these overrides on, and says how that ended."""

__all__ = ["Check", "Override", "Overrides", "Verdict"]
