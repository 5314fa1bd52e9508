"""Whether an answer of the device is right: against the CPU in float64, and a witness on doubt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jumar.lab.shadow import facts
from jumar.parity import Mismatch, compare

if TYPE_CHECKING:
    from torch import Tensor

    from jumar.lab.shadow.calls import Call


@dataclass(frozen=True)
class Reference:
    """What the CPU answers to a call: the same outputs as the device's, in a wide dtype."""

    outputs: list[Any]

    def write_to(self, made: list[Any]) -> None:
        """Put these numbers where the device has written its own."""
        import torch

        for right, there in zip(self.outputs, made, strict=True):
            if isinstance(there, torch.Tensor) and there.shape == right.shape:
                there.copy_(right.to(there.dtype).to(there.device))

    def in_place_of(self, call: Call, device: str) -> Any:
        """These numbers as the result of a call that raised; needs the dtypes that were given."""
        written = call.written()
        Reference(self.outputs[: len(written)]).write_to(written)
        fresh = [_to(one, device) for one in self.outputs[len(written) :]]
        return call.returned([*written, *fresh])


def reference(call: Call, *, narrow: bool = False) -> Reference | str:
    """What the CPU answers; or in words why that is nothing to compare with.

    In float64, where the CPU's kernel takes it, else float32, else the dtypes that were given;
    `narrow` asks for those.
    """
    import torch

    last: Exception | None = None
    for dtype in (None,) if narrow else (torch.float64, torch.float32, None):
        try:
            answer = call.on_cpu(dtype)
        except Exception as error:  # noqa: BLE001  (whatever a kernel refuses with: the next dtype)
            last = error
            continue
        if facts.may_draw(call.op) and _draws(call, dtype):
            return "draws random numbers"
        return Reference(answer)
    told = " ".join(str(last).split())[:80]
    return f"has no reference on the CPU ({told})"


def mismatch(call: Call, made: list[Any], known: Reference, kind: str) -> Mismatch | None:
    """The first output that is wrong, judged mildly: a witness excuses what it does itself.

    The witness is the CPU's kernel for the dtypes that were given. The CPU has none.
    """
    found = _first(call, made, known.outputs, [], kind)
    if found is None or kind == "cpu":
        return found
    witness = reference(call, narrow=True)
    if isinstance(witness, str):
        return found
    return _first(call, made, known.outputs, witness.outputs, kind)


def _first(
    call: Call, made: list[Any], wanted: list[Any], witness: list[Any], kind: str
) -> Mismatch | None:
    import torch

    terms = call.terms(made)
    for place, (one, right) in enumerate(zip(made, wanted, strict=True)):
        got, exact = as_tensor(one), as_tensor(right)
        seen = as_tensor(witness[place]) if witness else None
        if seen is not None and not got.is_floating_point() and torch.equal(seen, got.cpu()):
            continue  # the CPU answers the same in this dtype: a comparison with a rounded number
        rough = facts.unit_roundoff(call.op, kind, got.dtype)
        found = compare(exact, got, terms=terms, witness=seen, unit_roundoff=rough)
        if found is not None and not call.is_tie(exact, got.cpu()):
            return found
    return None


def _draws(call: Call, dtype: Any) -> bool:
    """Whether two answers of the CPU differ: an operator that may draw numbers does so here."""
    import torch

    with torch.random.fork_rng(devices=[]):
        one, other = (map(as_tensor, call.on_cpu(dtype)) for _ in range(2))
        return any(
            not torch.allclose(a.double(), b.double(), equal_nan=True)
            for a, b in zip(one, other, strict=True)
        )


def as_tensor(value: Any) -> Tensor:
    """A number that an operator has read from the device, as a tensor too."""
    import torch

    if isinstance(value, torch.Tensor):
        return value
    return torch.as_tensor(value, dtype=torch.float64 if isinstance(value, float) else None)


def as_exact(tensor: Tensor) -> Tensor:
    """The same numbers on the CPU, floating point in float64."""
    host = tensor.detach().cpu()
    return host.double() if host.is_floating_point() else host


def _to(value: Any, device: str) -> Any:
    import torch

    return value.to(device) if isinstance(value, torch.Tensor) else value
