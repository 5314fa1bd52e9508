"""Every layout of `npu-smi info`, each with the facts that its text holds."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from tests.host.recorded import SAMPLES, sample

from jumar.host.facts import Card, CardProcess, Usage
from jumar.host.parse.npu_smi import InfoTable, read_info


@dataclass(frozen=True)
class Expected:
    """`cards`: (npu, chip, phy, logic, bus, health, power, temp, aicore, hugepages, ddr, hbm)."""

    sample: str
    name: str
    version: str
    cards: list[tuple[object, ...]]
    driver: str | None = None
    processes: dict[tuple[int, int | None], list[tuple[int, str, int]]] = field(
        default_factory=dict
    )
    silent: tuple[int, ...] = ()
    """NPUs of which the process table says nothing."""
    process_table: bool = True
    warnings: int = 0


def a2(
    npu: int, bus: str, power: float, temp: int, hbm: tuple[int, int], aicore: int = 0
) -> tuple[object, ...]:
    """A row of the 910B series: no DDR, no hugepages, one chip."""
    return (npu, 0, None, None, f"0000:{bus}:00.0", "OK", power, temp, aicore, (0, 0), (0, 0), hbm)


def a3(
    npu: int, chip: int, phy: int, bus: str, power: float | None, temp: int, used: int
) -> tuple[object, ...]:
    """A die of an A3."""
    bus = f"0000:{bus}:00.0"
    return (npu, chip, phy, None, bus, "OK", power, temp, 0, (0, 0), (0, 0), (used, 65536))


def p3(
    npu: int,
    chip: int,
    logic: int,
    bus: str,
    temp: int,
    ddr: tuple[int, int],
    power: float | None = None,
) -> tuple[object, ...]:
    """A chip of a 310P: a logic id, DDR only."""
    bus = f"0000:{bus}:00.0"
    return (npu, chip, None, logic, bus, "OK", power, temp, 0, (0, 0), ddr, None)


TABLES = [
    Expected(
        "910A__21.0.4__narrow", "910A", "21.0.4",
        [
            (n, 0, None, None, f"0000:{bus}:00.0", "OK", power, temp, 0, (15, 15), ddr, hbm)
            for n, (bus, power, temp, ddr, hbm) in enumerate([
                ("A1", 74.9, 33, (1102, 15170), (3, 32768)),
                ("E1", 70.2, 41, (957, 15171), (2, 32768)),
            ])
        ],
        process_table=False, silent=(0, 1),
    ),
    Expected(
        "910ProBx8__24.1.0__ddr-and-hbm", "910ProB", "24.1.0",
        [
            (n, 0, None, None, f"0000:{bus}:00.0", "OK", power, temp, 0, (0, 0), ddr, (hbm, 32768))
            for n, (bus, power, temp, ddr, hbm) in enumerate([
                ("21", 76.7, 38, (2386, 13553), 21), ("A1", 76.8, 36, (1542, 15665), 3),
                ("22", 79.6, 42, (2115, 15665), 16), ("A2", 74.8, 36, (2183, 15567), 1),
                ("61", 74.1, 48, (1895, 13553), 2), ("E1", 76.2, 36, (2103, 15665), 18),
                ("62", 80.9, 36, (2631, 15665), 8), ("E2", 79.8, 35, (2641, 15567), 14),
            ])
        ],
    ),
    Expected(
        "910B2x8__23.0.7__hbm-used-no-process", "910B2", "23.0.7",
        [
            a2(n, bus, power, temp, (used, 65536))
            for n, (bus, power, temp, used) in enumerate([
                ("21", 87.4, 44, 31247), ("A1", 82.1, 34, 31246), ("22", 92.3, 36, 31241),
                ("A2", 92.6, 45, 31240), ("61", 91.8, 48, 3368), ("E1", 91.7, 46, 3364),
                ("62", 106.3, 36, 3369), ("E2", 101.1, 40, 3367),
            ])
        ],
    ),
    Expected(
        "910B2C__25.5.2__ids-0-1-15__footer", "910B2C", "25.5.2",
        [
            a2(0, "4A", 97.6, 36, (3397, 65536)),
            a2(1, "29", 103.8, 41, (3412, 65536)),
            a2(15, "B0", 83.9, 35, (3408, 65536)),
        ],
        silent=(1,),
    ),
    Expected(
        "910B3__25.5.1__engine-process", "910B3", "25.5.1",
        [
            a2(0, "A1", 82.2, 47, (3452, 65536)),
            a2(5, "22", 97.0, 45, (58231, 65536), aicore=17),
        ],
        processes={(5, 0): [(1873320, "VLLMEngineCore", 54790)]},
        silent=(0,),
    ),
    Expected(
        "910B4x8__24.1.rc3__procs-empty-name", "910B4", "24.1.rc3",
        [
            a2(0, "21", 87.3, 40, (21480, 32768)), a2(1, "A1", 95.0, 39, (21475, 32768)),
            a2(2, "22", 97.8, 39, (2824, 32768)), a2(3, "A2", 84.6, 38, (2822, 32768)),
            a2(4, "61", 94.2, 48, (2827, 32768)), a2(5, "E1", 103.2, 46, (2820, 32768)),
            a2(6, "62", 269.2, 34, (29660, 32768), 74), a2(7, "E2", 268.0, 39, (29663, 32768), 71),
        ],
        processes={
            (0, 0): [(473126, "", 18714)], (1, 0): [(670677, "", 18710)],
            (6, 0): [(89372, "", 26870)], (7, 0): [(91883, "", 26870)],
        },
    ),
    Expected(
        "910B4__24.1.rc3__incomplete-driver-warning-last-line", "910B4", "24.1.rc3",
        [a2(0, "A1", 95.2, 39, (2826, 32768))], warnings=1,
    ),
    Expected(
        "910B4__26.0.rc1__wide-table", "910B4", "26.0.rc1",
        [a2(0, "A1", 97.2, 41, (2865, 32768))],
    ),
    Expected(
        "A3__25.2.0__two-npu-four-chips", "Ascend910", "25.2.0",
        [
            a3(0, 0, 0, "BC", 167.5, 37, 3141), a3(0, 1, 1, "BE", None, 40, 2884),
            a3(1, 0, 2, "57", 162.6, 35, 3122), a3(1, 1, 3, "59", None, 33, 11873),
        ],
        processes={(1, 1): [(845530, "python", 9037)]},
    ),
    Expected(
        "A3x16__24.1.rc3.7__idle", "Ascend910", "24.1.rc3.7",
        [
            a3(n // 2, n % 2, n, bus, power, temp, used)
            for n, (bus, power, temp, used) in enumerate([
                ("BD", 165.1, 38, 3422), ("BF", None, 39, 3194), ("B9", 164.3, 36, 3417),
                ("BB", None, 36, 3195), ("B5", 166.6, 38, 3421), ("B7", None, 38, 3195),
                ("B1", 164.4, 34, 3419), ("B3", None, 40, 3194), ("AD", 178.9, 39, 3413),
                ("AF", None, 36, 3206), ("A9", 171.5, 35, 3421), ("AB", None, 33, 3190),
                ("A5", 170.8, 34, 3414), ("A7", None, 39, 3197), ("A1", 182.8, 36, 3412),
                ("A3", None, 34, 3206),
            ])
        ],
    ),
    Expected(
        "310P3__22.0.0-client_22.0.2-driver__narrow94", "310P3", "22.0.0",
        [p3(0, 0, 0, "3E", 54, (987, 21534), 15.9)],
        driver="22.0.2", process_table=False, silent=(0,),
    ),
    Expected(
        "310P3__22.0.2-client_22.0.4-driver__id2144", "310P3", "22.0.2",
        [p3(2144, 0, 0, "A6", 44, (1766, 21527))],
        driver="22.0.4", process_table=False, silent=(2144,),
    ),
    Expected(
        "310P3x8__25.3.rc1__idle__ids-32768", "310P3", "25.3.rc1",
        [
            p3(0, 0, 0, "03", 46, (1666, 44278)), p3(0, 1, 1, "03", 48, (1638, 43693)),
            p3(32, 0, 2, "04", 51, (1572, 44278)), p3(32, 1, 3, "04", 52, (1599, 43693)),
            p3(32768, 0, 4, "83", 52, (1451, 44278)), p3(32768, 1, 5, "83", 45, (1509, 43693)),
            p3(32800, 0, 6, "84", 54, (1238, 44278)), p3(32800, 1, 7, "84", 49, (1310, 43693)),
        ],
    ),
    Expected(
        "310P3x8__25.5.1__all-dash-separators__no-process-table", "310P3", "25.5.1",
        [
            p3(1, 0, 0, "03", 50, (1243, 44278)), p3(1, 1, 1, "03", 46, (1408, 43693)),
            p3(2, 0, 2, "04", 49, (1717, 44278)), p3(2, 1, 3, "04", 52, (1751, 43693)),
            p3(4, 0, 4, "83", 52, (1519, 44278)), p3(4, 1, 5, "83", 46, (1718, 43693)),
            p3(5, 0, 6, "84", 51, (1597, 44278)), p3(5, 1, 7, "84", 45, (1800, 43693)),
        ],
        process_table=False, silent=(1, 2, 4, 5),
    ),
    Expected(
        "310B4__23.0.rc3__bus-NA__power-numeric", "310B4", "23.0.rc3",
        [(0, 0, None, 0, None, "OK", 6.9, 41, 0, (15, 15), (1844, 3513), None)],
        process_table=False, silent=(0,),
    ),
    Expected(
        "950PRx3__25.7.rc1__alarm__procs", "Ascend950PR", "25.7.rc1",
        [
            (n, None, None, None, f"0000:{bus}:00.0", health, power, temp, use, (0, 0), (0, 0), hbm)
            for n, (bus, health, power, temp, use, hbm) in enumerate([
                ("51", "Alarm", 201.3, 69, 100, (88120, 114688)),
                ("41", "Alarm", 204.9, 62, 100, (29875, 114688)),
                ("A1", "OK", 189.4, 55, 0, (5420, 131072)),
            ])
        ],
        processes={(0, None): [(1412806, "python", 4651), (1596640, "python", 4660)]},
        silent=(1, 2),
    ),
]  # fmt: skip


def facts_of(card: Card) -> tuple[object, ...]:
    def halves(usage: Usage | None) -> object:
        return None if usage is None else (usage.used, usage.total)

    return (
        *(card.npu_id, card.chip_id, card.phy_id, card.logic_id, card.bus_id, card.health),
        *(card.power_w, card.temperature_c, card.aicore_percent),
        *(halves(card.hugepages), halves(card.ddr), halves(card.hbm)),
    )


@pytest.mark.parametrize("expected", TABLES, ids=lambda expected: expected.sample)
def test_a_table_gives_exactly_the_facts_that_it_prints(expected: Expected) -> None:
    table = read_info(sample(f"npu-smi-info__{expected.sample}.txt"))
    assert [facts_of(card) for card in table.cards] == expected.cards
    assert {card.name for card in table.cards} == {expected.name}
    assert (table.version, table.driver_version) == (
        expected.version,
        expected.driver or expected.version,
    )
    assert table.has_process_table is expected.process_table
    assert (table.error, table.unread, len(table.warnings)) == (None, (), expected.warnings)
    for card in table.cards:
        listed = expected.processes.get((card.npu_id, card.chip_id), [])
        told = [CardProcess(pid=pid, name=name, memory_mb=mb) for pid, name, mb in listed]
        assert card.processes == (None if card.npu_id in expected.silent else tuple(told))


def test_every_sample_table_is_expected_above() -> None:
    files = {path.stem.removeprefix("npu-smi-info__") for path in SAMPLES.glob("npu-smi-info__*")}
    assert files == {expected.sample for expected in TABLES}


FAILURES = [
    ("8005-cannot-open-devices", "cannot-open", -8005, None),
    ("binary-missing", "missing", None, None),
    ("libc_sec-missing", "library", None, "libc_sec.so"),
    ("no-card", "no-card", None, None),
]


@pytest.mark.parametrize(("name", "kind", "code", "library"), FAILURES)
def test_an_error_output_is_an_error_and_no_card(
    name: str, kind: str, code: int | None, library: str | None
) -> None:
    table = read_info(sample(f"npu-smi-FAIL__{name}.txt"), exit_code=1)
    assert table.cards == ()
    assert table.unread == ()
    assert table.error is not None
    assert (table.error.kind, table.error.code, table.error.library) == (kind, code, library)


def test_the_held_card_is_an_error_with_its_number() -> None:
    text = "dcmi module initialize failed, because the device is used. ret is -8020"
    error = read_info(text, exit_code=255).error
    assert error is not None
    assert (error.kind, error.code) == ("cannot-open", -8020)


def test_an_unknown_text_with_a_bad_exit_status_is_an_error() -> None:
    error = read_info("something else went wrong", exit_code=3).error
    assert error is not None
    assert (error.kind, error.text) == ("failed", "something else went wrong")


def test_no_output_and_exit_status_0_is_neither_error_nor_card() -> None:
    assert read_info("") == InfoTable()


def edited(name: str, *changes: tuple[str, str]) -> InfoTable:
    text = sample(f"npu-smi-info__{name}.txt")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return read_info(text)


def test_the_container_pid_is_read_where_the_table_has_its_column() -> None:
    # Constructed after the header of 26.0: no public output with a process is known.
    table = edited(
        "910B4__26.0.rc1__wide-table",
        (
            "| No running processes found in NPU 0                                      ",
            "| 0 0 | 4711 | python3.1 | 1207 | 88 |\n| No running processes found in NPU 9      ",
        ),
    )
    assert table.cards[0].processes == (
        CardProcess(pid=4711, name="python3.1", memory_mb=1207, container_pid=88),
    )


def test_one_more_blank_before_the_last_bar_changes_nothing() -> None:
    name = "910B3__25.5.1__engine-process"
    wider = read_info(sample(f"npu-smi-info__{name}.txt").replace("|\n", " |\n"))
    assert wider == edited(name)


def test_a_half_of_memory_may_be_absent() -> None:
    table = edited("310P3x8__25.3.rc1__idle__ids-32768", ("1666 / 44278", "NA   / 15609"))
    assert table.cards[0].ddr == Usage(used=None, total=15609)


@pytest.mark.parametrize("health", ["Warning", "Critical", "UNKNOWN"])
def test_other_states_of_health_are_kept_as_printed(health: str) -> None:
    table = edited("910B4__26.0.rc1__wide-table", ("OK", health))
    assert table.cards[0].health == health


def test_a_first_row_without_its_second_is_no_card_and_is_kept_as_unread() -> None:
    lines = sample("npu-smi-info__910B3__25.5.1__engine-process.txt").splitlines()
    without = [line for line in lines if "0000:22:00.0" not in line]
    table = read_info("\n".join(without))
    assert [card.npu_id for card in table.cards] == [0]
    assert [why for line, why in table.unread if line.startswith("| 5 910B3")] == [
        "no second row of the chip follows"
    ]


def test_a_second_row_without_its_first_is_no_card() -> None:
    lines = sample("npu-smi-info__910B3__25.5.1__engine-process.txt").splitlines()
    table = read_info("\n".join(line for line in lines if not line.startswith("| 5     910B3")))
    assert [card.npu_id for card in table.cards] == [0]
    assert any("0000:22:00.0" in line for line, _ in table.unread)


def test_a_chip_that_stands_there_twice_is_one_card() -> None:
    text = sample("npu-smi-info__910B4__24.1.rc3__incomplete-driver-warning-last-line.txt")
    table = read_info(text + text)
    assert len(table.cards) == 1
    assert all("stands above already" in why for _, why in table.unread)


def test_a_row_cut_at_its_end_is_not_read_because_a_cut_number_is_a_wrong_number() -> None:
    table = edited("910B4__26.0.rc1__wide-table", ("32768            |", "327"))
    assert table.cards == ()
    assert ("the row is cut: no bar at its end") in {why for _, why in table.unread}


def test_a_table_without_its_header_is_not_guessed() -> None:
    lines = sample("npu-smi-info__910B4__26.0.rc1__wide-table.txt").splitlines()
    table = read_info("\n".join(line for line in lines if "Health" not in line))
    assert table.cards == ()
    assert {why for line, why in table.unread if "910B4" in line} == {
        "a row without a header above it"
    }


def test_a_process_on_a_card_that_is_not_in_the_table_is_unread() -> None:
    table = edited("910B3__25.5.1__engine-process", ("| 5       0 ", "| 6       0 "))
    assert all(not card.processes for card in table.cards)
    assert [why for _, why in table.unread] == ["a process on a chip that the table does not have"]


def test_the_note_of_no_process_counts_wherever_it_stands() -> None:
    lines = sample("npu-smi-info__910B4__26.0.rc1__wide-table.txt").splitlines()
    note = next(line for line in lines if "No running" in line)
    before = [*lines[: lines.index(note) - 4], note]
    table = read_info("\n".join(before))
    assert table.has_process_table
    assert table.cards[0].processes == ()
