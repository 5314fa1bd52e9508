"""Signs of a container, and what it leaves to the process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jumar.host.facts import Container
from jumar.host.parse.lines import pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jumar.host.facts import PathFact
    from jumar.host.parse.mounts import Mount
    from jumar.host.readers.notes import Notes
    from jumar.host.source import HostSource

RUNTIME_WORDS = {
    "kubepods": "kubernetes",
    "docker": "docker",
    "libpod": "podman",
    "containerd": "containerd",
    "lxc": "lxc",
}
"""Words in the control group of process 1, and the kind of container they speak for."""
MARKS = {"/.dockerenv": "docker", "/run/.containerenv": "podman"}
ASCEND_RUNTIME = ("/usr/local/Ascend/Ascend-Docker-Runtime", "/etc/ascend-docker-runtime.d")
DOCKER_SETTINGS = "/etc/docker/daemon.json"
NO_LIMIT_MB = 1 << 40


def read_container(
    source: HostSource,
    notes: Notes,
    environ: Mapping[str, str],
    paths: Mapping[str, PathFact],
    mounts: Iterable[Mount] | None,
) -> Container:
    """Whether this is a container, by files, variables and control groups."""
    kinds, signs = _signs(source, notes, environ)
    known = "container.marks" not in notes.unseen or "container.cgroup" not in notes.unseen
    inside = bool(signs) if signs or known else None
    version, memory, cpus = _limits(source, notes)
    daemon = notes.look("container.docker", source.read, DOCKER_SETTINGS, absent="")
    return Container(
        inside=inside,
        kind=kinds[0] if kinds else None,
        signs=tuple(signs),
        privileged=_privileged(source, notes) if inside else None,
        cgroup_version=version,
        memory_limit_mb=memory,
        cpu_limit=cpus,
        ascend_runtime=_any(
            None if fact is None else fact.exists for fact in map(paths.get, ASCEND_RUNTIME)
        ),
        docker_default_runtime=_default_runtime(daemon),
        mounts=None if mounts is None else tuple(dict.fromkeys(m.point for m in mounts)),
    )


def _signs(
    source: HostSource, notes: Notes, environ: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Kinds of container that something speaks for, best first, and what speaks for them."""
    cgroup = notes.look("container.cgroup", source.read, "/proc/1/cgroup", absent="")
    words = [word for word in RUNTIME_WORDS if word in cgroup]
    signs = [f"/proc/1/cgroup names {word}" for word in words]
    kinds = [RUNTIME_WORDS[word] for word in words]
    for path, kind in MARKS.items():
        fact = notes.look("container.marks", source.stat, path, absent=None)
        if fact is not None and fact.exists:
            signs.append(f"{path} exists")
            kinds.append(kind)
    if "KUBERNETES_SERVICE_HOST" in environ:
        signs.append("KUBERNETES_SERVICE_HOST is set")
        kinds.insert(0, "kubernetes")
    if environ.get("container"):
        signs.append("the variable container is set")
        kinds.append(environ["container"])
    return kinds, signs


def _any(answers: Iterable[bool | None]) -> bool | None:
    """True where one is, None where none is and one is not known."""
    told = list(answers)
    return True if True in told else None if None in told else False


def _default_runtime(daemon: str) -> str | None:
    if not daemon.strip():
        return None
    try:
        settings = json.loads(daemon)
    except ValueError:
        return None  # Docker itself refuses to start with such a file.
    return settings.get("default-runtime") if isinstance(settings, dict) else None


def _privileged(source: HostSource, notes: Notes) -> bool | None:
    """Whether the process has every capability that the kernel knows."""
    status, _ = pairs(notes.look("container.rights", source.read, "/proc/self/status", absent=""))
    last = "/proc/sys/kernel/cap_last_cap"
    highest = notes.look("container.rights", source.read, last, absent="").strip()
    if "CapEff" not in status or not highest.isdecimal():
        return None
    every = (1 << (int(highest) + 1)) - 1
    return int(status["CapEff"], 16) & every == every


def _limits(source: HostSource, notes: Notes) -> tuple[int | None, int | None, float | None]:
    """Version of control groups, memory limit in MB, CPUs by quota."""

    def read(name: str) -> str:
        return notes.look("container.limits", source.read, f"/sys/fs/cgroup/{name}", absent="")

    if read("cgroup.controllers"):
        memory, (quota, period) = read("memory.max"), (read("cpu.max").split() or ["max", "1"])[:2]
        version = 2
    else:
        memory = read("memory/memory.limit_in_bytes")
        quota, period = read("cpu/cpu.cfs_quota_us").strip(), read("cpu/cpu.cfs_period_us").strip()
        version = 1 if memory else 0
    limit = int(memory) >> 20 if memory.strip().isdecimal() else None
    cpus = int(quota) / int(period) if quota.isdecimal() and period.isdecimal() else None
    return version or None, None if limit is None or limit > NO_LIMIT_MB else limit, cpus
