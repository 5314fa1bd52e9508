"""An overload of torch beside the CPU: every result and written argument, and what lies around."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jumar.evidence.records import Verdict
from jumar.lab.check import exact
from jumar.lab.check.calls import Answer, Call, answered, beside, written
from jumar.lab.check.judging import Planned, agreed, as_tensor
from jumar.lab.shadow import facts
from jumar.parity import Mismatch, compare

if TYPE_CHECKING:
    from torch import Tensor

UNINITIALISED = frozenset(
    {
        "_efficientzerotensor",
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "resize_",
        "resize_as_",
    }
)
"""Operators whose answer holds whatever was in memory: only its form is compared."""


UNSTEADY = Verdict("unsupported", "the CPU itself gives other numbers each time")


@dataclass
class AgainstCPU:
    """A call of an overload beside `reference`, the CPU's answer, on a device of this kind."""

    op: Any
    planned: Planned
    reference: Answer
    kind: str

    def verdict(self, first: Answer, second: Answer) -> Verdict | None:
        """What is wrong with two runs on equal inputs; None where nothing is."""
        equal = self._alike(first, second)
        wrong = self._wrong(first)
        found = [wrong, wrong if equal else self._wrong(second)]
        if self._name in UNINITIALISED:
            return agreed(found, same=True)
        if any(found) and not self._repeats():
            return UNSTEADY
        if equal:
            return agreed(found, same=True)
        same = not (all(found) and any(self._differing(first, second)))
        return agreed(found, same=same) or self._wavering(first, second)

    def doubted(self, verdict: Verdict) -> Verdict:
        """What an exception says, unless the CPU's own answer is one of chance."""
        return verdict if self._repeats() else UNSTEADY

    def _wavering(self, first: Answer, second: Answer) -> Verdict | None:
        """Pointwise operators sum nothing: there is no order that a device might be free to choose,
        and two runs are equal bit for bit. In 16 bits rounding hides what this shows.
        """
        import torch

        if torch.Tag.pointwise not in self.op.tags:
            return None
        pairs = zip(self._made(first), self._made(second), strict=True)
        differ = [
            _unlike(as_tensor(one), as_tensor(other)) for one, other in pairs if one is not None
        ]
        if not any(differ):
            return None
        return Verdict(
            "nondeterministic",
            f"two runs on equal inputs differ in {sum(differ)} elements, within rounding;"
            " a pointwise operator has nothing to choose",
            {"differing_elements": sum(differ)},
        )

    def _repeats(self) -> bool:
        """Whether the CPU gives its own answer again where memory that it gets holds other things:
        some kernels do not write every element of what they return (`multi_margin_loss` of no rows,
        torch 2.13), some read beyond an expanded argument (offsets of `_embedding_bag`).
        """
        import torch

        before = self._made(self.planned.native)
        for left_behind in (0.0, 1e30):
            freed = [torch.full((1 << power,), left_behind) for power in range(12)]
            del freed
            try:
                again = self._made(answered(self.op, self.planned.call.cloned()))
            except Exception:  # noqa: BLE001  (it has taken this call before: now it does not)
                return False
            for one, other in zip(before, again, strict=True):
                left, right = as_tensor(one), as_tensor(other)
                if left is not None and compare(left, right, terms=self._terms):
                    return False
        return True

    def _wrong(self, answer: Answer) -> Mismatch | None:
        return next(self._mismatches(answer), None)

    def _mismatches(self, answer: Answer) -> Iterator[Mismatch]:
        native = self.planned.native
        if len(answer.results) != len(native.results):
            yield Mismatch(f"{len(answer.results)} results, not {len(native.results)}")
            return
        many = len(native.results) > 1
        for index, got in enumerate(self._made(answer)):
            if found := self._off(got, index):
                result = f"result {index}" if many else ""
                what = result if index < len(native.results) else "an argument that is written"
                yield _named(found, what)
        yield from self._outside(answer.call)

    def _off(self, got: Any, index: int) -> Mismatch | None:
        """A mismatch that neither rounding nor the operator's own sensitivity explains."""
        import torch

        call = self.planned.call
        native, wide = (self._made(one)[index] for one in (self.planned.native, self.reference))
        if not isinstance(native, torch.Tensor):
            native, wide, got = as_tensor(native), as_tensor(wide), as_tensor(got)
        if native is None or got is None:
            return None if native is got else Mismatch("a result is missing, or too many")
        if native.dtype != got.dtype:
            return Mismatch(f"{_dtype(got)} where {_dtype(native)} belongs")
        if self._name in UNINITIALISED:
            return _misformed(native, got)
        if identical(native, got):
            return None  # the CPU's own answer in this dtype is the witness of what is legal
        if not _is_real(native) or not _is_real(wide):
            found = compare(native, got) and compare(wide, got)
            if found is None or not got.ndim:
                return found
            tied = facts.is_tie(self.op, call.args, call.kwargs, native, got)
            return None if tied else found
        rough = facts.unit_roundoff(self.op, self.kind, got.dtype)
        found = compare(wide, got, terms=self._terms, witness=native, unit_roundoff=rough)
        if found is None or self._explained(got, index):
            return None
        return found

    def _explained(self, got: Tensor, index: int) -> bool:
        """Whether inputs that differ by their own rounding would give this answer too."""
        import torch

        def real(answer: Answer) -> Tensor:
            return _parts(as_tensor(self._made(answer)[index]))

        far = exact.magnified(self.op, self.planned.call, real)
        wide, native = real(self.reference).double(), real(self.planned.native).double()
        number = _parts(got).double()
        if far is None or far.shape != number.shape or not number.numel():
            return False
        own = torch.nan_to_num((native - wide).abs(), nan=0.0, posinf=0.0)
        unit = torch.finfo(got.dtype).eps * wide.abs()
        legal = exact.ROOM * (far + far.median() + own + own.median()) + unit
        same = (number == wide) | (number.isnan() & wide.isnan()) | (number == native)
        return bool((((number - wide).abs() <= legal) | same).all())

    def _outside(self, after: Call) -> Iterator[Mismatch]:
        """Memory of the arguments that the operator has no business to write."""
        masks = beside(after, self._written(after))
        for before, now, mask in zip(self.planned.call.flats(), after.flats(), masks, strict=True):
            if before.shape != now.shape or identical(before, now):
                continue  # where the size is another, the operator resized an output: it may
            differs = (_bits(before) != _bits(now)).view(before.numel(), -1).any(1)
            if touched := int((differs & mask).sum()):
                yield Mismatch(f"{touched} elements beside what it may write were written")

    def _differing(self, first: Answer, second: Answer) -> Iterator[bool]:
        for one, other in zip(self._made(first), self._made(second), strict=True):
            left, right = as_tensor(one), as_tensor(other)
            if left is not None and right is not None:
                yield compare(left, right, terms=self._terms) is not None

    def _alike(self, one: Answer, other: Answer) -> bool:
        """Whether two runs gave and left behind the same, bit for bit."""
        left, right = ([*each.results, *each.call.flats()] for each in (one, other))
        return len(left) == len(right) and all(map(identical, left, right))

    def _made(self, answer: Answer) -> list[Any]:
        """All that a call has made: its results, and the arguments that it wrote to."""
        return [*answer.results, *self._written(answer.call)]

    def _written(self, call: Call) -> list[Tensor]:
        """The arguments that are written, by the schema or, unsaid there, by the CPU."""
        tensors = call.tensors()
        return [*written(self.op, call), *(tensors[place] for place in self._unsaid)]

    @cached_property
    def _unsaid(self) -> list[int]:
        """Arguments that the CPU writes though the schema does not say so, by their place: running
        means of `native_batch_norm` (torch 2.13).
        """
        said = {id(one) for one in written(self.op, self.planned.native.call)}
        pairs = zip(self.planned.call.tensors(), self.planned.native.call.tensors(), strict=True)
        return [
            place
            for place, (before, after) in enumerate(pairs)
            if id(after) not in said and not identical(before, after)
        ]

    @cached_property
    def _terms(self) -> int:
        call, results = self.planned.call, self.planned.native.results
        return facts.terms(
            self.op, call.args, call.kwargs, results[0] if len(results) == 1 else results
        )

    @property
    def _name(self) -> str:
        return str(self.op.name()).partition("::")[2].partition(".")[0]


def identical(one: Any, other: Any) -> bool:
    """Whether two results are equal bit for bit, in numbers and in form."""
    import torch

    left, right = as_tensor(one), as_tensor(other)
    if left is None or right is None:
        return left is right
    if (left.dtype, left.shape) != (right.dtype, right.shape):
        return False
    return bool(torch.equal(_bits(left), _bits(right)))


def terms(op: Any, planned: Planned) -> int:
    """How many numbers are summed for one element of the result, or more."""
    call, results = planned.call, planned.native.results
    result = results[0] if len(results) == 1 else results
    return facts.terms(op, call.args, call.kwargs, result)


def _unlike(one: Tensor, other: Tensor) -> int:
    """How many elements differ; NaN is equal to itself."""
    return int(((one != other) & ~(one.isnan() & other.isnan())).sum())


def _misformed(native: Tensor, got: Tensor) -> Mismatch | None:
    """Another shape, or another order of dimensions in memory, as far as a copy keeps it."""
    import torch

    if got.shape != native.shape:
        return compare(native, got)
    wanted, found = (torch.empty_like(one).stride() for one in (native, got))
    moved = [n > 1 and a != b for n, a, b in zip(got.shape, wanted, found, strict=True)]
    if not got.numel() or not any(moved):
        return None
    return Mismatch(f"strides {list(found)} where {list(wanted)} belong")


def _named(found: Mismatch, what: str) -> Mismatch:
    return replace(found, reason=f"{what}: {found.reason}") if what else found


def _is_real(tensor: Tensor) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def _parts(tensor: Tensor) -> Tensor:
    import torch

    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _bits(tensor: Tensor) -> Tensor:
    """Its elements in a row as whole numbers (two for a complex128): NaN is what it is."""
    import torch

    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32}.get(tensor.itemsize, torch.int64)
    return tensor.resolve_conj().resolve_neg().contiguous().flatten().view(whole)


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
