"""`npu-smi info -m` and `-t …`: every sample with the facts that it holds."""

from __future__ import annotations

import pytest
from tests.host.recorded import sample

from jumar.host.facts import Board, CardProcess, MapRow
from jumar.host.parse.npu_smi_queries import (
    read_board,
    read_device_share,
    read_mapping,
    read_process_memory,
    read_readings,
    read_topology,
)

MAPPINGS = [
    (
        "npu-smi-m__910B3__25.5.1__tabs.txt",
        (
            MapRow(npu_id=0, chip_id=0, logic_id=0, name="Ascend 910B3"),
            MapRow(npu_id=1, chip_id=0, logic_id=1, name="Ascend 910B3"),
        ),
    ),
    (
        "npu-smi-m__A3__phy-id__4-space-indent.txt",
        (
            MapRow(npu_id=0, chip_id=0, logic_id=0, phy_id=0, name="Ascend910"),
            MapRow(npu_id=0, chip_id=1, logic_id=1, phy_id=1, name="Ascend910"),
            MapRow(npu_id=1, chip_id=0, logic_id=2, phy_id=2, name="Ascend910"),
        ),
    ),
    (
        "npu-smi-m__950PR__no-logic-id__has-slot-id.txt",
        (
            MapRow(npu_id=0, slot_id=1, chip_id=0, phy_id=0, name="Ascend950PR"),
            MapRow(npu_id=1, slot_id=2, chip_id=0, phy_id=1, name="Ascend950PR"),
        ),
    ),
]


@pytest.mark.parametrize(("name", "rows"), MAPPINGS, ids=lambda value: str(value)[:24])
def test_a_mapping_has_the_chips_and_not_the_controller(
    name: str, rows: tuple[MapRow, ...]
) -> None:
    assert read_mapping(sample(name)) == (rows, ())


def test_a_mapping_may_be_separated_by_single_blanks() -> None:
    text = "\n".join(" ".join(line.split()) for line in sample(MAPPINGS[0][0]).splitlines())
    assert read_mapping(text) == (MAPPINGS[0][1], ())


def test_a_row_of_the_mapping_that_lacks_a_column_is_unread() -> None:
    head = sample(MAPPINGS[0][0]).splitlines()[0]
    assert read_mapping(f"{head}\n\t0 Ascend 910B3") == ((), ("0 Ascend 910B3",))


def test_a_mapping_without_header_is_unread() -> None:
    rows, unread = read_mapping("\n".join(sample(MAPPINGS[0][0]).splitlines()[1:]))
    assert rows == ()
    assert unread


BOARDS = [
    (
        "npu-smi-board__910B__25.5.1.txt",
        Board(
            npu_id=0, product_name="IT21HMDC_Bin5", manufacturer="Huawei",
            software_version="25.5.1", firmware_version="7.8.0.6.201", compatibility="OK",
            board_id="0x60", bus_id="0000:A1:00.0", pci_vendor="0x19E5", pci_device="0xD802",
            chip_count=1,
        ),
    ),
    (
        "npu-smi-board__950PR__25.7.rc1.6.txt",
        Board(
            npu_id=0, product_name="A310-50-C00MM304A1", model="A310-50-C00MM304A1",
            npu_name="9579", chip_name="Ascend950PR", chip_version="V100",
            software_version="25.7.rc1.6", firmware_version="9.0.0.105.229", compatibility="OK",
            board_id="0x1a", main_board_id="0x68(1P)", bus_id="0000:41:00.0",
            pci_vendor="0x19E5", pci_device="0xD806", chip_count=1,
        ),
    ),
    (
        "npu-smi-board-chip__910B4__i0-c0.txt",
        Board(npu_id=0, chip_id=0, chip_type="Ascend", chip_name="910B4"),
    ),
    (
        "npu-smi-board-chip__A3__i0-c0.txt",
        Board(npu_id=0, chip_id=0, npu_name="9392", chip_name="Ascend910"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "board"), BOARDS, ids=lambda value: str(value)[:24])
def test_a_board_has_its_printed_values_and_no_serial_number(name: str, board: Board) -> None:
    assert read_board(sample(name)) == (board, ())
    assert "X0000" not in str(board)


def test_an_output_without_any_known_key_is_no_board() -> None:
    assert read_board("Error parameter of -t")[0] is None


def test_common_values_belong_to_the_chip_above_them_and_the_controller_is_left_out() -> None:
    readings, unread = read_readings("common", sample("npu-smi-common__910B1.txt"))
    assert unread == ()
    assert readings == {
        None: {"NPU ID": "3", "Chip Count": "1"},
        0: {
            "Memory Usage Rate(%)": "0",
            "HBM Usage Rate(%)": "5",
            "Aicore Usage Rate(%)": "0",
            "Aicore Freq(MHZ)": "1800",
            "Aicore curFreq(MHZ)": "800",
            "Aicore Count": "24",
            "Temperature(C)": "43",
            "NPU Real-time Power(W)": "91.7",
        },
    }


def test_usages_belong_to_the_chip_below_them() -> None:
    readings, unread = read_readings("usages", sample("npu-smi-usages__910B__25.5.1.txt"))
    assert unread == ()
    assert set(readings) == {0}
    assert len(readings[0]) == 16
    chosen = {key: readings[0][key] for key in ("HBM Capacity(MB)", "Ctrlcpu Usage Rate(%)")}
    assert chosen == {"HBM Capacity(MB)": "65536", "Ctrlcpu Usage Rate(%)": "4"}
    assert readings[0]["Aicube Usage Rate(%)"] == "0"


def test_two_blocks_of_usages_are_not_mixed() -> None:
    text = "HBM Usage Rate(%) : 6\nChip ID : 0\nHBM Usage Rate(%) : 7\nChip ID : 1\n"
    readings, _ = read_readings("usages", text)
    assert readings == {0: {"HBM Usage Rate(%)": "6"}, 1: {"HBM Usage Rate(%)": "7"}}


def test_memory_of_a_950_is_of_the_whole_card() -> None:
    readings, unread = read_readings("memory", sample("npu-smi-memory__950PR__25.7.rc1.6.txt"))
    assert unread == ()
    assert readings == {
        None: {
            "DDR Capacity(MB)": "0",
            "HBM Capacity(MB)": "131072",
            "HBM Clock Speed(MHz)": "3200",
            "HBM Temperature(C)": "49",
        }
    }


def test_process_memory_belongs_to_the_chip_below_it() -> None:
    text = sample("npu-smi-proc-mem__A3__two-chips__empty-process-name.txt")
    assert read_process_memory(text) == (
        {0: (), 1: (CardProcess(pid=2871640, name="", memory_mb=45873),)},
        (),
    )


def test_a_topology_links_every_npu_with_every_other() -> None:
    topology, unread = read_topology(sample("npu-smi-topo__910B3x8.txt"))
    assert unread == ()
    assert topology is not None
    names = [f"NPU{n}" for n in range(8)]
    assert topology.links == {
        one: {other: "X" if one == other else "HCCS" for other in names} for one in names
    }
    assert list(topology.cpu_affinity.values()) == [
        *("120-143", "120-143", "72-95", "72-95", "24-47", "24-47", "48-71", "48-71")
    ]


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("\tDevice-share Status            : True", True),
        ("\tDevice-share Status            : False", False),
        ("This device does not support querying device-share.", None),
    ],
)
def test_device_share_is_yes_no_or_cannot_be_asked(text: str, share: bool | None) -> None:
    assert read_device_share(text) is share
