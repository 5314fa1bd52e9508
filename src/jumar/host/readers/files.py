"""Device nodes, and what stands at the paths that matter."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jumar.host.facts import DeviceNode, PathFact

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jumar.host.facts import Holder, User
    from jumar.host.readers.notes import Notes
    from jumar.host.source import HostSource

_LIBRARIES = re.compile(r"lib(urma|ummu|ascend_hal)\S*")
WANTED = {
    "/dev": re.compile(
        r"v?davinci\d+|davinci_manager|devmm_svm|hisi_hdc"
        # A 310B and a 950 have these besides.
        r"|svm0|ts_aisle|upgrade|sys|vdec|vpc|pngd|venc|log_drv|u?burma\w*|ummu\w*|ubcore"
        r"|nvidia\d+|nvidiactl|nvidia-uvm(-tools)?"
    ),
    "/usr/lib64": _LIBRARIES,
    "/usr/lib/aarch64-linux-gnu": _LIBRARIES,
    "/usr/local/lib": re.compile(r"ascend_transport\.so\S*"),
}
"""Of these folders only some names matter: device files of accelerators, and libraries whose exact
names differ per driver (each that exists becomes a path)."""

PATHS = (
    *("/usr/local/Ascend", "/usr/local/Ascend/driver", "/usr/local/Ascend/driver/lib64"),
    *("/usr/local/Ascend/driver/lib64/common", "/usr/local/Ascend/driver/lib64/driver"),
    *("/usr/local/Ascend/driver/lib64/driver/libascend_hal.so",),
    *("/usr/local/Ascend/driver/lib64/driver/libdrvdsmi_host.so",),
    *("/usr/local/Ascend/driver/lib64/common/libc_sec.so", "/usr/local/Ascend/driver/version.info"),
    *("/usr/local/Ascend/driver/tools/hccn_tool", "/usr/local/Ascend/firmware"),
    *("/usr/local/Ascend/version.info", "/usr/local/Ascend/add-ons", "/usr/local/dcmi"),
    *("/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi", "/usr/local/sbin"),
    *("/usr/local/Ascend/ascend-toolkit/set_env.sh", "/usr/local/Ascend/nnal/atb/set_env.sh"),
    *("/etc/ascend_install.info", "/etc/Ascend/ascend_cann_install.info", "/etc/hccn.conf"),
    *("/etc/vnpu.cfg", "/etc/hdcBasic.cfg", "/etc/sys_version.conf", "/etc/ascend_filelist.info"),
    *("/etc/ascend-docker-runtime.d", "/etc/ascend-docker-runtime.d/base.list"),
    *("/usr/local/Ascend/Ascend-Docker-Runtime", "/etc/docker/daemon.json"),
    *("/var/log/npu", "/usr/slog", "/var/slogd", "/var/dmp_daemon", "/usr/lib64/aicpu_kernels"),
    *("/usr/lib64/libcrypto.so.1.1", "/usr/lib64/libyaml-0.so.2", "/usr/lib64/urma"),
    *("/usr/lib64", "/dev/shm", "/root/.cache", "/var/lib/docker", "/.dockerenv"),
)
"""What doctors and container plans ask about: mount sources, libraries, tools."""


def read_nodes(source: HostSource, notes: Notes, user: User | None) -> tuple[DeviceNode, ...]:
    """The device files of accelerators, by name and number, and who holds them."""
    chosen = sorted(_wanted("nodes", source, notes, "/dev"), key=_by_number)
    if not chosen:
        return ()
    nothing: Mapping[str, Sequence[Holder]] | None = None
    holders = notes.look("nodes.holders", source.holders, absent=nothing)
    nodes = []
    for name in chosen:
        part, path = f"nodes./dev/{name}", f"/dev/{name}"
        fact = notes.look(part, source.stat, path, absent=None)
        if fact is None and part in notes.unseen:
            fact = PathFact(path=path, kind="other")  # It is listed, so it exists.
        if fact is None or not fact.exists:
            continue
        nodes.append(
            DeviceNode(
                **{key: getattr(fact, key) for key in PathFact.__slots__},
                usable=_usable(fact, user),
                holders=None if holders is None else tuple(holders.get(fact.path, ())),
            )
        )
    return tuple(nodes)


def _by_number(name: str) -> tuple[str, int]:
    digits = re.search(r"\d+$", name)
    return (name[: digits.start()], int(digits[0])) if digits else (name, -1)


def _usable(fact: PathFact, user: User | None) -> bool | None:
    """Whether mode and owner let this user read and write; root may always."""
    if user is None or fact.mode is None or fact.uid is None or fact.gid is None:
        return None
    if user.root:
        return True
    shift = 6 if user.uid == fact.uid else 3 if fact.gid in (user.gid, *user.groups) else 0
    return (fact.mode >> shift) & 0o6 == 0o6


def read_paths(source: HostSource, notes: Notes) -> dict[str, PathFact]:
    """What stands at each path of `PATHS`, and the libraries of `WANTED` that are there."""
    facts: dict[str, PathFact] = {}
    libraries = [
        f"{folder}/{name}"
        for folder in WANTED
        if folder != "/dev"
        for name in _wanted(f"paths.{folder}", source, notes, folder)
    ]
    for path in [*PATHS, *libraries]:
        fact = notes.look(f"paths.{path}", source.stat, path, absent=None)
        if fact is not None:
            facts[path] = fact
    return facts


def _wanted(part: str, source: HostSource, notes: Notes, folder: str) -> list[str]:
    names: Sequence[str] = notes.look(part, source.listdir, folder, absent=())
    return [name for name in names if WANTED[folder].fullmatch(name)]
