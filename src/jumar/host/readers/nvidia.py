"""NVIDIA GPUs, as nvidia-smi tells them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jumar.host.facts import Nvidia
from jumar.host.parse.lines import tool_error
from jumar.host.parse.nvidia_smi import APP_FIELDS, GPU_FIELDS, read_apps, read_gpus

if TYPE_CHECKING:
    from jumar.host.readers.notes import Notes
    from jumar.host.source import HostSource, Ran

FORMAT = "--format=csv,noheader,nounits"
GPUS = ("nvidia-smi", f"--query-gpu={','.join(GPU_FIELDS)}", FORMAT)
APPS = ("nvidia-smi", f"--query-compute-apps={','.join(APP_FIELDS)}", FORMAT)


def read_nvidia(source: HostSource, notes: Notes) -> Nvidia:
    """The GPUs and their processes; `present` False where there is no nvidia-smi."""
    nothing: Ran | None = None
    ran = notes.look("nvidia", source.run, *GPUS, absent=nothing)
    if ran is None:
        return Nvidia(present=None if "nvidia" in notes.unseen else False)
    found, unread = read_gpus(ran.text)
    if not found:
        return Nvidia(present=True, error=tool_error(ran.text, exit_code=ran.exit_code))
    notes.skip("nvidia-smi", unread)
    listed = notes.look("nvidia.processes", source.run, *APPS, absent=nothing)
    apps, unread = read_apps("" if listed is None else listed.text)
    notes.skip("nvidia-smi", unread)
    gpus = tuple(
        gpu if listed is None else replace(gpu, processes=apps.get(gpu.bus_id or "", ()))
        for gpu, _ in found
    )
    return Nvidia(present=True, driver_version=found[0][1], gpus=gpus)
