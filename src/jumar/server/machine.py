"""GET /v1/devices: the devices of this machine, how they are, and what is on them.

What npu-smi, nvidia-smi and /proc tell, as `jumar devices` shows it: the server's own process opens
no device.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

if TYPE_CHECKING:
    from jumar.host.accelerators import Accelerator
    from jumar.host.facts import HostFacts
    from jumar.server.desk import Desk

LOOK_S = 5.0
"""The machine is looked at again after this, in seconds: npu-smi may take one."""
WATCH_S = 15.0
"""The same where nobody asks, for /metrics."""


class Machine:
    """The devices as they were when somebody last looked, at most `LOOK_S` ago."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until = 0.0
        self.seen: tuple[list[dict[str, Any]], float] = ([], 0.0)
        """The rows, and when that was in seconds of the Unix epoch: for who cannot wait."""

    def devices(self) -> list[dict[str, Any]]:
        """One row per NPU chip, GPU, and the CPU. Memory in MB (2**20 bytes). May read files."""
        with self._lock:
            if time.monotonic() >= self._until:
                self.seen = (_looked(), time.time())
                self._until = time.monotonic() + LOOK_S
            return self.seen[0]


async def devices(request: Request) -> Response:
    """The devices, and the models on each."""
    found = await run_in_threadpool(rows, request.app.state.desk)
    return JSONResponse({"object": "list", "data": found})


def rows(desk: Desk) -> list[dict[str, Any]]:
    """The devices, and the models that are loaded on each."""
    on: dict[str | None, set[str]] = defaultdict(set)
    for served in desk.house.models():
        on[served.device].add(served.loaded.manifest.id)
    return [{**row, "models": sorted(on[row["id"]])} for row in desk.machine.devices()]


def _looked() -> list[dict[str, Any]]:
    from jumar.host.accelerators import accelerators
    from jumar.host.read import open_host

    facts = open_host(deep=False)
    return [_row(facts, one) for one in accelerators(facts)]


def _row(facts: HostFacts, one: Accelerator) -> dict[str, Any]:
    said = asdict(one)
    numbers = [f"{key} {value}" for key, value in said.pop("ids").items() if value is not None]
    return {
        "id": said.pop("label") or " ".join([one.kind, *numbers[:1]]),
        "object": "device",
        "emulated": one.name.endswith("(emulated)"),
        **said,
        **_readings(facts, one),
    }


def _readings(facts: HostFacts, one: Accelerator) -> dict[str, Any]:
    """What only the tool of the card tells of it; None where there is none."""
    health = temperature = busy = None
    if one.kind == "npu":
        key = (one.ids.get("npu_id"), one.ids.get("chip_id"))
        for card in (card for card in facts.cards if (card.npu_id, card.chip_id) == key):
            health, temperature, busy = card.health, card.temperature_c, card.aicore_percent
    if one.kind == "cuda":
        for gpu in (gpu for gpu in facts.nvidia.gpus if gpu.index == one.ids.get("index")):
            temperature, busy = gpu.temperature_c, gpu.utilization_percent
    return {"health": health, "temperature_c": temperature, "busy_percent": busy}
