"""The faults that are set, and what the core asks of them: before an operator, and after it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from jumar.emulator.faults.names import overloads_of, watched_name
from jumar.emulator.faults.rule import Rule
from jumar.emulator.faults.texts import say


@dataclass
class Fault:
    """A fault that is set. `seen` calls it could have met, `hits` those that it did."""

    rule: Rule
    name: str
    seen: int = 0
    hits: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _released: threading.Event = field(default_factory=threading.Event, repr=False)

    def release(self) -> None:
        """Let operators that hang go on."""
        self._released.set()

    def meets(self, op: str, device: int, inputs: Sequence[Any]) -> bool:
        """Whether this call is met; counts it."""
        if self.name not in ("*", op.split(".", 1)[0]):
            return False
        if not self.rule.meets(op, device, inputs):
            return False
        with self._lock:
            self.seen += 1
            if self.rule.calls is not None and self.seen not in self.rule.calls:
                return False
            self.hits += 1
        return True

    def wait(self) -> None:
        """Block as a hung kernel does, until `release` or for the rule's seconds."""
        self._released.wait(self.rule.seconds)


_faults: list[Fault] = []
_routed: set[str] = set()
_leaked: list[Any] = []
_pending = threading.local()
_changing = threading.Lock()


def add(rule: Rule) -> Fault:
    """Set a fault. Raises InvalidValue for an operator that does not exist."""
    fault = Fault(rule, watched_name(rule.op))
    with _changing:
        _faults.append(fault)
        _watch()
    return fault


def remove(fault: Fault) -> None:
    """Take a fault away, and let go what hangs in it."""
    fault.release()
    with _changing:
        _faults.remove(fault)
        _watch()


def compile_faults() -> list[Fault]:
    """The faults that graphs meet."""
    return [fault for fault in _faults if fault.rule.kind == "compile"]


def register() -> Any:
    """Give the core its two questions; the library has to be kept."""
    import torch

    library = torch.library.Library("jumar_emulator", "IMPL")
    library.impl("before", _before, "CompositeExplicitAutograd")
    library.impl("after", _after, "CompositeExplicitAutograd")
    return library


def _watch() -> None:
    """Tell the core which operators to ask about, and route those that would decompose."""
    import torch

    core = torch.ops.jumar_emulator
    names = {fault.name for fault in _faults if fault.rule.kind != "compile"}
    wanted = {
        overload
        for name in names
        for overload in overloads_of(name)
        if overload in _routed
        or not torch._C._dispatch_has_kernel_for_dispatch_key(overload, "PrivateUse1")
    }
    core.route(sorted(wanted - _routed))
    core.unroute(sorted(_routed - wanted))
    _routed.clear()
    _routed.update(wanted)
    core.watch(sorted(names))


def _before(op: str, device: int, inputs: list[Any]) -> bool:
    changes = []
    for fault in list(_faults):
        kind = fault.rule.kind
        if kind == "compile" or not fault.meets(op, device, inputs):
            continue
        if kind in BEFORE:
            BEFORE[kind](fault, op, device)
        else:
            changes.append(partial(AFTER[kind], fault))
    _pending.changes = changes
    return bool(changes)


def _after(outputs: list[Any]) -> None:
    for change in _pending.changes:
        for output in outputs:
            change(output)


# ---- before the kernel ---------------------------------------------------------------------------


def _raise(fault: Fault, op: str, device: int) -> None:
    raise RuntimeError(say(fault.rule.text, op))


def _defer(fault: Fault, op: str, device: int) -> None:
    import torch

    torch.ops.jumar_emulator.defer(device, say(fault.rule.text, op))


def _oom(fault: Fault, op: str, device: int) -> None:
    import torch

    raise torch.OutOfMemoryError(torch.ops.jumar_emulator.oom_text(device, fault.rule.bytes))


def _abort(fault: Fault, op: str, device: int) -> None:
    os.abort()


def _hang(fault: Fault, op: str, device: int) -> None:
    fault.wait()


def _delay(fault: Fault, op: str, device: int) -> None:
    time.sleep(fault.rule.seconds or 0)


def _leak(fault: Fault, op: str, device: int) -> None:
    import torch

    _leaked.append(torch.empty(fault.rule.bytes, dtype=torch.uint8, device=f"npu:{device}"))


BEFORE = {
    "raise": _raise,
    "deferred": _defer,
    "oom": _oom,
    "abort": _abort,
    "hang": _hang,
    "delay": _delay,
    "leak": _leak,
}


# ---- after it: outputs are written in place ------------------------------------------------------


def _wrong(fault: Fault, output: Any) -> None:
    if fault.rule.change is not None:
        fault.rule.change(output)
    elif output.numel():
        WRONG[fault.rule.how](output)


def _scale(output: Any) -> None:
    """One percent too large; whole numbers one too large, truth turned round."""
    if output.dtype.is_floating_point or output.dtype.is_complex:
        output.mul_(1.01)
    elif str(output.dtype) == "torch.bool":
        output.logical_not_()
    else:
        output.add_(1)


def _nan(output: Any) -> None:
    output.fill_(float("nan") if output.dtype.is_floating_point else 0)


def _zero(output: Any) -> None:
    output.zero_()


def _lanes(output: Any) -> None:
    """Every 13th element holds its neighbour's value, as an unmasked load leaves it."""
    flat = output.reshape(-1)
    flat[::13] = flat.roll(1)[::13]
    output.copy_(flat.view_as(output))


WRONG = {"scale": _scale, "nan": _nan, "zero": _zero, "lanes": _lanes}


def _nondeterministic(fault: Fault, output: Any) -> None:
    """A tenth of the elements (at least one) are wrong, drawn anew without a seed."""
    import random

    import torch

    flat = output.reshape(-1)
    if not flat.numel():
        return
    draw = random.SystemRandom()
    places = draw.sample(range(flat.numel()), max(1, flat.numel() // 10))
    lanes = flat[torch.tensor(places)]
    _scale(lanes)
    flat[torch.tensor(places)] = lanes
    output.copy_(flat.view_as(output))


AFTER = {"wrong": _wrong, "nondeterministic": _nondeterministic}
