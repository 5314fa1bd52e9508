"""Packages with the parts that names come from, as FlagGems and vLLM write them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FACTS: Any = json.loads((Path(__file__).parent / "flag_gems-5.0.2.json").read_text())

BACKEND = """
vendor_info = VendorInfoBase(vendor_name="{vendor}", device_name="{device}"{key})
CUSTOMIZED_UNUSED_OPS = {unused!r}
"""


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """A package with these files, and an empty `__init__` wherever there is none."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for place in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        (place / "__init__.py").touch()
    return folder


def flag_gems(folder: Path, table: str, files: Mapping[str, str] | None = None) -> Path:
    """A FlagGems whose registrar table has these lines."""
    unused = FACTS["unused"]
    backend = "runtime/backend/_{}/__init__.py"
    base = {
        "__init__.py": "from flag_gems.fused import *\n"
        "from flag_gems.ops import *\n"
        '__version__ = "9.9"\n'
        "AUTOGRAD_DISPATCH_KEY = torch._C.DispatchKey.Autograd.name\n"
        'SPARSE_CSR_DISPATCH_KEY = "SparseCsr" + backend_info.dispatch_key\n'
        f"_FULL_CONFIG = (\n{table})\n",
        "fused/__init__.py": "",
        "runtime/backend/__init__.py": "",
        backend.format("ascend"): BACKEND.format(
            vendor="ascend",
            device="npu",
            key=', dispatch_key="PrivateUse1"',
            unused=unused["ascend"],
        ),
        backend.format("nvidia"): BACKEND.format(
            vendor="nvidia", device="cuda", key="", unused=unused["nvidia"]
        ),
    }
    return write(folder / "flag_gems", {**base, **(files or {})})


def as_released(folder: Path) -> Path:
    """A FlagGems with the table of the release that the facts are from."""
    rows: Iterable[tuple[str, str]] = FACTS["table"]
    table = "".join(f"    ({name!r}, {function}),\n" for name, function in rows)
    functions = sorted({function for _, function in rows})
    code = "".join(f"\n\ndef {function}(*args):\n    pass\n" for function in functions)
    imports = "".join(f"from flag_gems.ops.all_of_them import {one}\n" for one in functions)
    return flag_gems(folder, table, {"ops/__init__.py": imports, "ops/all_of_them.py": code})
