"""Hold what is recorded of torch_npu 2.13.0 against the real one, without CANN: its API in
`tests/emulated` and its registrations in the catalogue of operators.

    python tools/check_torch_npu.py           # compare
    python tools/check_torch_npu.py --update  # write both anew

The wheel is unpacked into a folder of its own (`build/torch_npu`, never an environment), beside
empty stand-ins for the libraries of CANN that it links to: enough to import it and read its names,
signatures, schemas and registrations; nothing can run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
DUMP = ROOT / "tests" / "emulated" / "torch_npu-2.13.0.json"
CATALOGUE = ROOT / "src/jumar/operators/catalogue/recorded/torch_npu-2.13.0.json"
FOLDER = ROOT / "build" / "torch_npu"
WHEEL = "torch_npu==2.13.0"
LIBRARIES = (
    *("libascendcl.so", "libhccl.so", "libacl_op_compiler.so", "libge_runner.so", "libgraph.so"),
    *("libacl_tdt_channel.so", "libatb.so"),
)
"""What libtorch_npu.so needs and CANN would bring; the first one defines all symbols."""

PROBE = """
import inspect, json, re, sys
import torch, torch_npu
def signature(one):
    if not callable(one) or type(one).__name__ == "OpOverloadPacket":
        return None
    try:
        return str(inspect.signature(one))
    except (TypeError, ValueError):
        return None
def public(module):
    names = [name for name in sorted(dir(module)) if name[0] != "_"]
    return {name: signature(getattr(module, name)) for name in names}
wanted = set(json.loads(sys.argv[1]))
every = map(str, torch._C._jit_get_all_schemas())
registered = torch._C._dispatch_get_registrations_for_dispatch_key
json.dump({
    "version": torch_npu.__version__,
    "torch_npu": public(torch_npu),
    "torch.npu": public(torch.npu),
    "schemas": sorted(s for s in every if re.split("[.(]", s)[0].removeprefix("npu::") in wanted),
    "autocast": sorted(registered("AutocastPrivateUse1")),
    "native": sorted({name.split(".")[0].removeprefix("aten::")
                      for name in registered("PrivateUse1") if name.startswith("aten::")}),
}, sys.stdout)
"""

REGISTRATIONS = """
import sys
from dataclasses import replace
import torch, torch_npu
from jumar.operators.catalogue import torch_names, torch_npu as reader
from jumar.operators.catalogue.base import Catalogue, merged
from jumar.operators.catalogue.record import write
known = torch_names.read().operators
found = reader.read(known)
registered = {one.operator for one in found.implementations}
own = {
    name: replace(
        one,
        keys=tuple(key for key in one.keys if "PrivateUse1" in key),
        schema="" if one.kind == "aten" else one.schema,
    )
    for name, one in known.items() if name in registered or one.kind == "library"
}
source = "the wheel of torch_npu, imported beside empty stand-ins for CANN"
write(merged([replace(found, operators=own)]), sys.argv[1], source=source)
"""


def main() -> int:
    """Compare or update; 1 where they differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write the dump anew")
    update = parser.parse_args().update
    unpack()
    stand_in()
    found = json.loads(inside(PROBE, json.dumps(called())).splitlines()[-1])
    native = found.pop("native")
    if update:
        DUMP.write_text(json.dumps(found, indent=0, sort_keys=True), encoding="utf-8")
        (emulator() / "native_2.13.txt").write_text(
            "# The aten operators that torch_npu 2.13.0 registers NPU kernels for, "
            "without overloads.\n" + "\n".join(native) + "\n",
            encoding="utf-8",
        )
        inside(REGISTRATIONS, str(CATALOGUE))
        print(f"written: {DUMP} and {CATALOGUE}")
        return 0
    differences = compare(json.loads(DUMP.read_text(encoding="utf-8")), found)
    differences += missing("native operator", set(listed("native_2.13.txt")), set(native))
    differences += registrations()
    for line in differences:
        print(line)
    print(f"torch_npu {found['version']}: {len(differences)} differences from the dump")
    return 1 if differences else 0


def emulator() -> Path:
    """The emulator's package."""
    return ROOT / "src" / "jumar" / "emulator"


def listed(name: str) -> list[str]:
    """The lines of one of the emulator's lists."""
    lines = (emulator() / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def unpack() -> None:
    """The wheel, without what it depends on, in `FOLDER`."""
    if (FOLDER / "torch_npu").exists():
        return
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(FOLDER)]
    subprocess.run([*pip, WHEEL], check=True)


def stand_in() -> None:
    """Empty libraries with every symbol that nothing else defines; functions answer 507899."""
    stubs = FOLDER / "stubs"
    stubs.mkdir(exist_ok=True)
    lines = [".text"]
    for name in sorted(unresolved()):
        if name.startswith(("_ZTV", "_ZTI", "_ZTS")):
            lines.append(
                f'.data\n.globl "{name}"\n.type "{name}",@object\n"{name}": .zero 512\n.text'
            )
        else:
            body = "mov $507899, %eax\n ret"
            lines.append(f'.globl "{name}"\n.type "{name}",@function\n"{name}": {body}')
    lines.append('.section .note.GNU-stack,"",@progbits\n')
    source = stubs / "stubs.s"
    source.write_text("\n".join(lines), encoding="utf-8")
    first, *rest = LIBRARIES
    compile_ = ["gcc", "-shared", "-Wl,--no-as-needed"]
    run([*compile_, str(source), f"-Wl,-soname,{first}", "-o", str(stubs / first)])
    for name in rest:
        empty = stubs / "empty.c"
        empty.write_text("", encoding="utf-8")
        place = [f"-L{stubs}", f"-l:{first}", "-Wl,-rpath,$ORIGIN"]
        run([*compile_, str(empty), f"-Wl,-soname,{name}", *place, "-o", str(stubs / name)])


def unresolved() -> set[str]:
    """Symbols that torch_npu's libraries want and neither they, torch nor the system define."""
    import torch

    package = FOLDER / "torch_npu"
    own = [*package.glob("lib/*.so"), *package.glob("_C*.so")]
    system = [Path("/lib") / os.uname().machine.join(("", "-linux-gnu")), Path("/lib64")]
    others = [*Path(torch.__file__).parent.glob("lib/*.so*")]
    for folder in system:
        for name in ("stdc++.so.6", "c.so.6", "m.so.6", "gcc_s.so.1", "pthread.so.0", "dl.so.2"):
            others += folder.glob(f"lib{name}")
        others += folder.glob("ld-linux*")
    wanted = {name for one in own for name in symbols(one, "--undefined-only")}
    defined = {name for one in [*own, *others] for name in symbols(one, "--defined-only")}
    return {name for name in wanted - defined if not name.startswith(("Py", "_Py"))}


def symbols(library: Path, which: str) -> set[str]:
    """Dynamic symbols, weak ones that are not defined apart."""
    rows = [line.split() for line in run(["nm", "-D", which, str(library)]).splitlines()]
    return {row[-1].split("@")[0] for row in rows if row and "w" not in row[:-1]}


def called() -> list[str]:
    """The names of torch_npu's own operators that the emulator has."""
    return [line.split("(")[0] for line in listed("npu_2.13.txt")]


def inside(code: str, *arguments: str) -> str:
    """The output of code that runs where the real module can be imported beside the stand-ins."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("ASCEND")}
    environ.pop("JUMAR_EMULATE_NPU", None)
    environ.update(
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
        LD_LIBRARY_PATH=str(FOLDER / "stubs"),
        PYTHONPATH=str(FOLDER),
    )
    return run([sys.executable, "-c", code, *arguments], env=environ)


def registrations() -> list[str]:
    """Where the recorded catalogue differs from what the real module registers."""
    fresh = FOLDER / "registrations.json"
    inside(REGISTRATIONS, str(fresh))
    recorded, found = (json.loads(path.read_text(encoding="utf-8")) for path in (CATALOGUE, fresh))
    for part in (recorded, found):
        part.pop("made_by")
    return [f"catalogue: {key} differs" for key in found if recorded.get(key) != found[key]]


def compare(recorded: dict, found: dict) -> list[str]:
    """What stands in the dump and is otherwise in the real module."""
    lines = []
    for part in ("torch_npu", "torch.npu"):
        lines += missing(part, set(recorded[part]), set(found[part]))
        for name, signature in recorded[part].items():
            if found[part].get(name, signature) != signature:
                lines.append(f"{part}.{name}: {signature} recorded, {found[part][name]} found")
    for part in ("schemas", "autocast"):
        lines += missing(part, set(recorded[part]), set(found[part]))
    return lines


def missing(what: str, recorded: set[str], found: set[str]) -> list[str]:
    """One line for each name that only one of them has."""
    gone = [f"{what}: {name} recorded, not found" for name in sorted(recorded - found)]
    return gone + [f"{what}: {name} found, not recorded" for name in sorted(found - recorded)]


def run(command: list[str], **options: object) -> str:
    """The output of a command; its words where it fails."""
    ran = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if ran.returncode != 0:
        raise SystemExit(f"{command[0]} failed:\n{ran.stderr[-3000:]}")
    return ran.stdout


if __name__ == "__main__":
    sys.exit(main())
