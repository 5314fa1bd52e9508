"""What tests turn and look at: the noise of the device, and which operators ran on it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

Mode = Literal["on", "off", "repeatable"]
_noise: tuple[Mode, int] = ("off", 0)


def set_noise(mode: Mode, seed: int = 0) -> None:
    """Turn the noise of all devices; the draws begin anew.

    `on`: every call is drawn anew, as sums over atomics differ from run to run. `repeatable`: one
    draw per operator and shape, so that equal inputs give equal results; so does
    `torch.use_deterministic_algorithms(True)`.
    """
    global _noise
    import torch

    torch.ops.jumar_emulator.noise(mode != "off", seed, mode == "repeatable")
    _noise = (mode, seed)


@contextmanager
def noise(mode: Mode, seed: int = 0) -> Iterator[None]:
    """`set_noise` for the block."""
    before = _noise
    set_noise(mode, seed)
    try:
        yield
    finally:
        set_noise(*before)


@contextmanager
def record() -> Iterator[list[str]]:
    """The full names of the operators that ran on emulated NPUs ("aten::mm"), after the block."""
    import torch

    seen: list[str] = []
    torch.ops.jumar_emulator.trace(True)
    try:
        yield seen
    finally:
        seen += torch.ops.jumar_emulator.trace(False)
