"""A script that shows a finding without Jumar, with the inputs in it."""

from __future__ import annotations

import base64
import math
import os
import zlib
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from jumar.lab.check.against_cpu import terms
from jumar.lab.check.base import Case, Target
from jumar.lab.check.judging import Planned

if TYPE_CHECKING:
    from torch import Tensor

    from jumar.lab.check.calls import Call

LARGEST = 256 << 10
"""Characters of one packed buffer; a larger one is drawn anew by the script."""
SECONDS = 60
"""After which the script ends an operator that hangs."""
RUNS = 3
"""Runs of the operator: what is not always wrong shows in one of them."""
EMULATED = "JUMAR_EMULATE_NPU"

LEAKS = """\
module = torch.get_device_module(DEVICE)
levels = [module.memory_allocated()]
for _ in range(4):
    answers(FUNCTION, DEVICE)
    levels.append(module.memory_allocated())
print("bytes of device memory that stay taken:", levels)
if levels[-1] > levels[-2] > levels[-3]:
    sys.exit(1)
"""
WAVERS = """\
first = answers(FUNCTION, DEVICE)
for _ in range(RUNS):
    for one, other in zip(first, answers(FUNCTION, DEVICE), strict=True):
        if not ((one == other) | (one.isnan() & other.isnan())).all():
            print("two runs differ, though a pointwise operator has nothing to choose")
            sys.exit(1)
"""


def script(target: Target, op: Any, case: Case, planned: Planned) -> str:
    """The script. Its reference is the CPU, in float64 where it computes that."""
    import torch

    from jumar.lab.check import exact

    call = planned.call
    function, imports = _function(target, op, case.dtype)
    args, kwargs = _views(call)
    drawn = any(len(_packed(flat)) > LARGEST for flat in call.flats())
    remarks = [_emulated(), "Its inputs are too many to be kept: they are drawn." if drawn else ""]
    text = Path(__file__).with_name("reproducer.txt").read_text(encoding="utf-8")
    return Template(text).substitute(
        title=_title(target, case),
        needs="Needs Jumar for the provider." if "jumar" in imports else "Runs without Jumar.",
        remark="\n".join(filter(None, remarks)) + "\n" if any(remarks) else "",
        imports=("import torch_npu  # noqa: F401\n" if target.device.startswith("npu") else "")
        + imports,
        device=target.device,
        limit=f"{_limit(op, planned):.2g}",
        runs=RUNS,
        seconds=SECONDS,
        buffers="\n".join(f"    {_buffer(flat)}," for flat in call.flats()),
        args=args,
        kwargs=kwargs,
        reference=f"torch.ops.{op}",
        function=function,
        wide=exact.wide(op, call) is not None,
        leaks="" if target.device == "cpu" else LEAKS,
        wavers=WAVERS if torch.Tag.pointwise in op.tags else "",
    )


LAYER = '''\
"""$title

Exit code 0 where the fault does not show, 1 where it does. Needs Jumar: the formula is Jumar's.
$remark"""

import sys

from jumar.lab.check import Target, check

summary = check(Target("$provider", "$device"), ["$operator"], dtypes=["$dtype"])
for one in summary.judgements():
    print(one.kind, one.subject, one.finding.verdict.reason)
sys.exit(summary.bad)
'''


def layer_script(target: Target, name: str, case: Case) -> str:
    """The script of a layer operator: its inputs are drawn from a seed by Jumar."""
    remark = _emulated()
    return Template(LAYER).substitute(
        title=_title(target, case),
        remark=f"{remark}\n" if remark else "",
        provider=target.provider,
        device=target.device,
        operator=name,
        dtype=case.dtype,
    )


def _title(target: Target, case: Case) -> str:
    where = f"by {target.provider} on {target.device} in {case.dtype}"
    return f"{case.operator} {where}: {case.source}."


def _function(target: Target, op: Any, dtype: str) -> tuple[str, str]:
    """The implementation as an expression, and what has to be imported for it."""
    if target.provider == "device":
        return f"torch.ops.{op}", ""
    from jumar.lab.check.implementations import find

    made = find(target, op.name(), dtype)
    home, name = made.__module__, made.__qualname__
    if home.startswith("jumar.") or "<" in name:
        ask = f'provider("{target.provider}").functions()["{op.name()}"].make()'
        return ask, "from jumar.operators.providers import provider\n"
    return name, f"from {home} import {name}\n"


def _emulated() -> str:
    """How to get the same device, where it was an emulated one."""
    names = [name for name in (EMULATED, "JUMAR_EMULATE_FAULTS") if os.environ.get(name)]
    if EMULATED not in names:
        return ""
    said = "\n".join(f"  {name}={os.environ[name]}" for name in names)
    return f"The NPU was emulated: no hardware gave this. Run it with Jumar installed and\n{said}"


def _views(call: Call) -> tuple[str, str]:
    """The arguments as code over `buffers`."""
    import torch
    from torch.utils._pytree import tree_map

    places: dict[Any, int] = {}

    def one(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return _Code(_literal(leaf))
        place = places.setdefault((leaf.untyped_storage()._cdata, leaf.dtype), len(places))
        layout = f"{tuple(leaf.shape)}, {leaf.stride()}, {leaf.storage_offset()}"
        return _Code(f"buffers[{place}].as_strided({layout})")

    args, kwargs = tree_map(one, (call.args, call.kwargs))
    return repr(tuple(args)), repr(kwargs)


class _Code(str):
    """Text that is code: its repr is itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _literal(leaf: Any) -> str:
    import torch

    if isinstance(leaf, torch.device):
        return 'torch.device("cpu")'
    if isinstance(leaf, float) and not math.isfinite(leaf):
        return f'float("{leaf}")'
    return repr(leaf)


def _buffer(flat: Tensor) -> str:
    packed = _packed(flat)
    if len(packed) <= LARGEST:
        return f'buffer({flat.dtype}, "{packed}")'
    if flat.dtype.is_floating_point:
        seeded = "generator=torch.Generator().manual_seed(0)"
        return f"torch.randn({flat.numel()}, {seeded}).to({flat.dtype})"
    return f"(torch.arange({flat.numel()}) % 2).to({flat.dtype})"


def _packed(flat: Tensor) -> str:
    import torch

    data = bytes(flat.view(torch.uint8).numpy()) if flat.numel() else b""
    return base64.b64encode(zlib.compress(data, 9)).decode("ascii")


def _limit(op: Any, planned: Planned) -> float:
    """In the norm, 0.75 ULP of the dtype and what the sums gather (`jumar.parity.numeric`)."""
    import torch

    results = [one for one in planned.native.results if isinstance(one, torch.Tensor)]
    found = [one.dtype for one in results if one.is_floating_point()]
    eps = max((torch.finfo(one).eps for one in found), default=0.0)
    return 0.75 * eps + 8 * math.sqrt(terms(op, planned)) * 2.0**-24
