"""One case: run the implementation twice, watch memory, and hear what the reference says."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from jumar.evidence.records import Verdict
from jumar.lab.check import errors
from jumar.lab.check.calls import Answer, Call, answered
from jumar.parity import Mismatch


@dataclass(frozen=True)
class Machine:
    """The device that is checked: its name, how to wait for it, and its memory in bytes."""

    device: str
    synchronize: Callable[[], object]
    allocated: Callable[[], int | None]


@dataclass(frozen=True)
class Planned:
    """A call that the CPU accepts, with what the CPU computes in the call's own dtypes."""

    number: int
    source: str
    call: Call
    native: Answer


def judge(
    judged: Any, implementation: Callable[..., Any], call: Call, machine: Machine
) -> tuple[Verdict, str]:
    """The verdict on one case, and its traceback where there is one."""
    before = machine.allocated()
    try:
        first = _run(implementation, call, machine)
        between = machine.allocated()
        second = _run(implementation, call, machine)
        leaked = _leaked(implementation, call, machine, before, between)
    except Exception as error:  # noqa: BLE001  (whatever an implementation raises is the finding)
        return judged.doubted(errors.verdict(error)), traceback.format_exc()
    verdict: Verdict | None = judged.verdict(first, second) or leaked
    return verdict or Verdict("correct"), ""


def _run(implementation: Callable[..., Any], call: Call, machine: Machine) -> Answer:
    """Call it on the device, wait, and fetch what it gave and wrote."""
    import torch

    placed = call.on(machine.device)
    machine.synchronize()
    answer = answered(implementation, placed)
    machine.synchronize()
    fetched = [
        one.detach().cpu() if isinstance(one, torch.Tensor) else one for one in answer.results
    ]
    return Answer(fetched, placed.on("cpu"))


def _leaked(
    implementation: Callable[..., Any],
    call: Call,
    machine: Machine,
    before: int | None,
    between: int | None,
) -> Verdict | None:
    """Memory that stays taken after each call: a workspace that is kept grows only once."""
    levels = [before, between, machine.allocated()]
    while not _falls_or_stays(levels) and len(levels) < 5:
        _run(implementation, call, machine)
        levels.append(machine.allocated())
    if _falls_or_stays(levels):
        return None
    per_call = (levels[-1] or 0) - (levels[-2] or 0)
    return Verdict(
        "leaks",
        f"{per_call:,} bytes of device memory stay taken by each call",
        {"bytes_per_call": per_call},
    )


def _falls_or_stays(levels: list[int | None]) -> bool:
    known = [one for one in levels if one is not None]
    return len(known) < len(levels) or any(b <= a for a, b in pairwise(known))


def agreed(found: Sequence[Mismatch | None], *, same: bool) -> Verdict | None:
    """What two runs say together; `same` where they differ by rounding only."""
    told = next((one for one in found if one), None)
    if told is None:
        return None
    if all(found) and same:
        return Verdict("wrong", str(told), told.numbers())
    how = "both are wrong" if all(found) else "one of them is right"
    reason = f"two runs on equal inputs differ, {how}: {told}"
    return Verdict("nondeterministic", reason, told.numbers())


def as_tensor(value: Any) -> Any:
    """Numbers as tensors, so that all results are compared by one rule."""
    import torch

    if value is None or isinstance(value, torch.Tensor):
        return value
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
