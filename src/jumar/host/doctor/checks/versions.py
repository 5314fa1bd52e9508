"""The chain: driver, firmware, CANN, kernels, NNAL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jumar.host.doctor.base import CannotLook
from jumar.host.doctor.checks.common import ASCEND, check, inside
from jumar.host.doctor.pairs import minor
from jumar.host.product import card_nodes, has_npu, product_line, product_name
from jumar.host.ranges import version_key
from jumar.host.tables import rows

if TYPE_CHECKING:
    from jumar.host.doctor.base import Values
    from jumar.host.facts import Cann, HostFacts

OLDEST_CANN = "8.0.RC2"
KERNELS = {
    "910": ("ascend910",),
    "910b": ("ascend910b",),
    "a3": ("ascend910_93",),
    "310p": ("ascend310p",),
    "310b": ("ascend310b",),
    "950": ("ascend950", "ascend910_95"),
}
"""Folders of operator kernels that serve a product line."""


@check("driver-version-unknown")
def driver_version_unknown(facts: HostFacts) -> Iterator[Values]:
    if inside(facts) and facts.driver is None and card_nodes(facts):
        yield {}


@check("driver-incomplete")
def driver_incomplete(facts: HostFacts) -> Iterator[Values]:
    told = [line for line in facts.npu_smi.warnings if "may not be completely installed" in line]
    info = facts.install_info
    if info is None and not told:
        raise CannotLook("install_info", facts.unseen.get("install_info"))
    if info is None or info.kind != "file":
        yield from ({"path": "npu-smi info", "line": line.strip()} for line in told)
    # Embedded boards (310B) come without an installer, so without its last line.
    elif info.status != "complete" and product_line(facts) != "310b":
        yield {"path": info.path, "line": f"Driver_Install_Status={info.status or '(missing)'}"}


@check("install-info-missing")
def install_info_missing(facts: HostFacts) -> Iterator[Values]:
    info = facts.install_info
    if (
        info is not None
        and info.kind == "missing"
        and card_nodes(facts)
        and product_line(facts) != "310b"
    ):
        yield {"path": info.path}


@check("driver-firmware-range")
def driver_firmware_range(facts: HostFacts) -> Iterator[Values]:
    driver, firmware = facts.driver, facts.firmware
    if driver is None or firmware is None:
        return
    driver_version = driver.package_version or driver.version
    sides = (
        ("firmware", firmware.version, "driver", driver_version, driver.firmware_ranges),
        ("driver", driver_version, "firmware", firmware.version, firmware.driver_ranges),
    )
    for one, version, other, other_version, ranges in sides:
        if version and ranges and not any(accepted.holds(version) for accepted in ranges):
            yield {
                "one": one,
                "version": version,
                "other": other,
                "other_version": other_version or "?",
                "ranges": ", ".join(map(str, ranges)),
            }


@check("driver-refuses-cann")
def driver_refuses_cann(facts: HostFacts) -> Iterator[Values]:
    driver, cann = facts.driver, facts.cann
    if driver is None or cann is None or not (driver.inner_version and cann.inner_version):
        return
    if not (driver.compatible and cann.compatible):
        return
    # A newer side lists the older ones, so one direction is enough; their own line always fits.
    ours, theirs = branch(driver.inner_version), branch(cann.inner_version)
    if ours != theirs and ours not in cann.compatible and theirs not in driver.compatible:
        yield {
            "driver": driver.package_version or driver.version,
            "driver_inner": driver.inner_version,
            "cann": cann.version or "?",
            "cann_inner": cann.inner_version,
            "accepted": ", ".join(cann.compatible),
        }


def branch(inner: str) -> str:
    """ "V100R001C25" of "V100R001C25SPC001B201", the form that the lists use."""
    return inner.split("SPC", 1)[0].split("B", 1)[0]


@check("driver-too-old-for-cann")
def driver_too_old(facts: HostFacts) -> Iterator[Values]:
    cann = facts.cann
    driver = facts.driver and (facts.driver.package_version or facts.driver.version)
    if cann is None or cann.version is None or not driver:
        return
    for row in rows("driver_cann.tsv"):
        if row["cann"] == minor(cann.version) and version_key(driver) < version_key(row["driver"]):
            yield {
                "driver": driver,
                "cann": cann.version,
                "row_cann": row["cann"],
                "row_driver": row["driver"],
                "note": row["note"],
            }


@check("client-differs-from-driver")
def client_differs(facts: HostFacts) -> Iterator[Values]:
    smi = facts.npu_smi
    if smi.version and smi.driver_version and smi.version != smi.driver_version:
        yield {"client": smi.version, "driver": smi.driver_version}


@check("cann-too-old")
def cann_too_old(facts: HostFacts) -> Iterator[Values]:
    cann = facts.cann
    if cann is not None and cann.version and version_key(cann.version) < version_key(OLDEST_CANN):
        yield {"cann": cann.version}


@check("cann-witnesses-differ")
def cann_witnesses_differ(facts: HostFacts) -> Iterator[Values]:
    for cann in facts.canns:
        if cann.dir_version and cann.install_version and cann.dir_version != cann.install_version:
            yield {
                "root": cann.root,
                "dir_version": cann.dir_version,
                "install_version": cann.install_version,
            }


@check("cann-cfg-stale")
def cann_cfg_stale(facts: HostFacts) -> Iterator[Values]:
    for cann in facts.canns:
        if cann.cfg_version and cann.version and cann.cfg_version != cann.version:
            yield {"root": cann.root, "cfg_version": cann.cfg_version, "cann": cann.version}


@check("cann-components-differ")
def cann_components_differ(facts: HostFacts) -> Iterator[Values]:
    for cann in facts.canns:
        for name, component in cann.components.items():
            # Only version_dir is written as the toolkit's version is ("8.2.RC1").
            if cann.version and component.version_dir and component.version_dir != cann.version:
                yield {
                    "root": cann.root,
                    "component": name,
                    "version": component.version_dir,
                    "cann": cann.version,
                }


@check("cann-other-arch")
def cann_other_arch(facts: HostFacts) -> Iterator[Values]:
    cann = facts.cann
    if cann is not None and cann.arch and facts.system.arch and cann.arch != facts.system.arch:
        yield {"root": cann.root, "cann_arch": cann.arch, "arch": facts.system.arch}


@check("kernels-missing-for-chip")
def kernels_missing(facts: HostFacts) -> Iterator[Values]:
    cann, line = facts.cann, product_line(facts)
    wanted = KERNELS.get(line or "", ())
    if cann is None or not wanted or not cann.kernels or set(wanted) & set(cann.kernels):
        return
    yield {
        "root": cann.root,
        "kernels": ", ".join(cann.kernels),
        "chip": product_name(facts),
        "wanted": wanted[0],
        "variant": line,
        "cann": cann.version or "?",
        "arch": facts.system.arch or "aarch64",
    }


@check("nnal-other-version")
def nnal_other_version(facts: HostFacts) -> Iterator[Values]:
    nnal, cann = facts.nnal, facts.cann
    if nnal is None or cann is None or not (nnal.version and cann.version) or not has_npu(facts):
        return
    if minor(nnal.version) != minor(cann.version):
        yield {"nnal": nnal.version, "cann": shown(cann)}


def shown(cann: Cann) -> str:
    return cann.version or cann.root.removeprefix(f"{ASCEND}/")
