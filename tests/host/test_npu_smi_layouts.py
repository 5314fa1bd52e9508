"""Layouts that no public output shows, built from the widths of the tool's source."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from jumar.host.parse.npu_smi import read_info

DOUBLE = "+===========================+===============+"
SINGLE = "+---------------------------+---------------+"


@dataclass(frozen=True)
class Layout:
    """Column widths right of the second bar, the rest of the row, and A3's second id."""

    wide: tuple[int, int, int, int] = (11, 17, 5, 13)
    """power, temperature, used, total"""
    low: tuple[int, int, int, int, int] = (11, 5, 10, 5, 13)
    """AICore, memory used and total, HBM used and total"""
    room: int = 52
    """Columns between the second bar and the last."""
    phy: bool = False
    container: bool = False


@dataclass(frozen=True)
class Chip:
    npu: int
    chip: int = 0
    name: str = "910B3"
    health: str = "OK"
    power: str = "97.2"
    used: str = "3400"
    total: str = "65536"
    bus: str = "0000:C1:00.0"


def table(
    layout: Layout, chips: list[Chip], processes: list[tuple[int, int, int, str, int]]
) -> str:
    double, single = (line + line[1] * layout.room + "+" for line in (DOUBLE, SINGLE))
    whole = len(double)
    head = "Chip  Phy-ID" if layout.phy else "Chip"
    lines = [
        "+" + "-" * (whole - 2) + "+",
        "| npu-smi 26.1.0                   Version: 26.1.0".ljust(whole - 1) + "|",
        single,
        _row(layout, "NPU   Name", "Health", "Power(W)  Temp(C)  Hugepages-Usage(page)"),
        _row(layout, head, "Bus-Id", "AICore(%)  Memory-Usage(MB)  HBM-Usage(MB)"),
        double,
    ]
    for one in chips:
        power, temp, used, total = layout.wide
        right = f"{one.power:<{power}} {41:<{temp}} {0:<{used}}/ {0:<{total}}"
        lines.append(_row(layout, f"{one.npu:<5} {one.name}", one.health, right))
        core, ddr, of_ddr, hbm, of_hbm = layout.low
        right = f"{0:<{core}} {0:<{ddr}}/ {0:<{of_ddr}}{one.used:<{hbm}}/ {one.total:<{of_hbm}}"
        phy = f"  {2 * one.npu + one.chip}" if layout.phy else ""
        lines.append(_row(layout, f"{one.chip:<5}{phy}", one.bus, right))
        lines.append(lines[0] if layout.phy and one.chip == 0 else double)
    names = "Process name  | Process memory(MB)"
    names += "  | Process id in container" if layout.container else ""
    lines += [single, _row(layout, "NPU     Chip", "Process id", names), double]
    for npu, chip, pid, name, memory in processes:
        right = f"{name:<14}| {memory:<18}" + (f"  | {pid - 4000}" if layout.container else "")
        lines.append(_row(layout, f"{npu:<7} {chip}", str(pid), right))
    return "\n".join([*lines, double]) + "\n"


def _row(layout: Layout, left: str, middle: str, right: str) -> str:
    return f"| {left:<26}| {middle:<14}| {right:<{layout.room - 1}}|"


LAYOUTS = {
    "A2": Layout(),
    "A2, one more blank before the last bar": Layout(room=53),
    "A3": Layout(phy=True),
    "A3, one more blank before the last bar": Layout(phy=True, room=53),
    "A2 26.0": Layout((20, 23, 5, 16), (20, 5, 16, 5, 16), 70, container=True),
    "A3 26.0": Layout((20, 23, 5, 16), (20, 5, 16, 5, 16), 70, phy=True, container=True),
}


@pytest.mark.parametrize("count", [0, 1, 16, 64])
@pytest.mark.parametrize("name", LAYOUTS)
def test_each_layout_is_read_with_any_number_of_cards(name: str, count: int) -> None:
    layout = LAYOUTS[name]
    dies = (0, 1) if layout.phy else (0,)
    chips = [
        Chip(npu, die, used=str(3000 + npu), power="-" if die else "170.2")
        for npu in range(count)
        for die in dies
    ]
    processes = [(npu, dies[-1], 4711 + npu, "python3.1", 99) for npu in range(count)]
    read = read_info(table(layout, chips, processes))
    assert read.unread == ()
    assert [(c.npu_id, c.chip_id) for c in read.cards] == [(c.npu, c.chip) for c in chips]
    for card in read.cards:
        assert card.hbm is not None
        assert (card.hbm.used, card.hbm.total) == (3000 + card.npu_id, 65536)
        assert card.phy_id == (2 * card.npu_id + (card.chip_id or 0) if layout.phy else None)
        if card.chip_id == dies[-1]:
            (process,) = card.processes or ()
            assert process.pid == 4711 + card.npu_id
            assert process.container_pid == (process.pid - 4000 if layout.container else None)


@pytest.mark.parametrize("health", ["OK", "Warning", "Alarm", "Critical", "UNKNOWN"])
def test_each_state_of_health_is_read(health: str) -> None:
    (card,) = read_info(table(Layout(), [Chip(0, health=health)], [])).cards
    assert card.health == health


def test_values_that_are_not_there_are_none() -> None:
    chip = Chip(2144, power="NA", used="NA", total="15609", bus="NA")
    (card,) = read_info(table(Layout(), [chip], [])).cards
    assert (card.npu_id, card.power_w, card.bus_id) == (2144, None, None)
    assert card.hbm is not None
    assert (card.hbm.used, card.hbm.total) == (None, 15609)


def test_used_memory_may_touch_its_slash() -> None:
    (card,) = read_info(table(Layout(), [Chip(0, used="120701", total="131072")], [])).cards
    assert card.hbm is not None
    assert (card.hbm.used, card.hbm.total) == (120701, 131072)


def test_products_may_be_mixed_in_one_table() -> None:
    chips = [Chip(0), Chip(1, name="310P3", bus="0000:C2:00.0"), Chip(32768, name="Ascend 910B4")]
    read = read_info(table(Layout(), chips, []))
    assert [card.name for card in read.cards] == ["910B3", "310P3", "Ascend 910B4"]
    assert read.unread == ()
