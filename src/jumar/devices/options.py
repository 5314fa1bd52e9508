"""Load-time keys that belong to one kind of device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ASCEND = ("jit_compile", "internal_format")
"""Switches of torch_npu, as config keys."""


def without_effect(config: Mapping[str, Any], kind: str) -> list[str]:
    """Told of keys that somebody set and that mean nothing on this kind of device."""
    return [f"{key} has no effect on {kind}." for key in ASCEND if config.get(key) is not None]
