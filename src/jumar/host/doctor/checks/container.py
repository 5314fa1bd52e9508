"""What a container was given, and what it was not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jumar.host.doctor.base import CannotLook
from jumar.host.doctor.checks.common import ASCEND, check, inside, seen_path
from jumar.host.product import card_nodes, has_npu, product_line, product_name

if TYPE_CHECKING:
    from jumar.host.doctor.base import Values
    from jumar.host.facts import HostFacts

UB_LIBRARIES = ("libummu", "liburma")
UB_FOLDER = "/usr/lib64"
DRIVER = f"{ASCEND}/driver"
FILES = (
    "/usr/local/bin/npu-smi",
    "/usr/local/sbin/npu-smi",
    "/etc/ascend_install.info",
    "/etc/vnpu.cfg",
    f"{ASCEND}/driver/version.info",
    f"{ASCEND}/driver/tools/hccn_tool",
)
"""Mounted as files everywhere; where one is a folder, Docker made it."""

SHM_MB, SHM_950_MB = 1000, 16000
ASCEND_VISIBLE = "ASCEND_VISIBLE_DEVICES"


@check("ascend950-not-privileged")
def ascend950_not_privileged(facts: HostFacts) -> Iterator[Values]:
    if not inside(facts) or product_line(facts) != "950" or facts.container.ascend_runtime:
        return
    if facts.container.privileged is None:
        raise CannotLook("container.privileged")
    if not facts.container.privileged:
        yield {"product": product_name(facts)}


@check("ub-libraries-missing")
def ub_libraries_missing(facts: HostFacts) -> Iterator[Values]:
    if not inside(facts) or product_line(facts) != "950":
        return
    seen_path(facts, UB_FOLDER)
    present = [name.rsplit("/", 1)[-1] for name, fact in facts.paths.items() if fact.exists]
    for library in UB_LIBRARIES:
        if not any(name.startswith(library) for name in present):
            yield {"path": f"{UB_FOLDER}/{library}.so*"}


@check("usr-lib64-mounted")
def usr_lib64_mounted(facts: HostFacts) -> Iterator[Values]:
    for mount in facts.container.mounts or () if inside(facts) else ():
        if mount in ("/usr/lib64", "/usr/lib", "/lib64", "/usr/lib/aarch64-linux-gnu"):
            yield {"mount": mount}


@check("driver-libraries-missing")
def driver_libraries_missing(facts: HostFacts) -> Iterator[Values]:
    if not (card_nodes(facts) or facts.cards):
        return
    # The driver may be installed elsewhere (Driver_Install_Path_Param).
    home = facts.driver.path.rsplit("/", 1)[0] if facts.driver is not None else DRIVER
    if not seen_path(facts, f"{home}/lib64").exists:
        yield {"path": f"{home}/lib64"}


@check("runtime-option-nodrv")
def runtime_option_nodrv(facts: HostFacts) -> Iterator[Values]:
    value = facts.environ.get("ASCEND_RUNTIME_OPTIONS", "")
    if inside(facts) and "NODRV" in value.upper():
        yield {"value": value}


@check("ascend-visible-void")
def ascend_visible_void(facts: HostFacts) -> Iterator[Values]:
    value = facts.environ.get(ASCEND_VISIBLE, "")
    if inside(facts) and value.lower() == "void" and not card_nodes(facts):
        yield {"value": value}


@check("runtime-did-not-act")
def runtime_did_not_act(facts: HostFacts) -> Iterator[Values]:
    value = facts.environ.get(ASCEND_VISIBLE, "")
    if inside(facts) and value and value.lower() != "void" and not card_nodes(facts):
        yield {"value": value}


@check("mount-made-folder")
def mount_made_folder(facts: HostFacts) -> Iterator[Values]:
    info = facts.install_info
    kinds = {name: fact.kind for name, fact in facts.paths.items()}
    if info is not None:
        kinds[info.path] = info.kind
    for path in FILES:
        if kinds.get(path) == "directory":
            yield {"path": path}


@check("uid-without-passwd")
def uid_without_passwd(facts: HostFacts) -> Iterator[Values]:
    if has_npu(facts) and facts.user is not None and facts.user.name is None:
        yield {"uid": facts.user.uid, "gid": facts.user.gid}


@check("shm-too-small")
def shm_too_small(facts: HostFacts) -> Iterator[Values]:
    wanted = SHM_950_MB if product_line(facts) == "950" else SHM_MB
    for disk in facts.disks:
        if inside(facts) and has_npu(facts) and disk.path == "/dev/shm" and disk.total_mb < wanted:
            yield {"total": disk.total_mb, "wanted": math.ceil(wanted / 1000)}


@check("container-cpu-limit")
def container_cpu_limit(facts: HostFacts) -> Iterator[Values]:
    limit, count = facts.container.cpu_limit, facts.system.cpu_count
    if limit is not None and count is not None and limit < count:
        yield {"limit": f"{limit:g}", "count": count, "jobs": max(1, int(limit))}
