"""FlagGems' registrar table, read from its source: importing it needs Triton and a device.

An entry of the table is `(aten name, function[, condition[, more dispatch keys]])`. FlagGems' own
lists (`enable(unused=…)`, the vendors' `CUSTOMIZED_UNUSED_OPS`) match the `__name__` of the
function that is registered, which is not always the name that the table has for it.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from jumar.contracts.errors import InvalidInput
from jumar.operators.catalogue.base import Catalogue, Implementation
from jumar.operators.catalogue.python_source import Definition, PythonSource

NAME = "flag_gems"
TABLE = "_FULL_CONFIG"
BACKENDS = f"{NAME}.runtime.backend"


def vendor() -> str:
    """Whose kernels are meant: `GEMS_VENDOR`, else NVIDIA's with a CUDA torch, else Ascend's.

    FlagGems asks the machine (`flag_gems/runtime/backend/device.py`); a list is often looked at
    where the NPU is not.
    """
    if named := os.environ.get("GEMS_VENDOR"):
        return named
    torch = sys.modules.get("torch")
    return "nvidia" if torch is not None and torch.version.cuda else "ascend"


def read(folder: Path, version: str | None = None) -> Catalogue:
    """The table of the package in `folder`, as its vendor's `__init__` makes it.

    Raises:
        InvalidInput: there is no such table, or an entry that cannot be understood.
    """
    source = PythonSource(folder)
    table = source.find(NAME, TABLE)
    if table is None or not isinstance(table.value, ast.Tuple):
        raise InvalidInput(f"{folder} has no {TABLE}: it is no FlagGems.", param="package")
    brand = vendor()
    key = _dispatch_key(source, brand)
    rows = tuple(one for row in table.value.elts for one in _entry(source, row, brand, key))
    return Catalogue({NAME: version or _version(source)}, {}, rows, {NAME: _unused(source)})


def _entry(source: PythonSource, row: ast.expr, brand: str, key: str) -> Iterator[Implementation]:
    if not isinstance(row, ast.Tuple) or len(row.elts) < 2:
        raise InvalidInput(f"{TABLE}: {ast.unparse(row)} is no entry.", param="package")
    name, function, *rest = row.elts
    operator = f"aten::{ast.literal_eval(name)}"
    found = _function(source, ast.unparse(function), brand)
    condition = _said(rest[0]) if rest else ""
    more = rest[1].elts if len(rest) > 1 and isinstance(rest[1], ast.Tuple) else []
    for one in (key, *(_key(source, written, key) for written in more)):
        yield Implementation(operator, NAME, found.name, one, found.module, condition)


def _function(source: PythonSource, name: str, brand: str) -> Definition:
    """The function that a name in the table means: the vendor's own, else the general one."""
    for module in (f"{BACKENDS}._{brand}.fused", f"{BACKENDS}._{brand}.ops"):
        found = source.find(module, name)
        if found is not None and found.sort == "function":
            return found
    found = source.find(NAME, name)
    if found is None:
        raise InvalidInput(f"{TABLE}: nothing in the package defines {name}.", param="package")
    return found


def _dispatch_key(source: PythonSource, brand: str) -> str:
    """The key that a vendor's kernels are registered for: as it says, else after its device."""
    info = source.find(f"{BACKENDS}._{brand}", "vendor_info")
    if info is None or not isinstance(info.value, ast.Call):
        raise InvalidInput(f"This FlagGems has no vendor {brand!r}.", param="GEMS_VENDOR")
    said = {word.arg: word.value for word in info.value.keywords}
    if "dispatch_key" in said:
        return str(ast.literal_eval(said["dispatch_key"]))
    return str(ast.literal_eval(said["device_name"])).upper()


def _key(source: PythonSource, written: ast.expr, own: str) -> str:
    """A further dispatch key: `torch._C.DispatchKey.Autograd.name`, or a prefix of the own one."""
    if isinstance(written, ast.Name):
        found = source.find(NAME, written.id)
        written = found.value if found is not None and found.value is not None else written
    if isinstance(written, ast.Attribute) and isinstance(written.value, ast.Attribute):
        return written.value.attr
    if isinstance(written, ast.BinOp) and isinstance(written.left, ast.Constant):
        return str(written.left.value) + own
    raise InvalidInput(f"{TABLE}: {ast.unparse(written)} is no dispatch key.", param="package")


def _said(condition: ast.expr) -> str:
    """The expression of a condition; empty for `None`."""
    if isinstance(condition, ast.Constant) and condition.value is None:
        return ""
    return ast.unparse(condition.body if isinstance(condition, ast.Lambda) else condition)


def _unused(source: PythonSource) -> dict[str, tuple[str, ...]]:
    """By vendor, the functions that FlagGems leaves out there by itself."""
    place = source.path(BACKENDS)
    found = {}
    for folder in sorted(place.parent.glob("_*/")) if place is not None else ():
        names = source.find(f"{BACKENDS}.{folder.name}", "CUSTOMIZED_UNUSED_OPS")
        if names is not None and names.value is not None:
            found[folder.name.removeprefix("_")] = tuple(map(str, ast.literal_eval(names.value)))
    return found


def _version(source: PythonSource) -> str:
    for module, name in ((f"{NAME}._version", "version"), (NAME, "__version__")):
        found = source.find(module, name)
        if found is not None and isinstance(found.value, ast.Constant):
            return str(found.value.value)
    return "unknown"
