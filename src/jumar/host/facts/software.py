"""Installed software: driver, firmware, CANN, NNAL, links between them, Python packages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jumar.host.facts.machine import PathKind
    from jumar.host.ranges import VersionRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """``/usr/local/Ascend/driver/version.info``."""

    path: str
    version: str | None = None
    inner_version: str | None = None
    package_version: str | None = None
    compatible: tuple[str, ...] = ()
    """Inner versions of CANN that the driver accepts: "V100R001C21"."""
    firmware_ranges: tuple[VersionRange, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Firmware:
    """``/usr/local/Ascend/firmware/version.info``."""

    path: str
    version: str | None = None
    package_version: str | None = None
    driver_ranges: tuple[VersionRange, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallInfo:
    """``/etc/ascend_install.info``. `kind` tells the empty folder that Docker makes from a file."""

    path: str
    kind: PathKind
    user: str | None = None
    group: str | None = None
    mode: str | None = None
    """Driver_Install_Mode: "normal" or "vnpu_guest"."""
    status: str | None = None
    """Driver_Install_Status: "complete"; None in a file that was read = incomplete install."""
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One ``version.info`` inside a CANN install: `version` may differ from `version_dir`."""

    path: str
    version: str | None = None
    version_dir: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cann:
    """One CANN toolkit on the disk. A machine may have several, and several witnesses for one."""

    root: str
    """The resolved folder, e.g. "/usr/local/Ascend/ascend-toolkit/8.2.RC1"."""
    layout: Literal["ascend-toolkit", "cann", "other"]
    """"ascend-toolkit" up to 8.3, "cann" ("/usr/local/Ascend/cann-8.5.0") from 8.5."""
    arch_dir: str | None = None
    """The extra folder that libraries live in: "aarch64-linux", "x86_64-linux"; None: no such."""
    aliases: tuple[str, ...] = ()
    """Other names that lead here: "/usr/local/Ascend/ascend-toolkit/latest"."""
    version: str | None = None
    """The best witness: install.info, then version_dir of a component, then the folder's name."""
    dir_version: str | None = None
    """What the folder's name says."""
    install_version: str | None = None
    """What ``ascend_toolkit_install.info`` says."""
    inner_version: str | None = None
    compatible: tuple[str, ...] = ()
    arch: str | None = None
    cfg_version: str | None = None
    """What ``version.cfg`` says of the running toolkit: can be stale."""
    components: Mapping[str, Component] = field(default_factory=dict)
    """By name: "runtime", "compiler", "opp", "opp_kernel", "toolkit", "hccl"."""
    kernels: tuple[str, ...] = ()
    """Chips whose operator kernels are installed: "ascend910b", "ascend310p"."""
    set_env: str | None = None
    """The script to source, where it exists."""
    lib_dirs: tuple[str, ...] = ()
    """Library folders that exist, in the order in which they belong on LD_LIBRARY_PATH."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nnal:
    """The transformer library (ATB) of CANN."""

    root: str
    version: str | None = None
    cxx_abis: tuple[int, ...] = ()
    """Which builds are installed: folders ``atb/cxx_abi_0``, ``atb/cxx_abi_1``."""
    set_env: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A symbolic link, e.g. "/usr/local/Ascend/ascend-toolkit/latest"."""

    path: str
    target: str
    """As stored in the link."""
    resolved: str | None = None
    """The final file or folder; None where the link dangles."""

    @property
    def dangling(self) -> bool:
        """True where the link leads nowhere."""
        return self.resolved is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """An installed Python distribution."""

    name: str
    """Normalised: lower case, dashes ("torch-npu")."""
    version: str
    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Python:
    """The interpreter and the packages that matter here."""

    version: str | None = None
    executable: str | None = None
    packages: Mapping[str, Package] = field(default_factory=dict)
    """By normalised name; one that is not installed has no entry."""
    torch_cxx11_abi: bool | None = None
    """From torch's own build files, without importing it."""
    torch_cuda: str | None = None
    """The CUDA version that torch was built for; None for a CPU build or no torch."""

    def version_of(self, name: str) -> str | None:
        """The version of a package, or None where it is not installed ("_" and "-" are alike)."""
        package = self.packages.get(name.lower().replace("_", "-"))
        return None if package is None else package.version
