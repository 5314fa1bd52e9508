"""Whether numbers differ from the exact ones by rounding only, and if not, where and by how much.

Rounding is told from wrong numbers twice, because neither alone is enough. *Per element*: none may
be off by more than two units. *Over all*: the root mean square of the errors, in units, may not be
more than rounding makes it. One percent too much is 1.3 to 2.6 units of bfloat16, too little to see
in one element and a multiple of what rounding leaves over all.

A unit is what one element may legally be off by: an ULP of the output's dtype (the distance between
neighbours there), and what the sums behind it have gathered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

WIDE = 4.0
"""ULPs in a unit of float32 and float64: functions are approximated there. The most that CUDA's
mathematical functions are off by in single precision is 8 ULPs, which is two units (CUDA C++
Programming Guide, "Mathematical Functions", standard functions; the gamma functions left aside).
Narrower types are computed in float32 and rounded once: to a neighbour, one ULP."""

GATHERED = 8.0
"""A sum of n terms is off by less than GATHERED * sqrt(n) * u * (largest sum), u = 2**-24 for what
is summed in float32: the probabilistic bound of Higham and Mary (SIAM J. Sci. Comput. 41, 2019,
theorem 2.4) fails with a chance of 2 exp(-GATHERED**2 / 2), that is 3e-14."""

WITNESS = 4.0
"""How many times worse than a trusted kernel of the same precision another may be."""

FLUSHED = 2.0**-126
"""Below the smallest normal float32, accelerators may answer zero."""


@dataclass(frozen=True)
class Mismatch:
    """Numbers that rounding does not explain. `index` is the worst element, None for all of them.

    `wrong` of `elements` are off by more than two units each; `rms` is the root mean square of all
    errors in units. A shape or dtype that is not the wanted one has only a reason.
    """

    reason: str
    index: tuple[int, ...] | None = None
    wanted: float | None = None
    got: float | None = None
    ulps: float | None = None
    relative: float | None = None
    wrong: int = 0
    elements: int = 0
    rms: float | None = None

    def __str__(self) -> str:
        return self.reason

    def numbers(self) -> dict[str, int | float | str | bool]:
        """What was measured, as evidence keeps it; NaN and infinity as text (JSON has neither)."""
        measured = {
            "wanted": self.wanted,
            "got": self.got,
            "ulps": self.ulps,
            "relative": self.relative,
            "rms_units": self.rms,
        }
        kept: dict[str, int | float | str | bool] = {
            name: value if math.isfinite(value) else str(value)
            for name, value in measured.items()
            if value is not None
        }
        if self.index is not None:
            kept["index"] = ",".join(map(str, self.index))
        if self.elements:
            kept |= {"wrong_elements": self.wrong, "elements": self.elements}
        return kept


def compare(
    wanted: Tensor,
    got: Tensor,
    *,
    terms: int = 1,
    witness: Tensor | None = None,
    unit_roundoff: float | None = None,
) -> Mismatch | None:
    """What is wrong with `got`; None where it is `wanted` but for rounding.

    Args:
        wanted: the exact answer, or one of float64, on the CPU.
        got: the answer to judge, of any device and dtype. Whole numbers and truth values have to be
            equal, NaN and infinity to stand where `wanted` has them in the dtype of `got`.
        terms: how many numbers were summed for one element.
        witness: what a trusted kernel computes in the dtype of `got`. Where it errs by more than
            its rounding, so may `got`, WITNESS times as much: for functions that magnify rounding.
        unit_roundoff: of the products and sums; 2**-24 (float32) where nobody says, 2**-53 for
            float64. TF32 and HF32 have 2**-11.
    """
    if wanted.shape != got.shape:
        return Mismatch(f"shape {tuple(got.shape)}, not {tuple(wanted.shape)}")
    if _sort(wanted) != _sort(got):
        return Mismatch(f"{_name(got.dtype)} where {_name(wanted.dtype)} belongs")
    if not got.numel():
        return None
    got = got.detach().cpu()
    if got.is_complex():
        got, wanted = _parts(got), _parts(wanted)
        witness = None if witness is None else _parts(witness)
    if not got.is_floating_point():
        return _unequal(wanted, got)
    exact = wanted.double()
    number = _Judged(exact, got, None if witness is None else witness.double())
    return number.strange() or number.off(terms, unit_roundoff)


class _Judged:
    """One floating-point answer beside the exact one."""

    def __init__(self, exact: Tensor, got: Tensor, witness: Tensor | None) -> None:
        import torch

        self.info = torch.finfo(got.dtype)
        self.exact, self.got, self.witness = exact, got.double(), witness
        self.error = (self.got - exact).abs()

    def strange(self) -> Mismatch | None:
        """NaN or infinity where it does not belong; takes those that do out of the comparison."""
        import torch

        if math.isfinite(self.error.max().item()):
            return None
        expected = self._rounded()
        agrees = self._same_kind(expected)
        if self.witness is not None:
            agrees |= self._same_kind(self.witness)
        if not agrees.all():
            return self._at(
                torch.where(agrees, 0.0, 1.0),
                "{wrong} of {elements} are {got} where {wanted} belongs",
                wrong=int((~agrees).sum()),
            )
        finite = self.got.isfinite() & expected.isfinite()
        self.error = torch.where(finite, self.error, 0.0)
        self.exact = torch.where(finite, self.exact, 0.0)
        return None

    def off(self, terms: int, unit_roundoff: float | None) -> Mismatch | None:
        """Errors of numbers that are more than rounding."""
        unit, ulp = self._units(terms, unit_roundoff)
        share = self.error / unit
        worst, elements = share.max().item(), share.numel()
        rms = math.sqrt(share.square().mean().item())
        if worst <= 2 and rms <= over_all(elements):
            return None
        wrong = int((share > 2).sum())
        if worst > 2:
            reason = "{wrong} of {elements} elements are off by more than rounding"
        else:
            reason = "all {elements} elements together are off by {rms:.2g} times a rounding"
        return self._at(share, reason, wrong=wrong, rms=rms, ulp=ulp)

    def _units(self, terms: int, unit_roundoff: float | None) -> tuple[Tensor, Tensor]:
        """What each element may be off by, and an ULP of each."""
        import torch

        ulp = torch.exp2(torch.frexp(self.exact).exponent.double()).mul_(self.info.eps / 2)
        ulp.clamp_(min=self.info.eps * self.info.tiny)
        wide = self.info.eps <= 2.0**-23
        u = unit_roundoff or (2.0**-53 if self.info.eps < 2.0**-23 else 2.0**-24)
        largest = self.exact.abs().max().item()
        gathered = GATHERED * math.sqrt(max(terms, 1)) * u * largest + FLUSHED
        if self.witness is not None:
            excess = (self.witness - self.exact).abs() - ulp
            gathered += WITNESS * max(torch.nan_to_num(excess, 0.0, 0.0, 0.0).max().item(), 0.0)
        return ulp * (WIDE if wide else 1.0) + gathered, ulp

    def _rounded(self) -> Tensor:
        """The exact answer as the dtype can hold it: what is too large is infinity."""
        import torch

        most = self.info.max * (1 + self.info.eps / 4)
        inf = torch.full((), math.inf, dtype=torch.float64)
        return torch.where(self.exact.abs() > most, inf.copysign(self.exact), self.exact)

    def _same_kind(self, other: Tensor) -> Tensor:
        """Where the answer is NaN, infinity of this sign, or finite, as `other` is.

        The neighbour of the dtype's largest number is infinity: either will do there.
        """
        most, eps = self.info.max, self.info.eps
        edge = (self.exact.abs() > most * (1 - eps)) & (self.exact.abs() < most * (1 + eps))
        same = (self.got == other) | (self.got.isnan() & other.isnan())
        same |= edge & (self.got.sign() == other.sign())
        return same | (self.got.isfinite() & other.isfinite())

    def _at(
        self,
        badness: Tensor,
        reason: str,
        *,
        wrong: int,
        rms: float | None = None,
        ulp: Tensor | None = None,
    ) -> Mismatch:
        """A mismatch whose index is the element with the most `badness`."""
        place = int(badness.argmax())
        wanted, got = self.exact.flatten()[place].item(), self.got.flatten()[place].item()
        error = abs(got - wanted)
        ulps = None if ulp is None else error / ulp.flatten()[place].item()
        shown = {"wrong": wrong, "elements": badness.numel(), "rms": rms}
        return Mismatch(
            reason.format(**shown, wanted=f"{wanted:.6g}", got=f"{got:.6g}"),
            index=_unravel(place, tuple(badness.shape)),
            wanted=wanted,
            got=got,
            ulps=ulps,
            relative=None if ulp is None else error / abs(wanted) if wanted else math.inf,
            wrong=wrong,
            elements=badness.numel(),
            rms=rms,
        )


def over_all(elements: int) -> float:
    """The largest root mean square of so many errors, in units, that rounding makes.

    Rounded to either neighbour, an element at the fraction f between them is off by f or 1 - f: the
    mean square is at most 1/2, its standard deviation at most 1/2 over sqrt(n). Six of these are
    left for chance.
    """
    return math.sqrt(0.5 + 3 / math.sqrt(elements))


def _unequal(wanted: Tensor, got: Tensor) -> Mismatch | None:
    differs = wanted.cpu() != got
    wrong = int(differs.sum())
    if not wrong:
        return None
    place = int(differs.flatten().int().argmax())
    one, other = wanted.flatten()[place].item(), got.flatten()[place].item()
    return Mismatch(
        f"{wrong} of {got.numel()} are other numbers: {other}, not {one}",
        index=_unravel(place, tuple(got.shape)),
        wanted=float(one),
        got=float(other),
        wrong=wrong,
        elements=got.numel(),
    )


def _sort(tensor: Tensor) -> str:
    if tensor.is_complex():
        return "complex"
    return "real" if tensor.is_floating_point() else "exact"


def _parts(tensor: Tensor) -> Tensor:
    import torch

    return torch.view_as_real(tensor.resolve_conj())


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _unravel(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        place, rest = divmod(place, size)
        index.append(rest)
    return tuple(reversed(index))
