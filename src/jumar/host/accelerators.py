"""Every accelerator of a machine: which numbers it has, whether it can be used, who holds it.

Whether a card is in use is decided by its memory: a process table may be empty while another
container, or a process that outlived its container, holds the card.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from jumar.host.product import card_nodes
from jumar.host.visibility import VARIABLE, Visibility, read_visibility

if TYPE_CHECKING:
    from jumar.host.facts import Card, HostFacts, NvidiaGpu

Status = Literal["free", "in use", "not usable", "unknown"]

IDLE_SHARE = 0.10
"""An idle chip shows the driver's own use: 4 to 9 % of its memory in public outputs (2.8 of 32 GB,
3.4 of 64 GB, 5.4 of 128 GB, 1.8 of 21 GB), 0 on the first 910. More is taken by somebody."""

MANAGER_NODES = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
NO_SVM = ("950", "310b")
"""Products without /dev/devmm_svm."""
SHARED_MEMORY = ("310b",)
"""Products whose memory is that of the whole board: what is used says nothing of the NPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One NPU chip, GPU, or the CPU. Memory in MB (2**20 bytes)."""

    kind: Literal["npu", "cuda", "cpu"]
    name: str
    label: str | None
    """What torch calls it in this process ("npu:0"); None where it is not visible or not known."""
    status: Status
    total_mb: int | None = None
    used_mb: int | None = None
    free_mb: int | None = None
    held_by: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    """Why it is not usable, or why that is not known."""
    remarks: tuple[str, ...] = ()
    """What else one should know."""
    ids: dict[str, int | None] = field(default_factory=dict)
    """NPU: npu_id, chip_id, phy_id, logic_id, process_index; GPU: index, process_index."""


def accelerators(facts: HostFacts) -> tuple[Accelerator, ...]:
    """All accelerators of a machine: NPUs, then NVIDIA GPUs, then the CPU."""
    seen = visible_chips(facts)
    npus = [_npu(facts, card, seen) for card in facts.cards] or list(_nodes_only(facts))
    return (*npus, *_gpus(facts), _cpu(facts))


def visible_chips(facts: HostFacts) -> Visibility:
    """What ``ASCEND_RT_VISIBLE_DEVICES`` leaves of the chips of this machine."""
    ids = [card.logic_id for card in facts.cards if card.logic_id is not None]
    return read_visibility(facts.environ, ids if len(ids) == len(facts.cards) and ids else None)


def _npu(facts: HostFacts, card: Card, seen: Visibility) -> Accelerator:
    index = None if card.logic_id is None else seen.index_of(card.logic_id)
    reasons = [*_npu_needs(facts), *(text for check in CHECKS for text in check(facts, card))]
    if index is None and card.logic_id is not None:
        reasons.append(f"{VARIABLE}={seen.value} leaves it out")
    memory, holders = card.memory, tuple(_holders(facts, card))
    busy = in_use(card) or bool(holders)
    return Accelerator(
        kind="npu",
        name=_shown_name(card),
        label=None if index is None else f"npu:{index}",
        status="not usable" if reasons else "in use" if busy else "free",
        total_mb=memory.total if memory else None,
        used_mb=memory.used if memory else None,
        free_mb=memory.free if memory else None,
        held_by=holders,
        reasons=tuple(reasons),
        remarks=tuple(_remarks(facts, card)),
        ids={
            "npu_id": card.npu_id,
            "chip_id": card.chip_id,
            "phy_id": card.phy_id,
            "logic_id": card.logic_id,
            "process_index": index,
        },
    )


def _shown_name(card: Card) -> str:
    """The chip's one name; an emulated card says so wherever it is shown."""
    if card.soc is None:
        return card.name
    emulated = card.name.endswith("(emulated)")
    return f"{card.soc.name} (emulated)" if emulated else card.soc.name


def in_use(card: Card) -> bool:
    """Whether more memory is taken than an idle chip shows (`IDLE_SHARE`)."""
    memory = card.memory
    if memory is None or memory.used is None or not memory.total:
        return False
    if card.soc is not None and card.soc.variant in SHARED_MEMORY:
        return bool(card.processes)
    return memory.used > IDLE_SHARE * memory.total


def unexplained_mb(card: Card) -> int:
    """What of a card in use no listed process accounts for, beyond an idle chip's own; else 0."""
    memory = card.memory
    if memory is None or memory.used is None or not memory.total or not in_use(card):
        return 0
    rest = memory.used - sum(process.memory_mb or 0 for process in card.processes or ())
    return rest if rest > IDLE_SHARE * memory.total else 0


def _holders(facts: HostFacts, card: Card) -> Iterator[str]:
    """Processes of npu-smi's table, and those that have the device file open."""
    listed = card.processes or ()
    for process in listed:
        size = "" if process.memory_mb is None else f", {process.memory_mb} MB"
        yield f"{process.name or '(no name)'} (pid {process.pid}{size})"
    node = facts.node(card.node) if card.node else None
    for holder in (node and node.holders) or ():
        if holder.pid not in {process.pid for process in listed}:
            where = f", {holder.container}" if holder.container else ""
            yield f"{holder.name or '(no name)'} (pid {holder.pid}{where}) has {card.node} open"
    taken = unexplained_mb(card)
    if taken:
        yield f"{taken} MB: nobody that can be seen from here"


def _npu_needs(facts: HostFacts) -> Iterator[str]:
    """What this process lacks for every NPU."""
    if facts.sees("python") and facts.python.version_of("torch-npu") is None:
        yield "torch_npu is not installed"
    if facts.sees("environ") and not facts.environ.get("ASCEND_OPP_PATH"):
        yield "the CANN environment is not loaded (ASCEND_OPP_PATH is not set)"


def _health(facts: HostFacts, card: Card) -> Iterator[str]:
    if (card.health or "").lower() == "critical":
        yield "npu-smi calls its health Critical"


def _device_file(facts: HostFacts, card: Card) -> Iterator[str]:
    if card.node is None or not facts.sees("nodes") or _is_virtual(facts):
        return
    node = facts.node(card.node)
    if node is None:
        yield f"{card.node} does not exist here"
    elif node.usable is False:
        mode = "" if node.mode is None else f", {node.mode:04o}"
        yield f"this user may not open {card.node} ({node.owner}:{node.group}{mode})"


def _is_virtual(facts: HostFacts) -> bool:
    """Whether the cards are slices (vNPU): their files, ``/dev/vdavinciN``, count otherwise."""
    return any(node.path.startswith("/dev/vdavinci") for node in facts.nodes)


def _manager_files(facts: HostFacts, card: Card) -> Iterator[str]:
    if not facts.sees("nodes"):
        return
    variant = card.soc.variant if card.soc else None
    for path in MANAGER_NODES:
        needless = path == "/dev/devmm_svm" and variant in NO_SVM
        if not needless and facts.node(path) is None:
            yield f"{path} does not exist here"


CHECKS: tuple[Callable[[HostFacts, Card], Iterator[str]], ...] = (
    _health,
    _device_file,
    _manager_files,
)
"""What makes one card unusable; each yields its reasons."""


def _remarks(facts: HostFacts, card: Card) -> Iterator[str]:
    if (card.health or "OK").lower() not in ("ok", "critical"):
        yield f"npu-smi calls its health {card.health}"
    if card.soc is None:
        yield f"{card.name!r} is no chip that Jumar knows"
    if card.phy_from == "nodes":
        yield f"/dev/davinci{card.phy_id}: matched with the files in /dev, not told by npu-smi"
    if card.device_share is False and facts.container.inside:
        yield "device-share is off: only one container can use the card"
    board = card.board
    if board is not None and board.compatibility == "NOK":
        yield "npu-smi says that driver and firmware do not fit (Compatibility NOK)"


def _nodes_only(facts: HostFacts) -> Iterator[Accelerator]:
    """Device files without a card in npu-smi: they exist, and nothing more is known of them."""
    error = facts.npu_smi.error
    why = facts.unseen.get("npu_smi") or (error.text.splitlines()[0] if error else "no card listed")
    for node in card_nodes(facts):
        virtual = node.path.startswith("/dev/v")
        yield Accelerator(
            kind="npu",
            name=f"Ascend {'vNPU' if virtual else 'NPU'} {node.path}",
            label=None,
            status="unknown",
            held_by=tuple(f"{one.name} (pid {one.pid})" for one in node.holders or ()),
            reasons=(f"npu-smi cannot tell: {why}", *_npu_needs(facts)),
            ids={} if virtual else {"phy_id": node.number},
        )


def _gpus(facts: HostFacts) -> Iterator[Accelerator]:
    if facts.sees("python") and facts.python.version_of("torch") is None:
        needs = ["torch is not installed"]
    elif facts.sees("python.torch") and facts.sees("python") and facts.python.torch_cuda is None:
        needs = [f"torch {facts.python.version_of('torch')} is built without CUDA"]
    else:
        needs = []
    order = _cuda_order(facts)
    for gpu in facts.nvidia.gpus:
        index = order.index(gpu.index) if gpu.index in order else None
        reasons = list(needs)
        if index is None:
            reasons.append(f"CUDA_VISIBLE_DEVICES={facts.environ['CUDA_VISIBLE_DEVICES']}")
        yield _gpu(gpu, index, reasons)


def _gpu(gpu: NvidiaGpu, index: int | None, reasons: list[str]) -> Accelerator:
    total, used = gpu.memory_total_mb, gpu.memory_used_mb
    busy = bool(gpu.processes) or (used is not None and total and used > IDLE_SHARE * total)
    return Accelerator(
        kind="cuda",
        name=gpu.name,
        label=None if index is None else f"cuda:{index}",
        status="not usable" if reasons else "in use" if busy else "free",
        total_mb=total,
        used_mb=used,
        free_mb=gpu.memory_free_mb,
        held_by=tuple(f"{process.name} (pid {process.pid})" for process in gpu.processes or ()),
        reasons=tuple(reasons),
        ids={"index": gpu.index, "process_index": index},
    )


def _cuda_order(facts: HostFacts) -> list[int]:
    """The GPUs in the order of the process. CUDA stops at the first entry that it does not know."""
    every = [gpu.index for gpu in facts.nvidia.gpus]
    value = facts.environ.get("CUDA_VISIBLE_DEVICES")
    if value is None or "GPU-" in value or "MIG-" in value:
        return every
    order: list[int] = []
    for part in value.split(","):
        if not part.strip().isdecimal() or int(part) not in every:
            break
        order.append(int(part))
    return order


def _cpu(facts: HostFacts) -> Accelerator:
    system, limit = facts.system, facts.container.memory_limit_mb
    totals = [size for size in (system.memory_total_mb, limit) if size is not None]
    total, free = min(totals, default=None), system.memory_available_mb
    if free is not None and total is not None:
        free = min(free, total)
    count = system.cpu_usable or system.cpu_count
    name = system.cpu_model or system.arch or "CPU"
    return Accelerator(
        kind="cpu",
        name=f"{name} x{count}" if count else name,
        label="cpu",
        status="free",
        total_mb=total,
        used_mb=None if total is None or free is None else total - free,
        free_mb=free,
        remarks=() if limit is None else (f"this container may use {limit} MB",),
    )
