"""Is there a chip, can its nodes be opened, what does npu-smi say?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jumar.host.doctor.base import CannotLook
from jumar.host.doctor.checks.common import check, first_lines, inside, numbers
from jumar.host.product import card_nodes, has_npu, on_bus, product_line, product_name

if TYPE_CHECKING:
    from jumar.host.doctor.base import Values
    from jumar.host.facts import HostFacts

MANAGER = "/dev/davinci_manager"
SVM = "/dev/devmm_svm"
SUPPORT = ("/dev/hisi_hdc", SVM)
WITHOUT_SVM = ("950", "310b")
"""Product lines that have no such node, or were seen to do without it."""
FAULTS = {"alarm", "critical"}


def expected(facts: HostFacts) -> bool:
    """Whether somebody meant this machine or container to have an NPU."""
    wanted = facts.driver or facts.canns or facts.python.version_of("torch-npu")
    return bool(on_bus(facts) or facts.cards or (inside(facts) and wanted))


@check("no-ascend")
def no_ascend(facts: HostFacts) -> Iterator[Values]:
    if not has_npu(facts) and facts.driver is None and not expected(facts):
        yield {"arch": facts.system.arch or "?"}


@check("pci-without-driver")
def pci_without_driver(facts: HostFacts) -> Iterator[Values]:
    if facts.driver is None and not card_nodes(facts) and not inside(facts):
        for device in facts.pci:
            if device.vendor == "19e5":
                yield {
                    "bus": device.bus_id,
                    "vendor": device.vendor,
                    "device": device.device,
                    "chip": device.chip or "?",
                }


@check("no-davinci-node")
def no_davinci_node(facts: HostFacts) -> Iterator[Values]:
    if expected(facts) and not card_nodes(facts):
        yield {
            "where": "in this container" if inside(facts) else "on this machine",
            "where_zh": "容器内" if inside(facts) else "本机",
        }


@check("manager-node-missing")
def manager_node_missing(facts: HostFacts) -> Iterator[Values]:
    cards = card_nodes(facts)
    if cards and facts.node(MANAGER) is None:
        yield {"cards": len(cards)}


@check("support-node-missing")
def support_node_missing(facts: HostFacts) -> Iterator[Values]:
    line = product_line(facts)
    missing = [node for node in SUPPORT if card_nodes(facts) and facts.node(node) is None]
    if missing == [SVM] and line is None:
        raise CannotLook("product", "not known, and some have no devmm_svm")
    for node in missing:
        if node != SVM or line not in (*WITHOUT_SVM, None):
            yield {"node": node, "product": product_name(facts)}


@check("node-not-openable")
def node_not_openable(facts: HostFacts) -> Iterator[Values]:
    user = facts.user
    for node in (*card_nodes(facts), *map(facts.node, (MANAGER, *SUPPORT))):
        if user is not None and node is not None and node.usable is False:
            yield {
                "node": node.path,
                "mode": "?" if node.mode is None else f"{node.mode:04o}",
                "owner": node.owner or node.uid,
                "group": node.group or node.gid,
                "gid": node.gid,
                "uid": user.uid,
                "groups": ",".join(map(str, user.groups)) or "-",
            }


@check("nodes-fewer-than-cards")
def nodes_fewer_than_cards(facts: HostFacts) -> Iterator[Values]:
    for card in facts.cards if card_nodes(facts) else ():
        if card.node is not None and facts.node(card.node) is None:
            yield numbers(card)


@check("npu-smi-missing")
def npu_smi_missing(facts: HostFacts) -> Iterator[Values]:
    error = facts.npu_smi.error
    # Where nobody looked for nodes or on the bus, an NPU may be there.
    dark = not (facts.sees("nodes") and facts.sees("pci"))
    if expected(facts) or card_nodes(facts) or dark:
        if error is not None and error.kind == "missing":
            yield {"text": first_lines(error.text)}
        elif facts.npu_smi.present is False:
            yield {"text": "npu-smi: no such program"}


@check("npu-smi-library")
def npu_smi_library(facts: HostFacts) -> Iterator[Values]:
    error = facts.npu_smi.error
    if error is not None and error.kind == "library":
        yield {"text": first_lines(error.text), "library": error.library or "?"}


@check("npu-smi-cannot-open")
def npu_smi_cannot_open(facts: HostFacts) -> Iterator[Values]:
    yield from tool_failed(facts, "cannot-open")


@check("npu-smi-no-card")
def npu_smi_no_card(facts: HostFacts) -> Iterator[Values]:
    yield from tool_failed(facts, "no-card")


@check("npu-smi-failed")
def npu_smi_failed(facts: HostFacts) -> Iterator[Values]:
    yield from tool_failed(facts, "permission", "timeout", "failed")


def tool_failed(facts: HostFacts, *kinds: str) -> Iterator[Values]:
    error = facts.npu_smi.error
    if error is not None and error.kind in kinds:
        yield {"text": first_lines(error.text)}


@check("card-unhealthy")
def card_unhealthy(facts: HostFacts) -> Iterator[Values]:
    for card in facts.cards:
        if card.health is not None and card.health.lower() in FAULTS:
            yield {**numbers(card), "health": card.health}


@check("card-health-unsure")
def card_health_unsure(facts: HostFacts) -> Iterator[Values]:
    for card in facts.cards:
        if card.health is not None and card.health.lower() not in {"ok", *FAULTS}:
            yield {**numbers(card), "health": card.health}


@check("board-incompatible")
def board_incompatible(facts: HostFacts) -> Iterator[Values]:
    # "NOT SUPPORT" is what every user but root is told, and UNKNOWN says nothing.
    for card in facts.cards:
        if card.board is not None and card.board.compatibility == "NOK":
            yield {
                **numbers(card),
                "compatibility": card.board.compatibility,
                "driver": card.board.software_version or "?",
                "firmware": card.board.firmware_version or "?",
            }


@check("card-held")
def card_held(facts: HostFacts) -> Iterator[Values]:
    for node in card_nodes(facts):
        for holder in node.holders or ():
            yield {
                "node": node.path,
                "pid": holder.pid,
                "name": holder.name or "?",
                "container": f"({holder.container})" if holder.container else "",
                "share": sharing(facts, node.path),
            }


def sharing(facts: HostFacts, node: str) -> str:
    """What ``-t device-share`` says of the card of a node: 1, 0, or ? where it cannot be asked."""
    told = {card.device_share for card in facts.cards if card.node == node}
    return "?" if told != {True} and told != {False} else str(int(told == {True}))


@check("vnpu-not-privileged")
def vnpu_not_privileged(facts: HostFacts) -> Iterator[Values]:
    if inside(facts) and facts.container.privileged is False and not facts.container.ascend_runtime:
        for node in card_nodes(facts):
            if node.path.startswith("/dev/vdavinci"):
                yield {"node": node.path}
