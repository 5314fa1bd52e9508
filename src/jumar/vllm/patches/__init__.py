"""Patches of vLLM: rows of a manifest, applied once in each process, each proven when it is.

apply(device, where)    put those in force that concern the device and this vLLM
examine(device)         every row of the manifest, and whether it fits what is installed
"""

from __future__ import annotations

from importlib.metadata import version
from typing import NamedTuple

from jumar.vllm.patches.base import Patch, Where
from jumar.vllm.patches.manifest import PATCHES

__all__ = ["PATCHES", "Patch", "Row", "applied", "apply", "examine"]

_applied: list[Patch] = []


def apply(device: str, where: Where) -> None:
    """Apply what concerns `device`; what this process applied before stays as it is.

    Raises:
        DependencyMissing: a target moved, or a patched name does not do its work.
    """
    for patch in PATCHES:
        if patch.where == where and patch not in _applied and patch.concerns(device, _vllm()):
            patch.apply()
            _applied.append(patch)


def applied() -> tuple[Patch, ...]:
    """Those that this process applied."""
    return tuple(_applied)


class Row(NamedTuple):
    """A row of the manifest; `problem` says why its target is not what it was written for."""

    patch: Patch
    concerned: bool
    problem: str | None

    @property
    def state(self) -> str:
        """`fits`, `not needed`, or the problem."""
        return (self.problem or "fits") if self.concerned else "not needed"


def examine(device: str | None) -> list[Row]:
    """Every patch, held against the vLLM that is installed; for `device`, or for any. Nothing is
    applied.
    """
    rows = []
    for patch in PATCHES:
        devices = patch.devices if device is None else (device,)
        concerned = any(patch.concerns(one, _vllm()) for one in devices)
        rows.append(Row(patch, concerned, patch.problem() if concerned else None))
    return rows


def _vllm() -> str:
    return version("vllm")
