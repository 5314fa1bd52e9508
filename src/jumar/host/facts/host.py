"""All of it together: `HostFacts`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from jumar.host.facts.cards import Card, NpuSmi, Nvidia
from jumar.host.facts.machine import (
    Container,
    DeviceNode,
    Disk,
    PathFact,
    PciDevice,
    Port,
    System,
    User,
)
from jumar.host.facts.software import Cann, Driver, Firmware, InstallInfo, Link, Nnal, Python

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A line that no parser understood."""

    where: str
    """The tool or file: "npu-smi info", "/etc/ascend_install.info"."""
    line: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Everything that was seen of one machine, live or recorded."""

    source: str = "live"
    """"live", or the path of the recorded host."""
    system: System = field(default_factory=System)
    user: User | None = None
    container: Container = field(default_factory=Container)
    environ: Mapping[str, str] = field(default_factory=dict)
    """Variables that matter here, likely misspellings of one included; credentials masked."""
    python: Python = field(default_factory=Python)

    npu_smi: NpuSmi = field(default_factory=NpuSmi)
    cards: tuple[Card, ...] = ()
    """In the order of npu-smi's table."""
    nvidia: Nvidia = field(default_factory=Nvidia)
    pci: tuple[PciDevice, ...] = ()
    nodes: tuple[DeviceNode, ...] = ()
    """Sorted by name and number: davinci2 before davinci10."""

    driver: Driver | None = None
    firmware: Firmware | None = None
    install_info: InstallInfo | None = None
    """None only where ``/etc`` could not be looked at; a missing file has the kind "missing"."""
    canns: tuple[Cann, ...] = ()
    links: tuple[Link, ...] = ()
    nnal: Nnal | None = None
    mindie: Mapping[str, str] = field(default_factory=dict)
    """Names and versions of MindIE's ``version.info``, as printed."""
    atb_models: Mapping[str, str] = field(default_factory=dict)
    hccn: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Which keys ``/etc/hccn.conf`` sets per NPU: {0: ("address", "netmask")}; no addresses."""

    paths: Mapping[str, PathFact] = field(default_factory=dict)
    """Every path that was asked for (mount sources, libraries, tools), by its name."""
    disks: tuple[Disk, ...] = ()
    ports: tuple[Port, ...] = ()
    """Listening TCP ports."""

    unseen: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[Unread, ...] = ()

    def sees(self, what: str) -> bool:
        """Whether `what` ("nodes", "paths./usr/lib64") could be looked at, it and all above it."""
        parts = what.split(".")
        return not any(".".join(parts[:n]) in self.unseen for n in range(1, len(parts) + 1))

    def path(self, name: str) -> PathFact | None:
        """The fact about a path, or None where it was not looked at."""
        return self.paths.get(name)

    def node(self, name: str) -> DeviceNode | None:
        """The device file of this name ("/dev/davinci0"), or None where there is none."""
        return next((node for node in self.nodes if node.path == name), None)

    def env_paths(self, name: str) -> tuple[str, ...]:
        """The non-empty parts of a variable like LD_LIBRARY_PATH, in order."""
        return tuple(part for part in self.environ.get(name, "").split(":") if part)

    def resolve(self, path: str) -> str:
        """`path` with the longest known link at its head replaced by what it resolves to."""
        for link in sorted(self.links, key=lambda link: len(link.path), reverse=True):
            if link.resolved and (path == link.path or path.startswith(link.path + "/")):
                return link.resolved + path[len(link.path) :]
        return path

    @property
    def cann(self) -> Cann | None:
        """The CANN that the environment chose, else the default link's, else the only one."""
        chosen = self.environ.get("ASCEND_TOOLKIT_HOME") or self.environ.get("ASCEND_HOME_PATH")
        wanted = [chosen] if chosen else []
        wanted += ["/usr/local/Ascend/cann", "/usr/local/Ascend/ascend-toolkit/latest"]
        for path in wanted:
            for cann in self.canns:
                here = {path.rstrip("/"), self.resolve(path.rstrip("/"))}
                if not here.isdisjoint((cann.root, *cann.aliases)):
                    return cann
        return self.canns[0] if len(self.canns) == 1 else None

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON-able data; mappings keep string keys."""
        data: dict[str, Any] = asdict(self)
        data["hccn"] = {str(npu): keys for npu, keys in self.hccn.items()}
        return data
