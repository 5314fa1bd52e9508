"""``nvidia-smi --query-… --format=csv,noheader,nounits``."""

from __future__ import annotations

from jumar.host.facts import CardProcess, NvidiaGpu
from jumar.host.parse.lines import known

GPU_FIELDS = (
    *("index", "name", "memory.total", "memory.used", "memory.free", "utilization.gpu"),
    *("temperature.gpu", "compute_cap", "pci.bus_id", "driver_version"),
)
APP_FIELDS = ("gpu_bus_id", "pid", "process_name", "used_memory")


def read_gpus(text: str) -> tuple[list[tuple[NvidiaGpu, str]], tuple[str, ...]]:
    """The GPUs, each with the driver's version, and lines that could not be read."""
    found: list[tuple[NvidiaGpu, str]] = []
    unread: list[str] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        cells = [cell.strip() for cell in line.split(", ")]
        if len(cells) != len(GPU_FIELDS) or not cells[0].isdecimal():
            unread.append(line)
            continue
        row = dict(zip(GPU_FIELDS, cells, strict=True))
        gpu = NvidiaGpu(
            index=int(row["index"]),
            name=row["name"],
            memory_total_mb=_number(row["memory.total"]),
            memory_used_mb=_number(row["memory.used"]),
            memory_free_mb=_number(row["memory.free"]),
            utilization_percent=_number(row["utilization.gpu"]),
            temperature_c=_number(row["temperature.gpu"]),
            compute_capability=known(row["compute_cap"]),
            bus_id=known(row["pci.bus_id"]),
        )
        found.append((gpu, row["driver_version"]))
    return found, tuple(unread)


def read_apps(text: str) -> tuple[dict[str, tuple[CardProcess, ...]], tuple[str, ...]]:
    """The computing processes by bus address, and lines that could not be read."""
    apps: dict[str, tuple[CardProcess, ...]] = {}
    unread: list[str] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        cells = [cell.strip() for cell in line.split(", ")]
        if len(cells) != len(APP_FIELDS) or not cells[1].isdecimal():
            unread.append(line)
            continue
        bus, pid, name, memory = cells
        process = CardProcess(pid=int(pid), name=name.rsplit("/", 1)[-1], memory_mb=_number(memory))
        apps[bus] = (*apps.get(bus, ()), process)
    return apps, tuple(unread)


def _number(text: str) -> int | None:
    """nvidia-smi prints "[N/A]" and "[Not Supported]" where there is no value."""
    return int(text) if text.isdecimal() else None
