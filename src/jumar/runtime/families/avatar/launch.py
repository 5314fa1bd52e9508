"""How a script is started: on which cards, in how many processes, by which program."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.contracts.errors import DependencyMissing, InvalidValue
from jumar.devices.base import Device
from jumar.host.visibility import VARIABLE, read_visibility
from jumar.runtime.families.base import LoadPlan

VISIBLE = {"npu": VARIABLE, "cuda": "CUDA_VISIBLE_DEVICES"}
"""The variable that narrows what a child sees, by the kind of device."""

# The script that is sourced must not see our arguments as its own, and may change none of them.
_SOURCING = (
    '__jumar_first=$1; shift; __jumar_argv=("$@"); set --;'
    ' source "$__jumar_first" && exec "${__jumar_argv[@]}"'
)


@dataclass(frozen=True)
class Launch:
    """`cards` as the variable of this `kind` has them; `program` is a Python, or accelerate."""

    kind: str
    cards: str
    launcher: str
    processes: int
    program: str

    def argv(self, script: Path, arguments: list[str], sourced: Path | None) -> list[str]:
        """The command; no shell looks at it, unless something is sourced, and then as data."""
        argv = [*self._starter(), str(script), *arguments]
        return argv if sourced is None else ["bash", "-c", _SOURCING, "bash", str(sourced), *argv]

    def environment(self) -> dict[str, str | None]:
        """What the child sees: these cards and those of no other kind. Its output comes at once."""
        others = dict.fromkeys(VISIBLE.values())
        return {**others, VISIBLE[self.kind]: self.cards, "PYTHONUNBUFFERED": "1"}

    def config(self) -> dict[str, Any]:
        """What was decided, by config keys."""
        program = "accelerate_executable" if self.launcher == "accelerate" else "python_executable"
        return {
            "launcher": self.launcher,
            "nproc_per_node": self.processes,
            "visible_devices": self.cards,
            program: self.program,
        }

    def _starter(self) -> list[str]:
        if self.launcher == "python":
            return [self.program]
        if self.launcher == "accelerate":
            return [self.program, "launch", "--num_processes", str(self.processes)]
        # standalone: a free port, so that two of them do not meet on 29500.
        torchrun = ["-m", "torch.distributed.run", "--standalone"]
        return [self.program, *torchrun, f"--nproc_per_node={self.processes}"]


def launch_of(plan: LoadPlan) -> Launch:
    """How to start the script of a plan: as told, else one process on each visible card.

    Raises:
        InvalidValue: no list of cards, or more processes than cards.
        DependencyMissing: there is no such Python, or no accelerate.
    """
    config, device = plan.config, plan.placement.device
    cards = _asked(config["visible_devices"], device.kind) or _placed(device)
    count = len(cards.split(","))
    asked = config["nproc_per_node"]
    if config["launcher"] == "accelerate":
        asked = config["num_processes"] or asked
    processes = 1 if config["launcher"] == "python" else asked or count
    if processes > count:
        raise InvalidValue(
            f"{processes} processes need as many cards; the script would see {cards}.",
            hint="Name the cards: --visible-devices 0,1",
            param="config.nproc_per_node",
        )
    launcher = config["launcher"] or ("python" if processes == 1 else "torchrun")
    program = config["python_executable"] or sys.executable
    if launcher == "accelerate":
        program = config["accelerate_executable"] or "accelerate"
    return Launch(device.kind, cards, launcher, processes, _found(program))


def _asked(cards: str | None, kind: str) -> str | None:
    """The caller's list, read as strictly as CANN reads it."""
    if cards is None or kind != "npu":
        return cards
    for problem in read_visibility({VARIABLE: cards}).problems:
        raise InvalidValue(f"visible_devices: {problem.says}.", param="config.visible_devices")
    return cards


def _placed(device: Device) -> str:
    """The placed card alone, by the name that it has where this process is."""
    value = os.environ.get(VISIBLE[device.kind], "")
    names = value.split(",") if value.strip() else []
    if device.kind == "npu":
        names = [str(one) for one in read_visibility(os.environ).ids or ()]
    return names[device.index].strip() if device.index < len(names) else str(device.index)


def _found(program: str) -> str:
    if (found := shutil.which(str(Path(program).expanduser()))) is None:
        raise DependencyMissing(f"There is no program {program!r} that can be run.")
    return found
