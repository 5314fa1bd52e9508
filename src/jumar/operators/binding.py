"""Binding: each layer operator is resolved once, when a model is loaded, and held from then on.

>>> bindings = Bindings({"rms_norm": ("torch_npu", "reference")}, device="npu:0")
>>> norm = bindings.bind("rms_norm", "float16")      # a plain function: the layer keeps it
>>> bindings.bound
{'rms_norm': 'torch_npu'}

Nothing stands between a layer and the function that it holds: no lookup, no lock, no wrapper, and
nothing that a graph would break at. There is no fallback in the middle of a forward either: what
fails is told by `jumar.operators.failures`, and decided anew when the worker loads again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jumar.contracts.errors import InvalidValue, OperatorUnavailable
from jumar.operators.base import Override
from jumar.operators.failures import remember
from jumar.operators.layers import layer_operator
from jumar.operators.providers import Implementation, Provider, provider, unfit

Order = str | Sequence[str]
"""One implementation, or several, best first."""

Decisions = Mapping[str, Order] | Callable[[str], Order]
"""Who may compute a layer operator, by its name."""


@dataclass(frozen=True)
class Binding:
    """What a layer operator was bound to, and why not to those that were asked before."""

    operator: str
    implementation: str
    dtype: str
    passed_over: tuple[tuple[str, str], ...] = ()


@dataclass
class Bindings:
    """The bindings of one model on one device.

    `fingerprint` is the device's: limits of architecture are held against it. `find` gives a
    provider by name.
    """

    decisions: Decisions
    device: str
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    find: Callable[[str], Provider] = provider
    made: list[Binding] = field(default_factory=list)

    @property
    def bound(self) -> dict[str, str]:
        """The implementation of each operator, for a run's report; two where dtypes differ."""
        found: dict[str, dict[str, None]] = {}
        for one in self.made:
            found.setdefault(one.operator, {})[one.implementation] = None
        return {operator: ", ".join(names) for operator, names in sorted(found.items())}

    def bind(self, operator: str, dtype: str) -> Callable[..., Any]:
        """The function that computes a layer operator in `dtype` (`float16`) here.

        The first of those that the decisions name is taken which is here and made for this device
        and dtype.

        Raises:
            InvalidValue: there is no such layer operator or provider, nothing was decided, or the
                provider's function takes other arguments.
            OperatorUnavailable: none can be used here; why each cannot.
        """
        layer = layer_operator(operator)
        passed: list[tuple[str, str]] = []
        for name in self._order(operator):
            here = self.find(name)
            implementation = here.layers().get(operator)
            why = self._unusable(here, implementation, dtype)
            if why is None and implementation is not None:
                function = implementation.make()
                _check(function, layer.signature, name)
                remember(function, Override(operator, name))
                self.made.append(Binding(operator, name, dtype, tuple(passed)))
                return function
            passed.append((name, why or ""))
        said = "; ".join(f"{name} {why}" for name, why in passed)
        raise OperatorUnavailable(
            f"Nobody can compute {operator} in {dtype} on {self.device}: {said}.",
            param="operators",
        )

    def _order(self, operator: str) -> list[str]:
        decisions = self.decisions
        order = decisions.get(operator) if isinstance(decisions, Mapping) else decisions(operator)
        if not order:
            raise InvalidValue(f"Nothing was decided about {operator}.", param="operators")
        return [order] if isinstance(order, str) else list(order)

    def _unusable(
        self, here: Provider, implementation: Implementation | None, dtype: str
    ) -> str | None:
        if implementation is None:
            return "does not have it"
        kind_or_dtype = unfit(implementation, self.device, dtype, self.fingerprint)
        return kind_or_dtype or here.unavailable()


def _check(function: Callable[..., Any], wanted: inspect.Signature, provider_name: str) -> None:
    """A provider's function is a Python function with the operator's arguments."""
    if not inspect.isfunction(function):
        raise InvalidValue(
            f"{provider_name} gives {function!r}: only the frame of a Python function can tell "
            "which implementation failed.",
            param="providers",
        )
    found = [(one.name, one.default) for one in inspect.signature(function).parameters.values()]
    expected = [(one.name, one.default) for one in wanted.parameters.values()]
    if found != expected:
        names = ", ".join(str(one) for one in wanted.parameters.values())
        raise InvalidValue(
            f"{provider_name}: {function.__qualname__} does not take ({names}).", param="providers"
        )
