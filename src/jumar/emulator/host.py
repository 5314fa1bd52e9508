"""The machine around the emulated cards, as a record that `jumar.host` reads (`docs/host.md`).

    JUMAR_EMULATE_NPU=2 python -m jumar.emulator.host machine
    jumar devices --host machine

What npu-smi prints, the nodes below /dev, and the software that is installed (`installed`). Layouts
and widths are those of public outputs; the name of every card says that it is emulated.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.emulator import installed
from jumar.emulator.installed import DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jumar.emulator.settings import Settings
    from jumar.host.recorded import RecordedSource

IDLE_PERCENT = 5
"""What an idle chip shows as used, in percent of its memory: 4 to 9 in public outputs."""


@dataclass(frozen=True)
class Layout:
    """The tables of one product line; `dies` chips share an NPU id.

    `widths` are those of the columns of `npu-smi info`, `mapped` the columns of `npu-smi info -m`.
    """

    key: str
    widths: tuple[int, ...]
    mapped: tuple[str, ...]
    nodes: tuple[str, ...] = ("davinci_manager", "devmm_svm", "hisi_hdc")
    dies: int = 1


MAPPED = ("NPU ID", "Chip ID", "Chip Logic ID", "Chip Name")
A2 = Layout("A2", (27, 15, 52), MAPPED)
A3 = Layout("A3", A2.widths, (*MAPPED[:3], "Chip Phy-ID", "Chip Name"), dies=2)
A310 = Layout("310", (31, 17, 54), MAPPED)
A950 = Layout(
    "950",
    (8, 26, 15, 53),
    ("NPU ID", "Slot ID", "Chip ID", "Chip Phy-ID", "Chip Name"),
    nodes=("davinci_manager", "hisi_hdc"),
)
LAYOUTS = {"910": A2, "910b": A2, "a3": A3, "310p": A310, "310b": A310, "950": A950}


@cache
def _tables() -> dict[str, dict[str, str]]:
    import yaml

    path = Path(__file__).with_name("npu_smi.yaml")
    loaded: dict[str, dict[str, str]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


def npu_smi(settings: Settings) -> str:
    """What `npu-smi info` prints on the emulated machine."""
    layout = LAYOUTS[settings.chip.product]
    rule, thick = _rule(layout.widths, "-"), _rule(layout.widths, "=")
    inside = len(rule) - 4
    lines = [
        "+" + "-" * (len(rule) - 2) + "+",
        f"| {f'npu-smi {DRIVER}':<32} {f'Version: {DRIVER}':<{inside - 33}} |",
        rule,
        _tables()[layout.key]["head"],
        thick,
    ]
    for phy in range(settings.count):
        lines += [_tables()[layout.key]["card"].format(0, **_card(layout, settings, phy)), thick]
    lines += _processes(layout, settings)
    lines.append(f"[WARNING] these NPUs are emulated: {settings.count} {settings.chip.name}")
    return "\n".join(lines) + "\n"


def npu_smi_mapping(settings: Settings) -> str:
    """What `npu-smi info -m` prints."""
    layout = LAYOUTS[settings.chip.product]
    lines = ["".join(f"{title:<30} " for title in layout.mapped)]
    for phy in range(settings.count):
        card = _card(layout, settings, phy)
        row = {
            "NPU ID": card["npu"],
            "Slot ID": phy + 1,
            "Chip ID": card["die"],
            "Chip Logic ID": phy,
            "Chip Phy-ID": phy,
            "Chip Name": card["name"],
        }
        lines.append("".join(f"{row[title]:<30} " for title in layout.mapped))
    return "".join(f"\t{line}\n" for line in lines)


def _rule(widths: tuple[int, ...], sign: str) -> str:
    return "+" + "+".join(sign * width for width in widths) + "+"


def _card(layout: Layout, settings: Settings, phy: int) -> dict[str, str | int]:
    total = settings.memory >> 20
    npu, die = divmod(phy, layout.dies)
    return {
        "npu": npu,
        "die": die,
        "phy": phy,
        "name": f"{settings.chip.printed} (emulated)",
        "health": "OK",
        "power": "-" if die else "90.0",
        "temp": 40,
        "bus": f"0000:{0xC1 + phy:02X}:00.0",
        "used": total * IDLE_PERCENT // 100,
        "total": total,
        "blank": "",
    }


def _processes(layout: Layout, settings: Settings) -> Iterator[str]:
    inside = sum(layout.widths) + len(layout.widths) - 1
    widths = (27, 15, 26, inside - 27 - 15 - 26 - 3)
    first_title = "NPU ID" if layout.key == "950" else "NPU     Chip"
    titles = (first_title, "Process id", "Process name", "Process memory(MB)")
    yield _rule(widths, "-")
    cells = (f" {title:<{width - 1}}" for title, width in zip(titles, widths, strict=True))
    yield "|" + "|".join(cells) + "|"
    yield _rule(widths, "=")
    for npu in range((settings.count - 1) // layout.dies + 1):
        yield f"| {f'No running processes found in NPU {npu}':<{sum(widths) + 2}}|"
        yield _rule(widths, "=")


def record(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """The record, by name of its part: commands, files, `paths.json`, `host.json`.

    It is complete: what it does not hold is not there. Packages are those of this process, beside
    what the emulated machine brings.
    """
    layout = LAYOUTS[settings.chip.product]
    node = {"kind": "char", "mode": "0660", "uid": 1000, "gid": 1000}
    owner = {"owner": "HwHiAiUser", "group": "HwHiAiUser"}
    nodes = [*(f"davinci{phy}" for phy in range(settings.count)), *layout.nodes]
    seen = {key: environ[key] for key in ("ASCEND_RT_VISIBLE_DEVICES",) if key in environ}
    process = {"uid": 0, "gid": 0, "user": "root", "arch": "aarch64", **_python(settings)}
    host = {
        "format": 1,
        "complete": True,
        "process": process,
        "environ": {
            **installed.VARIABLES,
            **seen,
            "JUMAR_EMULATE_NPU": environ.get("JUMAR_EMULATE_NPU", ""),
        },
        "holders": {},
        "listeners": [],
    }
    folders = [*installed.FOLDERS, installed.kernels(settings.chip.product)]
    paths = {
        **{f"/dev/{name}": {**node, **owner} for name in nodes},
        **dict.fromkeys(folders, "directory"),
        **{link: {"link": target} for link, target in installed.LINKS.items()},
    }
    return {
        "commands/npu-smi info.txt": npu_smi(settings),
        "commands/npu-smi info -m.txt": npu_smi_mapping(settings),
        **{f"files{path}": text for path, text in installed.FILES.items()},
        "paths.json": json.dumps(paths, indent=1),
        "host.json": json.dumps(host, indent=1),
    }


def _python(settings: Settings) -> dict[str, object]:
    from importlib.metadata import PackageNotFoundError, version

    from jumar.emulator.finder import VERSIONS
    from jumar.host.readers.process import PACKAGES

    packages = dict(installed.PACKAGES)
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            packages[name] = version(name)
    packages["torch-npu"] = VERSIONS[settings.profile]
    return {
        "python_version": sys.version.split()[0],
        "cpu_count": os.cpu_count(),
        "cpu_usable": len(os.sched_getaffinity(0)),
        "packages": {name: [one, "/site-packages"] for name, one in packages.items()},
    }


def source() -> RecordedSource:
    """The record as a machine that `jumar.host` asks, while `JUMAR_EMULATE_NPU` is set.

    CPU and memory are those of this machine: what runs on the CPU runs on this one.
    """
    from jumar.emulator.settings import read_settings
    from jumar.host.recorded import RecordedSource

    texts = record(read_settings(os.environ), os.environ)
    return RecordedSource("emulated", {**texts, **_beneath()})


def _beneath() -> dict[str, str]:
    """What `lscpu` and the kernel say; nothing where they cannot be asked."""
    from jumar.host.live import LiveSource

    live, found = LiveSource(), {}
    with suppress(OSError):
        found["commands/lscpu.txt"] = live.run("lscpu").text
    with suppress(OSError):
        found["files/proc/meminfo"] = live.read("/proc/meminfo")
    return found


def write_host(folder: Path, settings: Settings, environ: Mapping[str, str]) -> Path:
    """Write the record into `folder`, which is made. Raises OutputFailed where that fails."""
    from jumar.contracts.errors import OutputFailed

    try:
        for name, text in record(settings, environ).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputFailed(f"The emulated machine cannot be written to {folder}.") from error
    return folder


def main() -> None:
    """`python -m jumar.emulator.host FOLDER`."""
    from jumar.contracts.errors import JumarError
    from jumar.emulator.settings import read_settings

    if len(sys.argv) != 2:
        raise SystemExit("Usage: JUMAR_EMULATE_NPU=2 python -m jumar.emulator.host FOLDER")
    try:
        folder = write_host(Path(sys.argv[1]), read_settings(os.environ), os.environ)
    except JumarError as error:
        raise SystemExit(f"{error.message} {error.hint or ''}".strip()) from error
    sys.stdout.write(f"{folder}\n")


if __name__ == "__main__":
    main()
