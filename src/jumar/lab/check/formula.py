"""A layer operator beside its formula in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jumar.evidence.records import Verdict
from jumar.lab.check.calls import Answer
from jumar.lab.check.judging import Planned, agreed, as_tensor
from jumar.parity import Mismatch, compare

if TYPE_CHECKING:
    from torch import Tensor

    from jumar.operators.layers import LayerOperator


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

    def doubted(self, verdict: Verdict) -> Verdict:
        """What an exception says: the formula has an answer."""
        return verdict

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
        found = (self._beyond(as_tensor(a), as_tensor(b)) for a, b in zip(wanted, got, strict=True))
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
