"""The two kinds of operators that are checked: torch's overloads, and layers of models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from jumar.evidence.records import Verdict
from jumar.lab.check import exact, reproducer, sources
from jumar.lab.check.against_cpu import AgainstCPU
from jumar.lab.check.base import Case, Target, Task
from jumar.lab.check.calls import Answer, Call
from jumar.lab.check.formula import AgainstFormula
from jumar.lab.check.judging import Planned

if TYPE_CHECKING:
    from jumar.operators.layers import LayerOperator


class Judged(Protocol):
    """The reference of one case."""

    def verdict(self, first: Answer, second: Answer) -> Verdict | None:
        """What is wrong with two runs on equal inputs; None where nothing is."""
        ...

    def doubted(self, verdict: Verdict) -> Verdict:
        """What an exception says, where the reference has an answer that can be relied on."""
        ...


class Subject(Protocol):
    """An operator, whoever implements it."""

    def refusal(self) -> str | None:
        """Why no verdict can be had; None where one can."""
        ...

    def without_inputs(self, dtype: str) -> str:
        """Why there are no calls in this dtype, where there are none."""
        ...

    def plan(self, task: Task, trying: Callable[[int], object]) -> Iterator[Planned]:
        """Its calls, always the same ones in the same order."""
        ...

    def judged(self, planned: Planned, kind: str) -> Judged:
        """The reference of a call, computed; `kind` is that of the device."""
        ...

    def script(self, target: Target, case: Case, planned: Planned) -> str:
        """A reproducer."""
        ...


def subject(name: str) -> Subject:
    """The operator of a name. Raises InvalidValue where there is none."""
    from jumar.operators.dispatcher import overload
    from jumar.operators.layers import layer_operator

    return Overload(overload(name)) if "::" in name else Layer(layer_operator(name))


class Overload:
    """An overload of torch; its reference is the CPU's own kernel in float64."""

    def __init__(self, op: Any) -> None:
        self.op = op

    def refusal(self) -> str | None:
        """See `sources.refusal`."""
        return sources.refusal(self.op)

    def without_inputs(self, dtype: str) -> str:
        """See `sources.without_inputs`."""
        return sources.without_inputs(self.op, dtype)

    def plan(self, task: Task, trying: Callable[[int], object]) -> Iterator[Planned]:
        """See `sources.plan`."""
        return sources.plan(self.op, task, trying)

    def judged(self, planned: Planned, kind: str) -> Judged:
        """Computed in float64; where the CPU has no such kernel, in the call's own dtypes."""
        reference = exact.wide(self.op, planned.call) or planned.native
        return AgainstCPU(self.op, planned, reference, kind)

    def script(self, target: Target, case: Case, planned: Planned) -> str:
        """See `reproducer.script`."""
        return reproducer.script(target, self.op, case, planned)


class Layer:
    """A layer operator; its reference is a formula in float64, its cases are its own."""

    def __init__(self, layer: LayerOperator) -> None:
        self.layer = layer

    def refusal(self) -> str | None:
        """Attention backends and the like give no numbers by themselves."""
        from jumar.operators.layers import Draw

        if next(iter(self.layer.cases(Draw("float32"))), None) is None:
            return "it has no numbers of its own to compare"
        return None

    def without_inputs(self, dtype: str) -> str:
        """Limits are given for floating-point dtypes."""
        return f"it has no limits for {dtype}"

    def plan(self, task: Task, trying: Callable[[int], object]) -> Iterator[Planned]:
        """The cases that the operator lists, in a dtype that it has limits for."""
        from jumar.operators.layers import Draw

        if task.dtype not in self.layer.tolerances:
            return
        for number, one in enumerate(self.layer.cases(Draw(task.dtype))):
            call = Call(tuple(one.args), dict(one.kwargs))
            yield Planned(number, one.label, call, Answer([], call))

    def judged(self, planned: Planned, kind: str) -> Judged:
        """Against the golden function."""
        return AgainstFormula(self.layer, planned)

    def script(self, target: Target, case: Case, planned: Planned) -> str:
        """Needs Jumar: the formula is Jumar's."""
        return reproducer.layer_script(target, self.layer.name, case)
