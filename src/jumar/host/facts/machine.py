"""The machine and the process: files, device nodes, user, container, memory, disks, ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PathKind = Literal["file", "directory", "char", "block", "socket", "other", "missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFact:
    """Whether something exists, what it is, and whose it is (after following links)."""

    path: str
    kind: PathKind
    mode: int | None = None
    """Permission bits only: 0o660."""
    uid: int | None = None
    gid: int | None = None
    owner: str | None = None
    group: str | None = None
    target: str | None = None
    """Where the path itself is a link: what it says. A dangling link has the kind "missing"."""

    @property
    def exists(self) -> bool:
        """True for anything but "missing"."""
        return self.kind != "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that has a device file open."""

    pid: int
    name: str = ""
    container: str | None = None
    """The first 12 digits of the container's id, from the process's cgroup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode(PathFact):
    """A file of ``/dev`` that accelerators use. Major numbers differ per machine: not kept."""

    usable: bool | None = None
    """Whether this user may read and write it, by mode and owner (the node is never opened)."""
    holders: tuple[Holder, ...] | None = None
    """Who has it open; None where other processes cannot be looked at."""

    @property
    def number(self) -> int | None:
        """The N of ``/dev/davinciN``, ``/dev/vdavinciN`` or ``/dev/nvidiaN``."""
        tail = self.path.rsplit("/", 1)[-1].lstrip("abcdefghijklmnopqrstuvwxyz")
        return int(tail) if tail.isdecimal() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PciDevice:
    """An accelerator on the PCI bus, seen without any vendor tool."""

    bus_id: str
    vendor: str
    """Four hex digits, lower case: "19e5" (Huawei), "10de" (NVIDIA)."""
    device: str
    chip: str | None = None
    """"910B", "310P", "910", "950PR" for known Huawei devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """The user that runs this process."""

    uid: int
    gid: int
    name: str | None = None
    """None where the uid has no passwd entry (HCCL then fails with error 19)."""
    groups: tuple[int, ...] = ()
    group_names: tuple[str, ...] = ()
    home: str | None = None

    @property
    def root(self) -> bool:
        """True for uid 0."""
        return self.uid == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """Whether this process runs in a container, and what that leaves to it."""

    inside: bool | None = None
    kind: str | None = None
    """"docker", "podman", "kubernetes", "containerd", "lxc", or None."""
    signs: tuple[str, ...] = ()
    """What gave it away, in words."""
    privileged: bool | None = None
    """Whether the process has all capabilities; None where that cannot be told."""
    cgroup_version: int | None = None
    memory_limit_mb: int | None = None
    cpu_limit: float | None = None
    """CPUs by quota; None: no limit."""
    ascend_runtime: bool | None = None
    """Whether the Ascend container runtime is installed (host) or set this container up."""
    docker_default_runtime: str | None = None
    mounts: tuple[str, ...] | None = None
    """Mount points of this process, from ``/proc/self/mountinfo``; None: not looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A mounted place that matters: "/", "/tmp", "/dev/shm", the home and cache folders."""

    path: str
    total_mb: int
    free_mb: int
    fs_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A listening TCP port. `loopback`: only this machine can reach it; the address is not kept."""

    port: int
    loopback: bool = False
    pid: int | None = None
    process: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """Kernel, C library, memory, language."""

    kernel: str | None = None
    arch: str | None = None
    """As ``uname -m``: "aarch64", "x86_64"."""
    os_name: str | None = None
    """PRETTY_NAME of ``/etc/os-release``."""
    os_id: str | None = None
    os_version: str | None = None
    glibc: str | None = None
    cpu_model: str | None = None
    cpu_count: int | None = None
    """CPUs of the machine."""
    cpu_usable: int | None = None
    """CPUs that this process may use (affinity)."""
    memory_total_mb: int | None = None
    memory_available_mb: int | None = None
    swap_total_mb: int | None = None
    locale: str | None = None
    """The effective LC_ALL, LC_CTYPE or LANG."""
    reserved_ports: str | None = None
    """``net.ipv4.ip_local_reserved_ports``."""
    cwd: str | None = None
    cwd_writable: bool | None = None
