"""Accelerators: chips of an NPU, what npu-smi says of them, NVIDIA GPUs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

ToolErrorKind = Literal[
    "missing", "library", "cannot-open", "no-card", "permission", "timeout", "failed"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """`used` of `total`, in MB or pages; a half that was printed as ``NA`` is None."""

    used: int | None
    total: int | None

    @property
    def free(self) -> int | None:
        """What is left, where both halves are known; never below 0."""
        if self.used is None or self.total is None:
            return None
        return max(0, self.total - self.used)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardProcess:
    """One row of a process table. npu-smi's is cut at a maximum and names may be empty."""

    pid: int
    name: str = ""
    memory_mb: int | None = None
    container_pid: int | None = None
    """Pid inside the container (npu-smi 26.0 and later)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Soc:
    """One row of the table of chip names (``tables/soc_names.tsv``)."""

    name: str
    """As torch_npu and CANN write it: "Ascend910B3", "Ascend910_9392", "Ascend310P3"."""
    torch_npu_int: int
    variant: Literal["910", "910b", "a3", "310p", "310b", "950"]
    """The product line; it also names the variant of container images and kernel packages."""
    generation: str
    """For people: "A2", "A3 (910C)", "910 (A1)", "310P" …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """``npu-smi info -t board``, of a card or of one chip (``-c``). ``NA`` is None."""

    npu_id: int | None = None
    chip_id: int | None = None
    product_name: str | None = None
    model: str | None = None
    manufacturer: str | None = None
    npu_name: str | None = None
    """"9392" on A3, "9579" on 950: part of the chip's real name."""
    chip_type: str | None = None
    chip_name: str | None = None
    chip_version: str | None = None
    chip_fault: str | None = None
    software_version: str | None = None
    """The driver's version."""
    firmware_version: str | None = None
    compatibility: str | None = None
    """OK, NOK, UNKNOWN, or NOT SUPPORT (what every user but root is told: no failure)."""
    board_id: str | None = None
    main_board_id: str | None = None
    bus_id: str | None = None
    pci_vendor: str | None = None
    pci_device: str | None = None
    chip_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One chip (a die on A3) of ``npu-smi info``'s table, completed by ``-m`` and ``-t``."""

    npu_id: int
    chip_id: int | None = None
    """Within the NPU. None where the table has no such column (950) and ``-m`` was not seen."""
    phy_id: int | None = None
    phy_from: Literal["npu-smi", "nodes"] | None = None
    """Whether npu-smi printed `phy_id`, or it was matched: the ids are those of /dev/davinciN."""
    logic_id: int | None = None
    slot_id: int | None = None
    bus_id: str | None = None
    """PCI address; None where printed ``NA`` (310B, 950 on UB boards). Two chips may share one."""
    name: str = ""
    """As npu-smi's table prints it: "910B3", "310P3", "Ascend910", "Ascend950PR"."""
    soc: Soc | None = None
    """None for a name that the table of chips does not have."""
    health: str | None = None
    """As printed: OK, Warning, Alarm, Critical, UNKNOWN."""
    power_w: float | None = None
    temperature_c: int | None = None
    aicore_percent: int | None = None
    """AICore use; "NPU Util(%)" on 950."""
    hugepages: Usage | None = None
    ddr: Usage | None = None
    """The column "Memory-Usage(MB)". A2 and A3 always print ``0 / 0``: no failure."""
    hbm: Usage | None = None
    """The column "HBM-Usage(MB)"; None where the product has none (310P, 310B)."""
    processes: tuple[CardProcess, ...] | None = None
    """None where no process table speaks of this NPU; () is no proof of an idle card."""
    device_share: bool | None = None
    """``-t device-share``: whether several containers may open the card. None: cannot be asked."""
    board: Board | None = None
    readings: Mapping[str, str] = field(default_factory=dict)
    """Further ``-t usages|common|memory`` values by their printed key."""

    @property
    def memory(self) -> Usage | None:
        """The memory that models use: HBM where the chip has some, else DDR."""
        return self.hbm if self.hbm is not None and self.hbm.total else self.ddr

    @property
    def node(self) -> str | None:
        """The device file of this chip on the host."""
        return None if self.phy_id is None else f"/dev/davinci{self.phy_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapRow:
    """One chip of ``npu-smi info -m``; rows of the board's controller ("Mcu") are left out."""

    npu_id: int
    chip_id: int | None = None
    logic_id: int | None = None
    phy_id: int | None = None
    slot_id: int | None = None
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolError:
    """A tool that answered with an error instead of facts."""

    kind: ToolErrorKind
    text: str
    """The lines of the error, as printed."""
    code: int | None = None
    """The number of "ret is -8005" or the like."""
    library: str | None = None
    """The shared object that could not be loaded ("libc_sec.so")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """``npu-smi info -t topo``: link kinds (HCCS, PIX, SYS …) between names like "NPU0"."""

    links: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    cpu_affinity: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NpuSmi:
    """The tool itself. Its cards are `HostFacts.cards`."""

    present: bool | None = None
    path: str | None = None
    version: str | None = None
    """Of the client program. May differ from `driver_version`."""
    driver_version: str | None = None
    """The table's ``Version:``."""
    error: ToolError | None = None
    warnings: tuple[str, ...] = ()
    """``[WARNING]`` lines around the table, as printed."""
    has_process_table: bool = False
    mapping: tuple[MapRow, ...] = ()
    topology: Topology | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaGpu:
    """One row of nvidia-smi."""

    index: int
    name: str
    memory_total_mb: int | None = None
    memory_used_mb: int | None = None
    memory_free_mb: int | None = None
    utilization_percent: int | None = None
    temperature_c: int | None = None
    compute_capability: str | None = None
    bus_id: str | None = None
    processes: tuple[CardProcess, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvidia:
    """nvidia-smi and its GPUs."""

    present: bool | None = None
    driver_version: str | None = None
    gpus: tuple[NvidiaGpu, ...] = ()
    error: ToolError | None = None
