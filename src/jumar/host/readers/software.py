"""Driver, firmware, CANN, NNAL and MindIE from their files; nothing is run or imported."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Literal

from jumar.host.facts import Cann, Component, Driver, Firmware, InstallInfo, Link, Nnal
from jumar.host.parse.lines import known, pairs
from jumar.host.parse.versions import cfg_version, dir_version, first_version
from jumar.host.ranges import read_list, read_ranges
from jumar.host.source import follow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jumar.host.readers.notes import Notes
    from jumar.host.source import HostSource

ROOT = "/usr/local/Ascend"
INSTALL_INFO = "/etc/ascend_install.info"
ARCH_DIRS = ("aarch64-linux", "x86_64-linux")
COMPONENTS = ("toolkit", "runtime", "compiler", "opp", "opp_kernel", "hccl")
"""Most telling first: the version_dir of the first one found speaks for the install."""
COMPONENT_PLACES = ("{c}", "{a}/{c}", "share/info/{c}", "{a}/share/info/{c}")
KERNELS = "opp/built-in/op_impl/ai_core/tbe/kernel"
LIB_DIRS = ("lib64", "lib64/plugin/opskernel", "lib64/plugin/nnengine", "tools/aml/lib64")
HOME_VARIABLES = ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH")


class Software:
    """Reads the installed software below the install path of the driver."""

    def __init__(self, source: HostSource, notes: Notes) -> None:
        self._source, self._notes = source, notes
        self.install_info = self._install_info()
        self.root = self._driver_root()

    def driver(self) -> Driver | None:
        path = f"{self.root}/driver/version.info"
        values = self._values("driver", path)
        if values is None:
            return None
        return Driver(
            path=path,
            version=values.get("Version"),
            inner_version=values.get("Innerversion"),
            package_version=values.get("package_version"),
            compatible=read_list(values.get("compatible_version", "")),
            firmware_ranges=read_ranges(values.get("compatible_version_fw", "")),
            values=values,
        )

    def firmware(self) -> Firmware | None:
        path = f"{self.root}/firmware/version.info"
        values = self._values("firmware", path)
        if values is None:
            return None
        return Firmware(
            path=path,
            version=values.get("Version"),
            package_version=values.get("package_version"),
            driver_ranges=read_ranges(values.get("compatible_version_drv", "")),
            values=values,
        )

    def canns(self, environ: Mapping[str, str]) -> tuple[tuple[Cann, ...], tuple[Link, ...]]:
        """Every toolkit below the root and those that the environment names, and the links met."""
        links: dict[str, Link] = {}
        names: dict[str, list[str]] = {}
        for place in dict.fromkeys(self._toolkit_places(environ)):
            root = self._real(place, links)
            if root is not None:
                names.setdefault(root, []).extend([] if root == place else [place])
        canns = [self._cann(root, aliases) for root, aliases in names.items()]
        return tuple(cann for cann in canns if cann is not None), tuple(links.values())

    def nnal(self, environ: Mapping[str, str]) -> tuple[Nnal | None, tuple[Link, ...]]:
        links: dict[str, Link] = {}
        home = environ.get("ATB_HOME_PATH", "")
        places = [home.partition("/atb/cxx_abi_")[0]] if "/atb/cxx_abi_" in home else []
        for place in [*places, f"{self.root}/nnal/atb/latest"]:
            root = self._final(place, links)
            if root is None:
                continue
            values = self._values("nnal", f"{root}/version.info") or {}
            builds = self._names("nnal", f"{root}/atb")
            set_env = f"{posixpath.dirname(root)}/set_env.sh"
            found = Nnal(
                root=root,
                version=values.get("Ascend-cann-atb") or first_version(values),
                cxx_abis=tuple(
                    int(name[-1]) for name in builds if name in ("cxx_abi_0", "cxx_abi_1")
                ),
                set_env=set_env if self._kind("nnal", set_env) == "file" else None,
                values=values,
            )
            return found, tuple(links.values())
        return None, tuple(links.values())

    def printed_versions(self, part: str, *places: str) -> dict[str, str]:
        """The names and values of the first ``version.info`` that exists below the root."""
        for place in places:
            values = self._values(part, f"{self.root}/{place}/version.info")
            if values is not None:
                return values
        return {}

    def _install_info(self) -> InstallInfo | None:
        fact = self._notes.look("install_info", self._source.stat, INSTALL_INFO, absent=None)
        if fact is None:
            return None
        values = self._values("install_info", INSTALL_INFO) if fact.kind == "file" else None
        values = values or {}
        return InstallInfo(
            path=INSTALL_INFO,
            kind=fact.kind,
            user=values.get("UserName"),
            group=values.get("UserGroup"),
            mode=values.get("Driver_Install_Mode"),
            status=values.get("Driver_Install_Status"),
            values=values,
        )

    def _driver_root(self) -> str:
        told = self.install_info and self.install_info.values.get("Driver_Install_Path_Param")
        return (told or ROOT).rstrip("/")

    def _toolkit_places(self, environ: Mapping[str, str]) -> Iterator[str]:
        for variable in HOME_VARIABLES:
            if environ.get(variable, "").startswith("/"):
                yield environ[variable].rstrip("/")
        for root in dict.fromkeys([self.root, ROOT]):
            for name in self._names("canns", root):
                if name == "cann" or (dir_version(name) and name.startswith("cann-")):
                    yield f"{root}/{name}"
            for name in self._names("canns", f"{root}/ascend-toolkit"):
                if name == "latest" or dir_version(name):
                    yield f"{root}/ascend-toolkit/{name}"

    def _real(self, place: str, links: dict[str, Link]) -> str | None:
        """The folder that a name of a toolkit leads to.

        Up to 8.3 ``latest`` may be a real folder full of links to the parts of one version: then
        it is another name of the folder that most of its parts lie in.
        """
        root = self._final(place, links)
        if root is None or dir_version(posixpath.basename(root)):
            return root
        homes = []
        for component in COMPONENTS:
            part = f"{root}/{component}"
            if self._notes.look("canns", self._source.readlink, part, absent=None) is None:
                continue
            final = self._final(part, links)
            if final is not None:
                homes.append(_install_root(final))
        return max(homes, key=homes.count) if homes else root

    def _cann(self, root: str, aliases: Sequence[str]) -> Cann | None:
        arches = [arch for arch in ARCH_DIRS if self._kind("canns", f"{root}/{arch}") != "missing"]
        arch = arches[0] if arches else None
        info = self._first_values(
            *(f"{root}/{a}/ascend_toolkit_install.info" for a in arches),
            f"{root}/ascend_toolkit_install.info",
        )
        components = dict(self._components(root, arch))
        cfg = self._first_values(*(f"{place}/version.cfg" for place in (root, *aliases)))
        if not info and not components and not cfg and not arches:
            return None
        in_name = dir_version(posixpath.basename(root))
        of_parts = [part.version_dir for part in components.values() if part.version_dir]
        of_runtime = [part.version for part in components.values() if part.version]
        witnesses = [info.get("version"), *of_parts, in_name, *of_runtime, cfg_version(cfg)]
        return Cann(
            root=root,
            layout=_layout(root),
            aliases=tuple(aliases),
            arch_dir=arch,
            version=next(filter(None, witnesses), None),
            dir_version=in_name,
            install_version=info.get("version"),
            inner_version=info.get("innerversion"),
            compatible=read_list(info.get("compatible_version", "")),
            arch=info.get("arch") or (arch.removesuffix("-linux") if arch else None),
            cfg_version=cfg_version(cfg),
            components=components,
            kernels=tuple(
                name for name in self._names("canns", f"{root}/{KERNELS}") if "ascend" in name
            ),
            set_env=self._set_env(root, aliases),
            lib_dirs=tuple(self._lib_dirs(root, arch)),
        )

    def _components(self, root: str, arch: str | None) -> Iterator[tuple[str, Component]]:
        for component in COMPONENTS:
            for place in COMPONENT_PLACES:
                if "{a}" in place and arch is None:
                    continue
                folder = place.format(c=component, a=arch)
                path = f"{root}/{folder}/version.info"
                values = self._values("canns", path)
                if values is not None:
                    yield (
                        component,
                        Component(
                            path=path,
                            version=known(values.get("Version", "")),
                            version_dir=known(values.get("version_dir", "")),
                            values=values,
                        ),
                    )
                    break

    def _set_env(self, root: str, aliases: Sequence[str]) -> str | None:
        places = [root, *map(posixpath.dirname, aliases), posixpath.dirname(root)]
        scripts = (f"{place}/set_env.sh" for place in places)
        return next((s for s in scripts if self._kind("canns", s) == "file"), None)

    def _lib_dirs(self, root: str, arch: str | None) -> Iterator[str]:
        for base in [root] if arch is None else [root, f"{root}/{arch}"]:
            for name in LIB_DIRS:
                if self._kind("canns", f"{base}/{name}") == "directory":
                    yield f"{base}/{name}"

    def _final(self, path: str, links: dict[str, Link]) -> str | None:
        """Where a path ends after all links, which are kept; None where nothing stands there."""
        try:
            final, passed = follow(path, self._source.readlink)
        except OSError as error:
            self._notes.unseen.setdefault("links", str(error))
            return None
        exists = self._kind("links", final) != "missing"
        for link, target in passed:
            end, _ = follow(link, self._source.readlink)
            there = self._kind("links", end) != "missing"
            links.setdefault(link, Link(path=link, target=target, resolved=end if there else None))
        return final if exists else None

    def _values(self, part: str, path: str) -> dict[str, str] | None:
        nothing: str | None = None
        text = self._notes.look(part, self._source.read, path, absent=nothing)
        if text is None:
            return None
        values, unread = pairs(text)
        self._notes.skip(path, unread)
        return values

    def _first_values(self, *paths: str) -> dict[str, str]:
        return next(filter(None, (self._values("canns", path) for path in paths)), {})

    def _names(self, part: str, folder: str) -> Sequence[str]:
        return self._notes.look(part, self._source.listdir, folder, absent=())

    def _kind(self, part: str, path: str) -> str:
        fact = self._notes.look(part, self._source.stat, path, absent=None)
        return "missing" if fact is None else fact.kind


def _install_root(final: str) -> str:
    """The folder of the version that a part lies in: above it, or above its arch folder."""
    parent = posixpath.dirname(final)
    return posixpath.dirname(parent) if posixpath.basename(parent) in ARCH_DIRS else parent


def _layout(root: str) -> Literal["ascend-toolkit", "cann", "other"]:
    if posixpath.basename(posixpath.dirname(root)) == "ascend-toolkit":
        return "ascend-toolkit"
    return "cann" if posixpath.basename(root).startswith("cann") else "other"
