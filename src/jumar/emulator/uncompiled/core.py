"""What the compiled core offers the rest of the emulator, under the same names."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Any

from jumar.emulator.uncompiled import memory

SCHEMAS = (
    "start(int[] totals, bool bf16) -> ()",
    "route(str[] names) -> ()",
    "unroute(str[] names) -> ()",
    "native(str[] names) -> ()",
    "to_cpu(Tensor tensor) -> Tensor",
    "to_npu(Tensor tensor, int device) -> Tensor",
    "faithful(Tensor wide, ScalarType dtype) -> Tensor",
    "touch() -> ()",
    "is_touched() -> bool",
    "in_bad_fork() -> bool",
    "current_device() -> int",
    "set_device(int index) -> ()",
    "stats(int index) -> int[]",
    "set_total(int index, int bytes) -> ()",
    "empty_cache() -> ()",
    "reset_peak(int index) -> ()",
    "oom_text(int index, int bytes) -> str",
    "default_generator(int index) -> Generator",
    "defer(int index, str text) -> ()",
    "synchronize(int index) -> ()",
    "watch(str[] names) -> ()",
    "trace(bool on) -> str[]",
    "noise(bool on, int seed, bool repeatable) -> ()",
    "capture_begin() -> int",
    "capture_end() -> ()",
    "is_capturing() -> bool",
    "replay(int graph) -> ()",
    "forget(int graph) -> ()",
)
ASKED = ("before(str op, int device, Tensor[] inputs) -> bool", "after(Tensor[] outputs) -> ()")
"""What the faults answer."""


class State:
    """All that the core knows, of which there is one per process."""

    def __init__(self) -> None:
        self.bf16 = True
        self.touched = self.bad_fork = False
        self.generators: list[Any] = []
        self.deferred: dict[int, deque[str]] = {}
        self.watched: frozenset[str] = frozenset()
        self.trace: list[str] | None = None
        self.thread = threading.local()


state = State()


def register() -> Any:
    """Define the namespace; the library has to be kept."""
    import torch

    library = torch.library.Library("jumar_emulator", "DEF")
    for schema in (*SCHEMAS, *ASKED):
        library.define(schema)
    for schema in SCHEMAS:
        name = schema.split("(", 1)[0]
        library.impl(name, globals()[name], "CompositeExplicitAutograd")
    os.register_at_fork(after_in_child=_forked)
    return library


def _forked() -> None:
    state.bad_fork = state.touched


def start(totals: list[int], bf16: bool) -> None:
    import torch

    memory.cards[:] = [memory.Card(total) for total in totals]
    state.bf16 = bf16
    state.generators[:] = [torch.Generator("cpu") for _ in totals]


def route(names: list[str]) -> None:
    from jumar.emulator.uncompiled.kernels import divert

    divert(names)


def unroute(names: list[str]) -> None:
    from jumar.emulator.uncompiled.kernels import restore

    restore(names)


def native(names: list[str]) -> None:
    """The cautions of operators without NPU kernel are left out here."""


def to_cpu(tensor: Any) -> Any:
    return memory.to_cpu(tensor)


def to_npu(tensor: Any, device: int) -> Any:
    check_index(device)
    return memory.to_npu(tensor, device)


def faithful(wide: Any, dtype: Any) -> Any:
    return wide.to(dtype)


def touch() -> None:
    if state.bad_fork:
        raise RuntimeError(
            "Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, you "
            "must use the 'spawn' start method"
        )
    state.touched = True


def is_touched() -> bool:
    return state.touched


def in_bad_fork() -> bool:
    return state.bad_fork


def check_index(index: int) -> None:
    if not 0 <= index < len(memory.cards):
        raise RuntimeError(
            "exchangeDevice:emulated NPU function error: aclrtSetDevice, error code is 107001\n"
            "[ERROR] ERR00100 PTA call acl api failed\n[Error]: The invalid device ID. Check "
            f"whether the device ID is valid: npu:{index} of {len(memory.cards)}"
        )


def current_device() -> int:
    return getattr(state.thread, "device", 0)


def set_device(index: int) -> None:
    touch()
    check_index(index)
    state.thread.device = index


def stats(index: int) -> list[int]:
    check_index(index)
    card = memory.cards[index]
    sizes = [card.total, card.allocated, card.reserved, card.peak, card.peak_reserved]
    return [*sizes, card.allocations, card.frees, card.ooms]


def set_total(index: int, bytes: int) -> None:  # noqa: A002
    check_index(index)
    memory.cards[index].total = bytes


def empty_cache() -> None:
    for card in memory.cards:
        card.trim()


def reset_peak(index: int) -> None:
    check_index(index)
    memory.cards[index].reset_peak()


def oom_text(index: int, bytes: int) -> str:  # noqa: A002
    check_index(index)
    memory.cards[index].ooms += 1
    return memory.cards[index].oom_text(index, bytes)


def default_generator(index: int) -> Any:
    check_index(index)
    return state.generators[index]


def defer(index: int, text: str) -> None:
    state.deferred.setdefault(index, deque()).append(text)


def raise_deferred(index: int) -> None:
    """Tell the oldest asynchronous error of a card."""
    if state.deferred.get(index):
        raise RuntimeError(state.deferred[index].popleft())


def synchronize(index: int) -> None:
    from jumar.emulator.uncompiled.kernels import ask

    touch()
    check_index(index)
    ask("jumar_emulator::synchronize", index, [])
    raise_deferred(index)


def watch(names: list[str]) -> None:
    state.watched = frozenset(names)


def trace(on: bool) -> list[str]:
    seen, state.trace = state.trace or [], [] if on else None
    return seen


def noise(on: bool, seed: int, repeatable: bool) -> None:
    """There is none."""


def capture_begin() -> int:
    raise RuntimeError("NPUGraph needs the compiled core of the emulated NPU")


def capture_end() -> None:
    """Nothing was begun."""


def is_capturing() -> bool:
    return False


def replay(graph: int) -> None:
    raise RuntimeError("Called NPUGraph::replay without a preceding successful capture.")


def forget(graph: int) -> None:
    """Nothing was captured."""
