"""A script that shows a guilty operator without Jumar: torch, and on an NPU torch_npu.

It makes its inputs from a seed where such inputs show the fault too; else they lie in a file beside
the evidence, named by their content. Whether the script shows the fault is tried before it is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from jumar.contracts.errors import OutputFailed

if TYPE_CHECKING:
    from torch import Tensor

    from jumar.lab.shadow.calls import Call
    from jumar.lab.shadow.findings import Guilty

LARGEST = 64 << 20
"""Bytes of inputs that are kept."""


def reproducer(guilty: Guilty, call: Call, device: str, folder: Path) -> str:
    """The script. Raises OutputFailed where `folder` cannot hold the inputs."""
    raises = guilty.kind == "raises"
    seeded = _script(guilty, call, device, _Seeded())
    if _shows(seeded, raises=raises):
        return seeded
    kept = _Kept(folder)
    script = _script(guilty, call, device, kept)
    if kept.size > LARGEST:
        return _script(guilty, call, device, _Seeded(), _LARGE)
    kept.write()
    return script if _shows(script, raises=raises) else _script(guilty, call, device, kept, _ONCE)


_LARGE = f"The inputs that showed it have more than {LARGEST >> 20} MiB; these are drawn.\n"
_ONCE = "It did not show when it was tried again.\n"


class _Seeded:
    """Tensors as expressions: of the same shapes and range as those that were met."""

    head = "SEED = torch.Generator().manual_seed(0)\n"

    def expression(self, tensor: Tensor) -> str:
        import torch

        shape, dtype = tuple(tensor.shape), tensor.dtype
        if not tensor.numel():
            return f"torch.zeros({shape}, dtype={dtype})"
        if dtype == torch.bool:
            return f"torch.rand({shape}, generator=SEED) < 0.5"
        finite = tensor[tensor.isfinite()].double()
        if dtype.is_floating_point or dtype.is_complex:
            mean = float(finite.real.mean()) if finite.numel() else 0.0
            spread = float(finite.real.std()) if finite.numel() > 1 else 0.0
            drawn = f"torch.randn({shape}, generator=SEED, dtype=torch.float64)"
            return f"({drawn} * {spread:.6g} + {mean:.6g}).to({dtype})"
        least, most = int(tensor.min()), int(tensor.max())
        return f"torch.randint({least}, {most + 1}, {shape}, generator=SEED, dtype={dtype})"


class _Kept:
    """Tensors as entries of a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tensors: list[Tensor] = []

    @property
    def size(self) -> int:
        return sum(one.nbytes for one in self._tensors)

    @property
    def head(self) -> str:
        return (
            f"HERE = sys.argv[1] if sys.argv[1:] else {str(self._path)!r}\n"
            "INPUTS = torch.load(HERE, weights_only=True)\n"
        )

    def expression(self, tensor: Tensor) -> str:
        self._tensors.append(tensor)
        return f"INPUTS[{len(self._tensors) - 1}]"

    def write(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._path.write_bytes(self._content())
        except OSError as error:
            raise OutputFailed(f"Inputs cannot be written to {self._folder}: {error}") from error

    @property
    def _path(self) -> Path:
        digest = hashlib.sha256(self._content()).hexdigest()[:12]
        return self._folder.resolve() / f"{digest}.pt"

    def _content(self) -> bytes:
        import torch

        file = io.BytesIO()
        torch.save(self._tensors, file)
        return file.getvalue()


def _script(
    guilty: Guilty, call: Call, device: str, source: _Seeded | _Kept, remark: str = ""
) -> str:
    import torch

    shown = [
        source.expression(leaf) if isinstance(leaf, torch.Tensor) else _literal(leaf)
        for leaf in call.inputs(like_given=True)
    ]
    args, kwargs = call.tree([_Code(text) for text in shown])
    text = Path(__file__).with_name("reproducer.txt").read_text(encoding="utf-8")
    written = call.written()
    return Template(text).substitute(
        title=f"{guilty.operator} on {device} {_VERBS[guilty.kind]}: {guilty.reason}.",
        remark=remark,
        imports="import torch_npu  # noqa: F401\n" if device.startswith("npu") else "",
        device=device,
        limit=f"{_limit(call):.2g}",
        inputs=f"{source.head}ARGS = {args!r}\nKWARGS = {kwargs!r}",
        operator=str(call.op),
        written=", args, kwargs" if written else "",
        wide=_takes_wide(call),
    )


_VERBS = {
    "wrong": "gives wrong numbers",
    "nondeterministic": "gives other numbers each time",
    "raises": "raises",
}


class _Code(str):
    """Text that is code: its repr is itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _literal(leaf: Any) -> str:
    import torch

    if isinstance(leaf, torch.device):
        return f'torch.device("{leaf}")'
    if isinstance(leaf, float) and not math.isfinite(leaf):
        return f'float("{leaf}")'
    return repr(leaf)


def _limit(call: Call) -> float:
    """In the norm, 0.75 ULP of the dtype and what the sums gather (`jumar.parity.numeric`)."""
    import torch

    dtypes = [one.dtype for one in call.tensors if one.is_floating_point()]
    eps = max((torch.finfo(one).eps for one in dtypes), default=2.0**-23)
    return 0.75 * eps + 8 * math.sqrt(call.most_terms()) * 2.0**-24


def _takes_wide(call: Call) -> bool:
    """Whether the CPU computes the operator in float64."""
    import torch

    try:
        call.on_cpu(torch.float64)
    except Exception:  # noqa: BLE001  (whatever a kernel refuses with: then not)
        return False
    return True


def _shows(script: str, *, raises: bool) -> bool:
    """Whether the script ends as it says it does where the fault is. One about wrong numbers that
    `raises` instead shows nothing.
    """
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(script, "reproducer", "exec"), {"__name__": "reproducer"})
    except SystemExit as ended:
        return bool(ended.code)
    except Exception:  # noqa: BLE001  (an operator that raises shows it by that)
        return raises
    return False
