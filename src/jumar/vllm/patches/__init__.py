"""Patches of vLLM: rows of a manifest, applied once in each process, each proven when it is.

apply(device, where)    put those in force that concern the device and this vLLM
state(device)           every row of the manifest, with what became of it here
"""

from __future__ import annotations

from importlib.metadata import version

from jumar.vllm.patches.base import Patch, Where
from jumar.vllm.patches.manifest import PATCHES

__all__ = ["PATCHES", "Patch", "apply", "applied"]

_applied: list[Patch] = []


def apply(device: str, where: Where) -> None:
    """Apply what concerns `device`; what this process applied before stays as it is.

    Raises:
        DependencyMissing: a target moved, or a patched name does not do its work.
    """
    installed = version("vllm")
    for patch in PATCHES:
        if patch.where == where and patch not in _applied and patch.concerns(device, installed):
            patch.apply()
            _applied.append(patch)


def applied() -> tuple[Patch, ...]:
    """Those that this process applied."""
    return tuple(_applied)
