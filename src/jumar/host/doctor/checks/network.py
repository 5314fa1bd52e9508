"""Ports, links between cards, model hubs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jumar.host.doctor.checks.common import TRUE, check

if TYPE_CHECKING:
    from jumar.host.doctor.base import Values
    from jumar.host.facts import HostFacts

IF_BASE, IF_PORTS, NPU_PORT = 60000, 16, 16666
"""HCCL's defaults: host sockets from 60000 on, one per card, and 16666 on each NPU."""

HCCN_KEYS = ("address", "netmask")
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
HUBS = ("HF_ENDPOINT", "HF_HUB_OFFLINE", "VLLM_USE_MODELSCOPE")


@check("hccl-port-taken")
def hccl_port_taken(facts: HostFacts) -> Iterator[Values]:
    told = facts.environ.get("HCCL_IF_BASE_PORT", "")
    base = int(told) if told.isdecimal() else IF_BASE
    own = range(base, base + IF_PORTS)
    moves = dict.fromkeys(own, ("HCCL_IF_BASE_PORT", str(base + 1000)))
    if "HCCL_NPU_SOCKET_PORT_RANGE" not in facts.environ:
        moves[NPU_PORT] = ("HCCL_NPU_SOCKET_PORT_RANGE", "auto")
    for port in facts.ports if len(facts.cards) > 1 else ():
        if port.port in moves:
            variable, value = moves[port.port]
            who = f"({port.pid} {port.process or ''})" if port.pid else ""
            yield {"port": port.port, "who": who, "variable": variable, "value": value}


@check("hccn-incomplete")
def hccn_incomplete(facts: HostFacts) -> Iterator[Values]:
    # Only a file that configures some NPU is meant to configure all of them.
    chips = {card.npu_id if card.phy_id is None else card.phy_id for card in facts.cards}
    npus = sorted(chips | set(facts.hccn)) if facts.hccn else []
    for npu in npus if len(facts.cards) > 1 else ():
        missing = [key for key in HCCN_KEYS if key not in facts.hccn.get(npu, ())]
        if missing:
            yield {"npu": npu, "missing": ", ".join(missing)}


@check("hub-not-chosen")
def hub_not_chosen(facts: HostFacts) -> Iterator[Values]:
    locale = facts.system.locale or ""
    chinese = locale.lower().startswith("zh_cn") or facts.environ.get("TZ") == "Asia/Shanghai"
    if chinese and not any(facts.environ.get(name) for name in HUBS):
        yield {"locale": locale or "?"}


@check("offline-with-modelscope")
def offline_with_modelscope(facts: HostFacts) -> Iterator[Values]:
    value = facts.environ.get("VLLM_USE_MODELSCOPE", "")
    offline = [name for name in OFFLINE if facts.environ.get(name, "").lower() in TRUE]
    if value.lower() in TRUE and offline:
        yield {"value": value, "offline": ", ".join(offline)}


@check("modelscope-redirect")
def modelscope_redirect(facts: HostFacts) -> Iterator[Values]:
    value = facts.environ.get("VLLM_USE_MODELSCOPE", "")
    if value.lower() in TRUE:
        yield {"value": value}
