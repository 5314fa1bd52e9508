"""CANN's environment: is it loaded, and is it of one piece?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jumar.host.doctor.checks.common import ASCEND, cann_home, cann_of, check, inside, set_env
from jumar.host.product import card_nodes, has_npu, product_line, product_name
from jumar.host.soc import find_soc

if TYPE_CHECKING:
    from jumar.host.doctor.base import Values
    from jumar.host.facts import HostFacts

OPP = "ASCEND_OPP_PATH"
ROOTS = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_TOOLKIT_LATEST_HOME", OPP)
DRIVER_LIBRARIES = "/driver/lib64"
ABI = re.compile(r"cxx_abi_([01])")


@check("cann-not-installed")
def cann_not_installed(facts: HostFacts) -> Iterator[Values]:
    if has_npu(facts) and not facts.canns:
        yield {"product": product_name(facts)}


@check("cann-not-sourced")
def cann_not_sourced(facts: HostFacts) -> Iterator[Values]:
    if facts.canns and cann_home(facts) is None and not facts.environ.get(OPP):
        cann = facts.cann or facts.canns[0]
        yield {"cann": cann.version or "?", "root": cann.root, "set_env": set_env(facts)}


@check("opp-path-unset")
def opp_path_unset(facts: HostFacts) -> Iterator[Values]:
    home = cann_home(facts)
    if facts.canns and home is not None and not facts.environ.get(OPP):
        yield {"home": home, "set_env": set_env(facts)}


@check("cann-home-stale")
def cann_home_stale(facts: HostFacts) -> Iterator[Values]:
    roots = ", ".join(cann.root for cann in facts.canns) or "(none)"
    for variable in ROOTS:
        value = facts.environ.get(variable)
        if value and cann_of(facts, value) is None:
            yield {
                "variable": variable,
                "value": value,
                "roots": roots,
                "set_env": set_env(facts),
            }


@check("library-path-without-cann")
def library_path_without_cann(facts: HostFacts) -> Iterator[Values]:
    cann, home = facts.cann, cann_home(facts)
    if cann is None or home is None or not cann.lib_dirs:
        return
    if not any(cann_of(facts, part) is cann for part in facts.env_paths("LD_LIBRARY_PATH")):
        yield {
            "home": home,
            "lib_dirs": ", ".join(cann.lib_dirs),
            "joined": ":".join(cann.lib_dirs),
            "set_env": set_env(facts),
        }


@check("library-path-without-driver")
def library_path_without_driver(facts: HostFacts) -> Iterator[Values]:
    parts = facts.env_paths("LD_LIBRARY_PATH")
    if inside(facts) and card_nodes(facts) and not any(DRIVER_LIBRARIES in part for part in parts):
        yield {}


@check("two-cann-on-path")
def two_cann_on_path(facts: HostFacts) -> Iterator[Values]:
    if facts.cann is None or cann_home(facts) is None:
        return
    roots = dict.fromkeys(
        cann.root
        for part in facts.env_paths("LD_LIBRARY_PATH")
        for cann in [cann_of(facts, part)]
        if cann is not None
    )
    for other in roots:
        if other != facts.cann.root:
            yield {"root": facts.cann.root, "other": other, "set_env": set_env(facts)}


@check("two-cxx-abis")
def two_cxx_abis(facts: HostFacts) -> Iterator[Values]:
    builds = {
        match[1]: part
        for part in reversed(facts.env_paths("LD_LIBRARY_PATH"))
        for match in [ABI.search(part)]
        if match
    }
    if len(builds) == 2:
        second, first = builds.values()
        abi = facts.python.torch_cxx11_abi
        wanted = next(k for k, v in builds.items() if v == first) if abi is None else int(abi)
        yield {"first": first, "second": second, "abi": wanted, "set_env": set_env(facts)}


@check("atb-other-abi")
def atb_other_abi(facts: HostFacts) -> Iterator[Values]:
    home, abi = facts.environ.get("ATB_HOME_PATH", ""), facts.python.torch_cxx11_abi
    match = ABI.search(home)
    if match and abi is not None and match[1] != str(int(abi)):
        yield {"home": home, "abi": int(abi)}


@check("nnal-not-installed")
def nnal_not_installed(facts: HostFacts) -> Iterator[Values]:
    if facts.nnal is None and facts.canns:
        cann = facts.cann or facts.canns[0]
        yield {"cann": cann.version or "?"}


@check("atb-not-sourced")
def atb_not_sourced(facts: HostFacts) -> Iterator[Values]:
    if facts.nnal is not None and not facts.environ.get("ATB_HOME_PATH"):
        script = facts.nnal.set_env or f"{ASCEND}/nnal/atb/set_env.sh"
        yield {"root": facts.nnal.root, "set_env": script}


@check("pythonpath-without-cann")
def pythonpath_without_cann(facts: HostFacts) -> Iterator[Values]:
    parts = facts.env_paths("PYTHONPATH")
    if facts.cann is None or cann_home(facts) is None:
        return
    if not any(cann_of(facts, part) for part in parts):
        value = facts.environ.get("PYTHONPATH") or "(not set)"
        yield {"value": value, "set_env": set_env(facts)}


@check("autoload-on")
def autoload_on(facts: HostFacts) -> Iterator[Values]:
    value = facts.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD")
    if value != "0" and has_npu(facts):
        yield {"value": value or "(not set)"}


@check("spawn-not-set")
def spawn_not_set(facts: HostFacts) -> Iterator[Values]:
    value = facts.environ.get("VLLM_WORKER_MULTIPROC_METHOD")
    if value != "spawn" and has_npu(facts):
        yield {"value": value or "(not set)"}


@check("launch-blocking")
def launch_blocking(facts: HostFacts) -> Iterator[Values]:
    value = facts.environ.get("ASCEND_LAUNCH_BLOCKING", "0")
    if value not in ("", "0"):
        yield {"value": value}


@check("work-path-not-writable")
def work_path_not_writable(facts: HostFacts) -> Iterator[Values]:
    closed = facts.system.cwd_writable is False and not facts.environ.get("ASCEND_WORK_PATH")
    if closed and (facts.canns or has_npu(facts)):
        yield {"cwd": facts.system.cwd or "."}


@check("soc-version-differs")
def soc_version_differs(facts: HostFacts) -> Iterator[Values]:
    value = facts.environ.get("SOC_VERSION", "")
    named = find_soc(value[:1].upper() + value[1:].replace("ascend", "")) if value else None
    # A2 builds say "ascend910b1" for the whole line, so the line is what counts.
    if value and product_line(facts) and (named is None or named.variant != product_line(facts)):
        yield {"value": value, "chip": product_name(facts)}


@check("locale-not-utf8")
def locale_not_utf8(facts: HostFacts) -> Iterator[Values]:
    locale = facts.system.locale
    if locale and "UTF-8" not in locale.upper().replace("UTF8", "UTF-8"):
        yield {"locale": locale}
