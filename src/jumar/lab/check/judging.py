"""One case: run the implementation, compare with the reference, watch memory, say how it went."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from jumar.evidence.records import Verdict
from jumar.lab.check import errors, exact
from jumar.lab.check.calls import Answer, Call, answered, beside, written
from jumar.lab.shadow import facts
from jumar.parity import Mismatch, compare

if TYPE_CHECKING:
    from torch import Tensor

    from jumar.operators.layers import LayerOperator

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


@dataclass(frozen=True)
class Machine:
    """The device that is checked: its name, how to wait for it, and its memory in bytes."""

    device: str
    synchronize: Callable[[], object]
    allocated: Callable[[], int | None]


@dataclass(frozen=True)
class Planned:
    """A call that the CPU accepts, with what the CPU computes in the call's own dtypes."""

    number: int
    source: str
    call: Call
    native: Answer


def judge(
    judged: Any, implementation: Callable[..., Any], call: Call, machine: Machine
) -> tuple[Verdict, str]:
    """The verdict on one case, and its traceback where there is one."""
    before = machine.allocated()
    try:
        first = _run(implementation, call, machine)
        between = machine.allocated()
        second = _run(implementation, call, machine)
        leaked = _leaked(implementation, call, machine, before, between)
    except Exception as error:  # noqa: BLE001  (whatever an implementation raises is the finding)
        return errors.verdict(error), traceback.format_exc()
    verdict: Verdict | None = judged.verdict(first, second) or leaked
    return verdict or Verdict("correct"), ""


def _run(implementation: Callable[..., Any], call: Call, machine: Machine) -> Answer:
    """Call it on the device, wait, and fetch what it gave and wrote."""
    import torch

    placed = call.on(machine.device)
    machine.synchronize()
    answer = answered(implementation, placed)
    machine.synchronize()
    fetched = [
        one.detach().cpu() if isinstance(one, torch.Tensor) else one for one in answer.results
    ]
    return Answer(fetched, placed.on("cpu"))


def _leaked(
    implementation: Callable[..., Any],
    call: Call,
    machine: Machine,
    before: int | None,
    between: int | None,
) -> Verdict | None:
    """Memory that stays taken after each call: a workspace that is kept grows only once."""
    levels = [before, between, machine.allocated()]
    while not _falls_or_stays(levels) and len(levels) < 5:
        _run(implementation, call, machine)
        levels.append(machine.allocated())
    if _falls_or_stays(levels):
        return None
    per_call = (levels[-1] or 0) - (levels[-2] or 0)
    return Verdict(
        "leaks",
        f"{per_call:,} bytes of device memory stay taken by each call",
        {"bytes_per_call": per_call},
    )


def _falls_or_stays(levels: list[int | None]) -> bool:
    known = [one for one in levels if one is not None]
    return len(known) < len(levels) or any(b <= a for a, b in pairwise(known))


def agreed(found: Sequence[Mismatch | None], *, same: bool) -> Verdict | None:
    """What two runs say together; `same` where they differ by rounding only."""
    told = next((one for one in found if one), None)
    if told is None:
        return None
    if all(found) and same:
        return Verdict("wrong", str(told), told.numbers())
    how = "both are wrong" if all(found) else "one of them is right"
    reason = f"two runs on equal inputs differ, {how}: {told}"
    return Verdict("nondeterministic", reason, told.numbers())


@dataclass
class AgainstCPU:
    """A call of an overload beside `reference`, the CPU's answer, on a device of this kind."""

    op: Any
    planned: Planned
    reference: Answer
    kind: str

    def verdict(self, first: Answer, second: Answer) -> Verdict | None:
        """What is wrong with two runs on equal inputs; None where nothing is."""
        found = [self._wrong(one) for one in (first, second)]
        if any(found) and not self._repeats():
            return Verdict("unsupported", "the CPU itself gives other numbers each time")
        return agreed(found, same=not (all(found) and any(self._differing(first, second))))

    def _repeats(self) -> bool:
        """Whether the CPU gives its own answer again where memory that it gets holds other things:
        some kernels do not write every element of what they return (`multi_margin_loss` of no rows,
        torch 2.13).
        """
        import torch

        before = made(self.op, self.planned.native)
        for left_behind in (0.0, 1e30):
            freed = [torch.full((1 << power,), left_behind) for power in range(12)]
            del freed
            again = made(self.op, answered(self.op, self.planned.call.cloned()))
            for one, other in zip(before, again, strict=True):
                left, right = _tensor(one), _tensor(other)
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
        for index, got in enumerate(made(self.op, answer)):
            if found := self._off(got, index):
                result = f"result {index}" if many else ""
                what = result if index < len(native.results) else "an argument that is written"
                yield _named(found, what)
        yield from self._outside(answer.call, written(self.op, answer.call))

    def _off(self, got: Any, index: int) -> Mismatch | None:
        """A mismatch that neither rounding nor the operator's own sensitivity explains."""
        import torch

        call = self.planned.call
        native, wide = (made(self.op, one)[index] for one in (self.planned.native, self.reference))
        if not isinstance(native, torch.Tensor):
            native, wide, got = _tensor(native), _tensor(wide), _tensor(got)
        if native is None or got is None:
            return None if native is got else Mismatch("a result is missing, or too many")
        if native.dtype != got.dtype:
            return Mismatch(f"{_dtype(got)} where {_dtype(native)} belongs")
        if self._name in UNINITIALISED:
            return None if got.shape == native.shape else compare(native, got)
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
            return _parts(_tensor(made(self.op, answer)[index]))

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

    def _outside(self, after: Call, targets: list[Tensor]) -> Iterator[Mismatch]:
        """Memory of the arguments that the operator has no business to write."""
        masks = beside(after, targets)
        for before, now, mask in zip(self.planned.call.flats(), after.flats(), masks, strict=True):
            if before.shape != now.shape:
                continue  # the operator resized an output, as torch allows
            differs = (_bytes(before) != _bytes(now)).any(1)
            if touched := int((differs & mask).sum()):
                yield Mismatch(f"{touched} elements beside what it may write were written")

    def _differing(self, first: Answer, second: Answer) -> Iterator[bool]:
        for one, other in zip(made(self.op, first), made(self.op, second), strict=True):
            left, right = _tensor(one), _tensor(other)
            if left is not None and right is not None:
                yield compare(left, right, terms=self._terms) is not None

    @cached_property
    def _terms(self) -> int:
        call, results = self.planned.call, self.planned.native.results
        return facts.terms(
            self.op, call.args, call.kwargs, results[0] if len(results) == 1 else results
        )

    @property
    def _name(self) -> str:
        return str(self.op.name()).partition("::")[2].partition(".")[0]


def made(op: Any, answer: Answer) -> list[Any]:
    """All that a call has made: its results, and the arguments that it wrote to."""
    return [*answer.results, *written(op, answer.call)]


def terms(op: Any, planned: Planned) -> int:
    """How many numbers are summed for one element of the result, or more."""
    call, results = planned.call, planned.native.results
    result = results[0] if len(results) == 1 else results
    return facts.terms(op, call.args, call.kwargs, result)


def _named(found: Mismatch, what: str) -> Mismatch:
    return replace(found, reason=f"{what}: {found.reason}") if what else found


def _tensor(value: Any) -> Any:
    """Numbers as tensors, so that all results are compared by one rule."""
    import torch

    if value is None or isinstance(value, torch.Tensor):
        return value
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)


def _is_real(tensor: Tensor) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def _parts(tensor: Tensor) -> Tensor:
    import torch

    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _bytes(flat: Tensor) -> Tensor:
    """A row of bytes per element: NaN is what it is, bit for bit."""
    import torch

    return flat.view(torch.uint8).view(flat.numel(), flat.dtype.itemsize)


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


@dataclass
class AgainstFormula:
    """A call of a layer operator beside its golden function."""

    layer: LayerOperator
    planned: Planned

    def __post_init__(self) -> None:
        call = self.planned.call.cloned()
        self._golden = self._form(self.layer.golden(*call.args, **call.kwargs))

    def verdict(self, first: Answer, second: Answer) -> Verdict | None:
        """What is wrong with two runs on equal inputs; None where nothing is."""
        results = [self._form(one.results) for one in (first, second)]
        found = [self._off(self._golden, one) for one in results]
        return agreed(found, same=self._off(*results) is None)

    def _form(self, results: Any) -> list[Any]:
        """The results as the operator says that they are comparable."""
        from torch.utils._pytree import tree_leaves

        from jumar.operators.layers import Case

        call = self.planned.call
        given = results[0] if isinstance(results, list) and len(results) == 1 else results
        given = tuple(given) if isinstance(given, list) else given
        case = Case(self.planned.source, call.args, call.kwargs)
        leaves: list[Any] = tree_leaves(self.layer.comparable(given, case))
        return leaves

    def _off(self, wanted: list[Any], got: list[Any]) -> Mismatch | None:
        if len(wanted) != len(got):
            return Mismatch(f"{len(got)} results, not {len(wanted)}")
        found = (self._beyond(_tensor(a), _tensor(b)) for a, b in zip(wanted, got, strict=True))
        return next(filter(None, found), None)

    def _beyond(self, wanted: Tensor, got: Tensor) -> Mismatch | None:
        """An element that is off by more than the operator's own limit."""
        import torch

        if wanted.shape != got.shape or not got.numel():
            return compare(wanted, got)
        relative, absolute = self.layer.tolerances[self._dtype]
        exact_, number = wanted.double(), got.double()
        legal = absolute + relative * exact_.abs()
        same = (number == exact_) | (number.isnan() & exact_.isnan())
        off = torch.where(same, 0.0, (number - exact_).abs() / legal.clamp(min=1e-300))
        off = torch.nan_to_num(off, nan=torch.inf)
        place = int(off.argmax())
        if float(off.flatten()[place]) <= 1:
            return None
        wrong = int((off > 1).sum())
        return Mismatch(
            f"{wrong} of {off.numel()} elements are off by more than the operator's limit",
            index=tuple(int(one) for one in torch.unravel_index(torch.tensor(place), off.shape)),
            wanted=float(exact_.flatten()[place]),
            got=float(number.flatten()[place]),
            wrong=wrong,
            elements=off.numel(),
        )

    @property
    def _dtype(self) -> str:
        """The narrowest floating dtype of the call has the limit."""
        import torch

        dtypes = [one.dtype for one in self.planned.call.tensors() if one.is_floating_point()]
        return str(max(dtypes, key=lambda one: torch.finfo(one).eps)).removeprefix("torch.")
