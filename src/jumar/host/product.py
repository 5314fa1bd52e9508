"""Which Ascend product a machine is: the doctor asks, and so do container plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumar.host.facts import DeviceNode, HostFacts

LINES = ("910", "910b", "a3", "310p", "310b", "950")
"""Product lines, as they also name image variants and kernel packages."""

ON_BUS = {"910": "910", "910B": "910b", "310P": "310p", "950PR": "950"}
"""What the table of PCI devices calls a chip, to its product line."""

HUAWEI = "19e5"


def product_line(facts: HostFacts) -> str | None:
    """One of `LINES`, from npu-smi, else from the PCI bus; None where neither tells."""
    printed = [card.soc.variant for card in facts.cards if card.soc is not None]
    on_bus = [ON_BUS[device.chip] for device in facts.pci if device.chip in ON_BUS]
    return next(iter([*printed, *on_bus]), None)


def product_name(facts: HostFacts) -> str:
    """For people: the chip's name, else the product line, else "Ascend NPU"."""
    chips = [card.soc.name for card in facts.cards if card.soc is not None]
    line = product_line(facts)
    return next(iter(chips), f"Ascend {line.upper()}" if line else "Ascend NPU")


def card_nodes(facts: HostFacts) -> list[DeviceNode]:
    """The nodes ``/dev/davinciN`` that exist, and virtual ones (``/dev/vdavinciN``)."""
    return [
        node
        for node in facts.nodes
        if node.number is not None and node.path.startswith(("/dev/davinci", "/dev/vdavinci"))
    ]


def on_bus(facts: HostFacts) -> bool:
    """Whether the PCI bus has an accelerator of Huawei."""
    return any(device.vendor == HUAWEI for device in facts.pci)


def has_npu(facts: HostFacts) -> bool:
    """Whether an NPU shows in any way."""
    return bool(facts.cards or card_nodes(facts) or on_bus(facts))
