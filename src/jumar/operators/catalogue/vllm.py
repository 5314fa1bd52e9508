"""vLLM's layer operators and its intermediate representation, read from its source.

Importing them takes seconds and may look for a device; each registration is a decorator:

    @CustomOp.register("silu_and_mul")              a layer operator; PluggableLayer likewise
    @register_op                                    an operator of vllm.ir and its native code
    @ir.ops.rms_norm.register_impl("vllm_c", …)     a provider's implementation of it
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from jumar.operators.catalogue.base import Catalogue, Implementation, Operator
from jumar.operators.catalogue.python_source import statements

NAME = "vllm"
LAYERS = ("CustomOp", "PluggableLayer")
IR = "vllm_ir"
"""The namespace of vllm.ir in torch's dispatcher."""

_MARKS = (b".register(", b"register_op", b".register_impl(")


def read(folder: Path, version: str | None = None) -> Catalogue:
    """What the package in `folder` registers."""
    return _catalogue({NAME: version or "unknown"}, tuple(_registered(folder)))


def replaced() -> Catalogue:
    """What plugins put in place of vLLM's layers in this process."""
    return _catalogue({}, tuple(_replaced()))


def _catalogue(versions: dict[str, str], found: tuple[Implementation, ...]) -> Catalogue:
    names = {one.operator: one.operator.rpartition("::")[2] for one in found}
    return Catalogue(versions, {name: Operator(name, base) for name, base in names.items()}, found)


def _registered(folder: Path) -> Iterator[Implementation]:
    for path in sorted(folder.rglob("*.py")):
        text = path.read_bytes()
        if not any(mark in text for mark in _MARKS):
            continue
        module = ".".join([NAME, *path.relative_to(folder).with_suffix("").parts])
        for statement in statements(ast.parse(text, filename=str(path))):
            if isinstance(statement, (ast.ClassDef, ast.FunctionDef)):
                for decorator in statement.decorator_list:
                    yield from _decorated(decorator, statement.name, module)


def _decorated(decorator: ast.expr, name: str, module: str) -> Iterator[Implementation]:
    """The registration that one decorator of the class or function `name` makes."""
    call = decorator if isinstance(decorator, ast.Call) else None
    what = ast.unparse(call.func if call is not None else decorator).split(".")
    said = _text(call)
    if call is not None and what[0] in LAYERS and what[1:] == ["register"] and said:
        yield Implementation(said, NAME, name, "layer", module)
    elif what[-1] == "register_op":
        yield Implementation(f"{IR}::{said or name}", NAME, name, "ir", module)
    elif len(what) > 1 and what[-1] == "register_impl" and said:
        yield Implementation(f"{IR}::{what[-2]}", said, name, "ir", module)


def _text(call: ast.Call | None) -> str:
    """The text that is the first argument of a call, or its `name` or `provider`."""
    if call is None:
        return ""
    named = [word.value for word in call.keywords if word.arg in ("name", "provider")]
    for value in [*call.args[:1], *named]:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value
    return ""


def _replaced() -> Iterator[Implementation]:
    """Layers that were registered out of tree: by class, under the name of the class in the tree.

    A replacement is a subclass; vLLM gives it the class's name as its operator's.
    """
    module = sys.modules.get(f"{NAME}.model_executor.custom_op")
    in_tree = getattr(module, "op_registry", {})
    for replaced_class, layer in getattr(module, "op_registry_oot", {}).items():
        names = (str(getattr(one, "name", "")) for one in layer.__mro__[1:])
        operator = next((name for name in names if name in in_tree), replaced_class)
        provider = layer.__module__.partition(".")[0]
        yield Implementation(operator, provider, layer.__name__, "layer", layer.__module__)
