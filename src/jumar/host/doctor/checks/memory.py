"""Memory of cards, machine and disks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jumar.host.accelerators import IDLE_SHARE, unexplained_mb
from jumar.host.doctor.checks.common import check, inside, numbers
from jumar.host.product import has_npu

if TYPE_CHECKING:
    from jumar.host.doctor.base import Values
    from jumar.host.facts import Card, HostFacts

BUSY_SHARE = 0.50
DISK_MB, MEMORY_MB, CONTAINER_MB = 2_000, 2_000, 8_000


def used_share(card: Card) -> float | None:
    """The part of the card's memory that is used, 0 to 1."""
    memory = card.memory
    if memory is None or memory.used is None or not memory.total:
        return None
    return memory.used / memory.total


def usage(card: Card) -> dict[str, object]:
    memory = card.memory
    return {} if memory is None else {"used": memory.used, "total": memory.total}


@check("memory-held-without-process")
def held_without_process(facts: HostFacts) -> Iterator[Values]:
    for card in facts.cards:
        rest = unexplained_mb(card)
        # Without a table of processes nothing is hidden in it.
        if rest and (card.processes is not None or facts.npu_smi.has_process_table):
            yield {**numbers(card), **usage(card), "rest": rest}


@check("card-memory-held")
def card_memory_held(facts: HostFacts) -> Iterator[Values]:
    for card in facts.cards:
        share = used_share(card)
        if share is not None and share > BUSY_SHARE and card.processes:
            who = ", ".join(f"{one.pid} {one.name}".strip() for one in card.processes)
            yield {**numbers(card), **usage(card), "who": who}


@check("memory-not-released")
def memory_not_released(facts: HostFacts) -> Iterator[Values]:
    for card in facts.cards:
        total = card.memory.total if card.memory is not None else None
        for process in card.processes or ():
            held = process.memory_mb or 0
            idle = card.aicore_percent == 0
            if "python" in process.name and idle and total and held > total * IDLE_SHARE:
                yield {
                    **numbers(card),
                    "pid": process.pid,
                    "name": process.name,
                    "memory": held,
                    "total": total,
                    "percent": card.aicore_percent,
                }


@check("process-without-name")
def process_without_name(facts: HostFacts) -> Iterator[Values]:
    for card in facts.cards:
        for process in card.processes or ():
            if not process.name:
                yield {**numbers(card), "pid": process.pid, "memory": process.memory_mb or "?"}


@check("disk-full")
def disk_full(facts: HostFacts) -> Iterator[Values]:
    for disk in facts.disks:
        if disk.path != "/dev/shm" and disk.free_mb < DISK_MB:
            yield {"path": disk.path, "free": disk.free_mb, "total": disk.total_mb}


@check("host-memory-low")
def host_memory_low(facts: HostFacts) -> Iterator[Values]:
    available, total = facts.system.memory_available_mb, facts.system.memory_total_mb
    if available is not None and total is not None and available < MEMORY_MB:
        yield {"available": available, "total": total}


@check("container-memory-limit")
def container_memory_limit(facts: HostFacts) -> Iterator[Values]:
    limit = facts.container.memory_limit_mb
    if inside(facts) and has_npu(facts) and limit is not None and limit < CONTAINER_MB:
        yield {"limit": limit}
