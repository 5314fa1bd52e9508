"""The machine: system, PCI bus, disks, ports, network settings of the cards."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from jumar.host.facts import Disk, PciDevice, Port, System
from jumar.host.parse.lines import pairs
from jumar.host.parse.mounts import fs_type_of, read_mounts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jumar.host.parse.mounts import Mount
    from jumar.host.readers.notes import Notes
    from jumar.host.source import HostSource

DISKS = ("/", "/tmp", "/dev/shm")

HUAWEI, NVIDIA = "19e5", "10de"
CHIPS = {"d500": "310P", "d801": "910", "d802": "910B", "d806": "950PR"}
"""PCI device numbers of Huawei's accelerators; others that begin with "d" have no name here."""


def read_system(source: HostSource, notes: Notes, process: Mapping[str, Any]) -> System:
    """Kernel, C library, CPU, memory, language."""
    release, _ = pairs(notes.look("system.os", source.read, "/etc/os-release", absent=""))
    memory, _ = pairs(notes.look("system.memory", source.read, "/proc/meminfo", absent=""))
    reserved = "/proc/sys/net/ipv4/ip_local_reserved_ports"
    return System(
        kernel=process.get("kernel"),
        arch=process.get("arch"),
        os_name=release.get("PRETTY_NAME"),
        os_id=release.get("ID"),
        os_version=release.get("VERSION_ID"),
        glibc=process.get("glibc"),
        cpu_model=_cpu_model(source, notes),
        cpu_count=process.get("cpu_count"),
        cpu_usable=process.get("cpu_usable"),
        memory_total_mb=_kib(memory.get("MemTotal")),
        memory_available_mb=_kib(memory.get("MemAvailable")),
        swap_total_mb=_kib(memory.get("SwapTotal")),
        locale=process.get("locale"),
        reserved_ports=notes.look("ports.reserved", source.read, reserved, absent="").strip(),
        cwd=process.get("cwd"),
        cwd_writable=process.get("cwd_writable"),
    )


def _cpu_model(source: HostSource, notes: Notes) -> str | None:
    ran = notes.look("system.cpu", source.run, "lscpu", absent=None)
    values, _ = pairs("" if ran is None else ran.text)
    return values.get("Model name") or values.get("BIOS Model name")


def _kib(text: str | None) -> int | None:
    """MB of "65806640 kB"."""
    number = (text or "").split(" ")[0]
    return int(number) >> 10 if number.isdecimal() else None


def read_pci(source: HostSource, notes: Notes) -> tuple[PciDevice, ...]:
    """Accelerators in the kernel's list of PCI devices, which needs no vendor tool."""
    text = notes.look("pci", source.read, "/proc/bus/pci/devices", absent="")
    devices = []
    for line in text.splitlines():
        match = re.match(r"([0-9a-f]{4})\s+([0-9a-f]{4})([0-9a-f]{4})\s", line)
        if match is None:
            notes.skip("/proc/bus/pci/devices", [line])
            continue
        place, vendor, device = int(match[1], 16), match[2], match[3]
        bus, slot, function = place >> 8, (place >> 3) & 31, place & 7
        if (vendor == HUAWEI and device[0] == "d") or (vendor == NVIDIA and function == 0):
            bus_id = f"{bus:02x}:{slot:02x}.{function}"
            chip = CHIPS.get(device) if vendor == HUAWEI else None
            devices.append(PciDevice(bus_id=bus_id, vendor=vendor, device=device, chip=chip))
    return tuple(devices)


def read_mount_points(source: HostSource, notes: Notes) -> list[Mount] | None:
    """The mounts of this process, or None where they cannot be looked at."""
    nothing: str | None = None
    text = notes.look("container.mounts", source.read, "/proc/self/mountinfo", absent=nothing)
    if text is None:
        return None
    mounts, unread = read_mounts(text)
    notes.skip("/proc/self/mountinfo", unread)
    return mounts


def read_disks(
    source: HostSource, notes: Notes, process: Mapping[str, Any], mounts: list[Mount] | None
) -> tuple[Disk, ...]:
    """Space of the places that matter; those that cannot be asked are noted as unseen."""
    disks = []
    for path in dict.fromkeys([*DISKS, *filter(None, [process.get("home"), process.get("cwd")])]):
        size = notes.look(f"disks.{path}", source.disk, path, absent=None)
        if size is not None:
            total, free = size
            fs_type = fs_type_of(path, mounts or [])
            disks.append(Disk(path=path, total_mb=total, free_mb=free, fs_type=fs_type))
    return tuple(disks)


def read_ports(source: HostSource, notes: Notes) -> tuple[Port, ...]:
    """The listening TCP ports."""
    ports: Sequence[Port] = notes.look("ports", source.listeners, absent=())
    return tuple(ports)


def read_hccn(source: HostSource, notes: Notes) -> dict[int, tuple[str, ...]]:
    """Which settings ``/etc/hccn.conf`` has per NPU; their values are addresses and not kept."""
    values, unread = pairs(notes.look("hccn", source.read, "/etc/hccn.conf", absent=""))
    notes.skip("/etc/hccn.conf", unread)
    settings: dict[int, tuple[str, ...]] = {}
    for key in values:
        name, _, npu = key.rpartition("_")
        if npu.isdecimal() and name:
            settings[int(npu)] = (*settings.get(int(npu), ()), name)
    return settings
