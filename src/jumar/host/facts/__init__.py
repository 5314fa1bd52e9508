"""What is known about a machine: plain frozen data, made by `jumar.host.read_host`.

Three rules hold everywhere in this module:

* ``None`` means "not known", never "no". An empty tuple or mapping means "looked, nothing there".
* `HostFacts.unseen` names each part that could not be looked at, and why: ``{"npu_smi": "…"}``. Its
  keys are the field names of `HostFacts` ("driver", "nodes", …), with a dotted tail for a part of
  one ("npu_smi.mapping", "paths./usr/lib64"). Ask with `HostFacts.sees`.
* A line that a tool printed and no parser understood is kept in `HostFacts.unread`, never guessed.

Units: memory in MB as npu-smi counts (2**20 bytes), power in W, temperature in °C, rates in %.
Nothing here is secret: values of variables that look like credentials are replaced by
`MASKED`, serial numbers and network addresses are not kept at all.

The four id spaces of an Ascend host, always named:

=============  =====================================================================================
`npu_id`       the number in npu-smi's first column; any numbers (0, 1, 15; 0, 32, 32768; 2144)
`phy_id`       the N of ``/dev/davinciN``, the number for ``docker --device``; one per chip
`logic_id`     0..n-1 over the chips that this container or machine sees
process index  0..m-1 after ``ASCEND_RT_VISIBLE_DEVICES``: torch's ``npu:N`` (`host.visibility`)
=============  =====================================================================================
"""

from __future__ import annotations

from jumar.host.facts.cards import (
    Board,
    Card,
    CardProcess,
    MapRow,
    NpuSmi,
    Nvidia,
    NvidiaGpu,
    Soc,
    ToolError,
    ToolErrorKind,
    Topology,
    Usage,
)
from jumar.host.facts.host import HostFacts, Unread
from jumar.host.facts.machine import (
    Container,
    DeviceNode,
    Disk,
    Holder,
    PathFact,
    PathKind,
    PciDevice,
    Port,
    System,
    User,
)
from jumar.host.facts.software import (
    Cann,
    Component,
    Driver,
    Firmware,
    InstallInfo,
    Link,
    Nnal,
    Package,
    Python,
)

MASKED = "(set, not shown)"
"""Stands for the value of a variable that looks like a credential."""

__all__ = [
    "Board",
    "Cann",
    "Card",
    "CardProcess",
    "Component",
    "Container",
    "DeviceNode",
    "Disk",
    "Driver",
    "Firmware",
    "Holder",
    "HostFacts",
    "InstallInfo",
    "Link",
    "MASKED",
    "MapRow",
    "Nnal",
    "NpuSmi",
    "Nvidia",
    "NvidiaGpu",
    "Package",
    "PathFact",
    "PathKind",
    "PciDevice",
    "Port",
    "Python",
    "Soc",
    "System",
    "ToolError",
    "ToolErrorKind",
    "Topology",
    "Unread",
    "Usage",
    "User",
]
