"""What torch_npu, which is loaded here, registers with torch's dispatcher."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

from jumar.operators.catalogue.base import Catalogue, Implementation, Operator

KEY = "PrivateUse1"
"""The dispatch key of a backend outside torch."""

_PLACE = re.compile(rf"^{KEY}: (?:registered at )?(.+?) ::", re.MULTILINE)
_ABOVE = re.compile(r"^.*/(?=(?:torch_npu|op_plugin)/)")
"""What stands before the library's own folders in the place of a registration."""


def read(operators: Mapping[str, Operator]) -> Catalogue | None:
    """The NPU kernels among the dispatcher's `operators`; None where torch_npu is not loaded.

    `import torch` loads an installed torch_npu by itself. Kernels that FlagGems put in place of
    torch_npu's are left to its own table.
    """
    module = sys.modules.get("torch_npu")
    if module is None:
        return None
    import torch

    found = []
    for name, operator in operators.items():
        if KEY in operator.keys:
            place = _PLACE.search(torch._C._dispatch_dump(name))
            origin = _ABOVE.sub("", place.group(1)) if place else "dispatcher"
            if "flag_gems" not in origin:
                found.append(Implementation(name, "torch_npu", "", KEY, origin))
    return Catalogue({"torch_npu": module.__version__}, {}, tuple(found))
