"""What npu-smi says besides its table: ``info -m`` and ``info -t board|common|memory|…``.

Blanks and tabs are only separators; which columns a table has is read from its header.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from jumar.host.facts import Board, CardProcess, MapRow, Topology
from jumar.host.parse.lines import known, number, pair, pairs

Lines = tuple[str, ...]
"""Lines that could not be read."""

MAP_COLUMNS = {
    "NPU ID": "npu_id",
    "Slot ID": "slot_id",
    "Chip ID": "chip_id",
    "Chip Logic ID": "logic_id",
    "Chip Phy-ID": "phy_id",
    "Chip Name": "name",
}
CONTROLLERS = ("mcu", "3559", "hi3559")
"""What ``-m`` calls the controller of a board: a row of its own, and no chip."""
CONTROLLER = -1

BOARD_KEYS = {
    "Product Name": "product_name",
    "Model": "model",
    "Manufacturer": "manufacturer",
    "NPU Name": "npu_name",
    "Chip Type": "chip_type",
    "Chip Name": "chip_name",
    "Chip Version": "chip_version",
    "Chip Fault": "chip_fault",
    "Software Version": "software_version",
    "Firmware Version": "firmware_version",
    "Compatibility": "compatibility",
    "Board ID": "board_id",
    "Main Board ID": "main_board_id",
    "PCIe Bus Info": "bus_id",
    "PCI Vendor ID": "pci_vendor",
    "PCI Device ID": "pci_device",
}
"""Printed key to field of `Board`. The serial number is left out on purpose."""

CHIP_ID_LAST = ("usages", "proc-mem")
"""Types of ``-t`` whose blocks end in ``Chip ID``; those of the others begin with it."""

PROCESS = re.compile(
    r"Process id:\s*(?P<pid>\d+)\s+Process name:\s*(?P<name>.*?)\s*"
    r"Process memory\(MB\):\s*(?P<mb>\d+)"
)


def read_mapping(text: str) -> tuple[tuple[MapRow, ...], Lines]:
    """The chips of ``npu-smi info -m``, with one row per chip, and lines that could not be read."""
    fields: list[str] = []
    rows: dict[tuple[int, int | None], MapRow] = {}
    unread: list[str] = []
    for line in filter(None, (" ".join(line.split()) for line in text.splitlines())):
        if "NPU ID" in line and "Chip Name" in line:
            names = re.findall("|".join(sorted(MAP_COLUMNS, key=len, reverse=True)), line)
            fields = [MAP_COLUMNS[name] for name in names]
            continue
        cells = dict(zip(fields, line.split(None, len(fields) - 1), strict=False))
        if cells.get("name", "").lower().startswith(CONTROLLERS):
            continue
        row = _map_row(cells) if len(cells) == len(fields) > 1 else None
        if row is None or (row.npu_id, row.chip_id) in rows:
            unread.append(line)
        else:
            rows[row.npu_id, row.chip_id] = row
    return tuple(rows.values()), tuple(unread)


def _map_row(cells: Mapping[str, str]) -> MapRow | None:
    try:
        ids = {key: number(cell) for key, cell in cells.items() if key != "name"}
    except ValueError:
        return None
    npu = ids.pop("npu_id", None)
    if npu is None or ids.get("chip_id") is None:
        return None
    return MapRow(npu_id=npu, name=cells.get("name", ""), **ids)


def read_board(text: str) -> tuple[Board | None, Lines]:
    """``-t board``, of a card or of one of its chips; None where it holds not one known key."""
    values, unread = pairs(text)
    fields = {field: known(values[key]) for key, field in BOARD_KEYS.items() if key in values}
    if not fields:
        return None, unread
    numbers = [_number_or_none(values.get(key)) for key in ("NPU ID", "Chip ID", "Chip Count")]
    npu, chip, count = numbers
    return Board(npu_id=npu, chip_id=chip, chip_count=count, **fields), unread


def _number_or_none(text: str | None) -> int | None:
    try:
        return None if text is None else number(text)
    except ValueError:
        return None


def read_readings(kind: str, text: str) -> tuple[dict[int | None, dict[str, str]], Lines]:
    """``-t common|memory|usages``: printed keys and values per chip id; None: of the whole card."""
    readings: dict[int | None, dict[str, str]] = {}
    unread: list[str] = []
    for chip, lines in _by_chip(kind, text):
        values, bad = pairs("\n".join(lines))
        unread += bad
        readings.setdefault(chip, {}).update(values)
    return {chip: values for chip, values in readings.items() if values}, tuple(unread)


def read_process_memory(text: str) -> tuple[dict[int | None, tuple[CardProcess, ...]], Lines]:
    """``-t proc-mem``: the processes per chip id; a chip with none has an empty entry."""
    processes: dict[int | None, tuple[CardProcess, ...]] = {}
    unread: list[str] = []
    for chip, lines in _by_chip("proc-mem", text):
        for line in lines:
            match = PROCESS.search(line)
            if match:
                pid, name, mb = int(match["pid"]), match["name"], int(match["mb"])
                found = CardProcess(pid=pid, name=name, memory_mb=mb)
                processes[chip] = (*processes.get(chip, ()), found)
            elif line.startswith("No process in device"):
                processes.setdefault(chip, ())
            elif pair(line) is None or line.startswith("Process"):
                unread.append(line)
    return processes, tuple(unread)


def _by_chip(kind: str, text: str) -> list[tuple[int | None, list[str]]]:
    """The lines of each chip's block; the board controller's (``Chip Name : mcu``) is left out."""
    blocks: list[tuple[int | None, list[str]]] = [(None, [])]
    for line in filter(None, map(str.strip, text.splitlines())):
        key, value = pair(line) or ("", "")
        if key == "Chip ID" and kind in CHIP_ID_LAST:
            blocks[-1] = (_number_or_none(value), blocks[-1][1])
            blocks.append((None, []))
        elif key == "Chip ID":
            blocks.append((_number_or_none(value), []))
        elif key == "Chip Name" and value.lower().startswith(CONTROLLERS):
            blocks.append((CONTROLLER, []))
        else:
            blocks[-1][1].append(line)
    return [block for block in blocks if block[0] != CONTROLLER]


def read_device_share(text: str) -> bool | None:
    """``-t device-share``: True or False; None where the card cannot be asked."""
    values, _ = pairs(text)
    for key, value in values.items():
        if "share" in key.lower() or "status" in key.lower():
            return {"true": True, "1": True, "false": False, "0": False}.get(value.lower())
    return None


def read_topology(text: str) -> tuple[Topology | None, Lines]:
    """``-t topo``: the links of each NPU to each other, as far as the legend."""
    names: list[str] = []
    links: dict[str, Mapping[str, str]] = {}
    affinity: dict[str, str] = {}
    unread: list[str] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        words = line.split()
        if line.startswith("Legend"):
            break
        if not names:
            names = [word for word in words if re.fullmatch(r"[A-Za-z-]+\d+", word)]
            if not names:
                unread.append(line)
        elif words[0] in names and len(words) - 1 - len(names) in (0, 1):
            links[words[0]] = dict(zip(names, words[1:], strict=False))
            if len(words) - 1 > len(names):
                affinity[words[0]] = words[-1]
        else:
            unread.append(line)
    return (Topology(links=links, cpu_affinity=affinity) if links else None), tuple(unread)
