"""Layers beside their formulas: what a vendor fuses into one operator has no other reference.

A layer of Jumar's holds the function that computes it. For a step that is judged it holds one that
also computes the formula on the CPU in float64, from the same inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jumar.lab.check.calls import Answer, Call
from jumar.lab.check.formula import AgainstFormula
from jumar.lab.check.judging import Planned
from jumar.lab.shadow.findings import Guilty
from jumar.operators.layers import layer_operator


class Layers:
    """Judges the layers of `model` that hold an implementation, while it is entered."""

    def __init__(self, model: Any) -> None:
        from jumar.vllm.operators.layers import Holder

        self._held = [
            (name, module)
            for name, module in model.named_modules()
            if isinstance(module, Holder) and "implementation" in vars(module)
        ]
        self._found: dict[Any, Guilty] = {}

    @property
    def guilty(self) -> list[Guilty]:
        """Each operator, class of shapes and dtype once."""
        return list(self._found.values())

    def __enter__(self) -> Layers:
        self._own = [module.implementation for _, module in self._held]
        for name, module in self._held:
            module.implementation = self._judged(name, module.operator, module.implementation)
        return self

    def __exit__(self, *_: object) -> None:
        for (_, module), own in zip(self._held, self._own, strict=True):
            module.implementation = own

    def _judged(self, layer: str, operator: str, own: Callable[..., Any]) -> Callable[..., Any]:
        from torch.utils._python_dispatch import _disable_current_modes
        from torch.utils._pytree import tree_leaves

        def judged(*args: Any, **kwargs: Any) -> Any:
            with _disable_current_modes():
                before = Call(args, kwargs).moved(lambda tensor: tensor.detach().cpu().clone())
            result = own(*args, **kwargs)
            with _disable_current_modes():
                leaves = [one.detach().cpu() for one in tree_leaves(result)]
                self._compare(layer, operator, before, Answer(leaves, before))
            return result

        return judged

    def _compare(self, layer: str, operator: str, call: Call, answer: Answer) -> None:
        formula = AgainstFormula(layer_operator(operator), Planned(0, layer, call, answer))
        verdict = formula.verdict(answer, answer)
        if verdict is None:
            return
        dtype = str(call.tensors()[0].dtype).removeprefix("torch.")
        guilty = Guilty(
            operator=operator,
            implementation=_implementation(operator, dtype),
            kind=verdict.kind,
            reason=verdict.reason,
            shapes=call.shapes(),
            dtype=dtype,
            layer=layer,
            numbers=dict(verdict.numbers),
        )
        known = self._found.get(guilty.subject)
        self._found[guilty.subject] = guilty if known is None else known.worse(guilty)


def _implementation(operator: str, dtype: str) -> str:
    """Who computes that layer operator in this process."""
    from jumar.vllm.operators.process import here

    made = [one for one in here().bindings.made if one.operator == operator]
    fitting = [one for one in made if one.dtype == dtype] or made
    return fitting[-1].implementation
