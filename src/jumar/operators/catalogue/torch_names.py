"""The operators of torch's dispatcher: names, schemas, and the keys that have kernels."""

from __future__ import annotations

from jumar.contracts.errors import DependencyMissing
from jumar.operators.catalogue.base import Catalogue, Operator

NAMESPACES = ("aten", "npu", "atb")
"""The namespaces that models call: torch's, and those of torch_npu. Others serve torch's tools."""


def read() -> Catalogue:
    """What the dispatcher holds in this process.

    Raises:
        DependencyMissing: torch is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise DependencyMissing(
            "The operators that are installed are torch's, and torch is not.",
            hint="pip install 'jumar[runtime]', or name a recorded catalogue with --catalogue.",
        ) from error
    keys = _keys()
    operators = {}
    for schema in torch._C._jit_get_all_schemas():
        name = f"{schema.name}.{schema.overload_name}".removesuffix(".")
        if name in keys and name.partition("::")[0] in NAMESPACES:
            operators[name] = operator(name, tuple(keys[name]), str(schema))
    return Catalogue({"torch": torch.__version__}, dict(sorted(operators.items())))


def operator(name: str, keys: tuple[str, ...], schema: str = "") -> Operator:
    """An operator of the dispatcher; its family is read from the name by torch's own rules.

    >>> operator("aten::__ior__.Tensor", ()).family
    'or'
    """
    from torchgen.model import BaseOperatorName

    base = name.rpartition("::")[2].partition(".")[0]
    return Operator(name, BaseOperatorName.parse(base).base, keys, schema)


def _keys() -> dict[str, list[str]]:
    """For each operator the dispatch keys with a kernel, in the dispatcher's order."""
    import torch

    found: dict[str, list[str]] = {name: [] for name in torch._C._dispatch_get_all_op_names()}
    for key in torch._C.DispatchKey.__members__:
        try:
            names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
        except RuntimeError:  # a bound of the enumeration (`EndOfDenseBackends`), not a key
            continue
        for name in names:
            if name in found:
                found[name].append(key)
    return found
