"""Graph, kernel override, eager: each module is bound to the highest rung that works, provably.

    runtime = BackendRuntime(graphs=accelerator.graphs(), compile="auto", ...)
    runtime.wrap_module(pipeline.unet, "unet")     # climbs when it is first called
    runtime.timeline()                             # what was tried, and why it was or was not taken

A rung is taken only after it has answered the module's first real input and agreed with the eager
module on it. That is done once for each shape class (shapes, types and devices of all tensors, and
all other arguments); from then on the module holds what was found.
"""

from __future__ import annotations

import copy
import functools
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jumar.contracts.errors import JumarError
from jumar.contracts.results import AttemptLevel, BackendAttempt, BackendTimelineEntry
from jumar.devices.graphs import Function, Graph, hushed
from jumar.devices.prepacking import Prepacked, prepack
from jumar.runtime.agreement import disagreement

Override = Callable[[Any, str], Function | None]
"""Gives a better function for a module (the module, its tag), or None."""

Comparison = Callable[[Any, Any], str | None]
"""What is wrong with an output (second) beside the eager one (first), in words; None if nothing."""

_OPERATOR = re.compile(
    r"\b(?:aten|npu)(?:::|\.)\w+(?:\.\w+)?|\baclnn\w+|\bEZ\d{4}\b"
    r"|\b[Oo]perator \w+ is\b|\btorch op \w+|\baclop is \w+"
)


@dataclass(frozen=True)
class Rules:
    """When to stop climbing: seconds for one attempt, and shape classes for one module."""

    seconds: float = 300.0
    shape_classes: int = 8


@dataclass(frozen=True)
class BackendRuntime:
    """What the modules of one loaded model are bound with.

    `compile` is `on`, `off` or `auto`; `unasked` says what `auto` means on this device.
    `prepacks`: weights of linear layers may be laid out anew for the CPU's products, an override
    below all graphs that is proven layer by layer when a module is wrapped.
    `synchronize` waits for the device, so that an error of its own belongs to the right attempt.
    """

    graphs: Sequence[Graph] = ()
    compile: str = "auto"
    unasked: bool = False
    prepacks: bool = False
    override: Override | None = None
    compare: Comparison = disagreement
    synchronize: Callable[[], None] = lambda: None
    rules: Rules = Rules()
    _climbers: dict[str, _Climber] = field(default_factory=dict)

    def wrap_module(self, module: Any, tag: str) -> Any:
        """Let the module climb when it is first called; gives the same module back."""
        laid_out = prepack(module) if self.prepacks else Prepacked()
        climber = _Climber(self, module, tag, laid_out)
        self._climbers[tag] = climber
        module.forward = climber
        return module

    def timeline(self) -> list[BackendTimelineEntry]:
        """One entry per module that has been called, also where that was in an earlier run."""
        return [
            BackendTimelineEntry(module=tag, attempts=list(climber.attempts))
            for tag, climber in self._climbers.items()
            if climber.attempts
        ]

    def close(self) -> None:
        """Let go of the modules, and of the graphs that were made of them."""
        self._climbers.clear()

    def rungs(self) -> tuple[Sequence[Graph], str]:
        """The graphs to try, and where there are none, why."""
        if self.compile == "off":
            return (), "not tried: compile is off"
        if self.compile == "auto" and not self.unasked:
            return (), "not tried: on this device only with compile: on"
        return self.graphs, "this installation makes no graphs"


class _Climber:
    """Stands in for `module.forward`: dispatches by shape class, climbs on a new one."""

    def __init__(self, runtime: BackendRuntime, module: Any, tag: str, laid_out: Prepacked) -> None:
        self._runtime = runtime
        self._module = module
        self._tag = tag
        self._laid_out = laid_out
        self._eager: Function = module.forward
        self._only_eager = False
        self._bound: dict[Any, Function] = {}
        self.attempts: list[BackendAttempt] = []
        functools.update_wrapper(self, module.forward)  # libraries look at forward's signature

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._only_eager:
            return self._eager(*args, **kwargs)
        key = _shape_class(args, kwargs)
        bound = self._bound.get(key)
        return self._first(key, args, kwargs) if bound is None else bound(*args, **kwargs)

    def _first(self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        candidates = self._candidates(_state(args, kwargs))
        if not candidates:
            self._only_eager = not self._bound  # no rungs at all: nothing to look up from now on
            return self._lowest(key)(*args, **kwargs)
        try:
            spare = copy.deepcopy((args, kwargs))
        except Exception as error:  # noqa: BLE001  (any argument type; told in the report)
            self._tell("compile", False, f"not tried: its inputs cannot be copied ({error})")
            return self._lowest(key)(*args, **kwargs)
        wanted = self._eager(*spare[0], **spare[1])
        for level, name, make in candidates:
            if (bound := self._attempt(level, name, make, args, kwargs, wanted)) is not None:
                self._select(key, level, bound, name)
                return bound(*args, **kwargs)
        return self._lowest(key)(*args, **kwargs)

    def _lowest(self, key: Any) -> Function:
        """The module itself, with its weights as they lie."""
        if self._laid_out.layers:
            self._select(key, "kernel_override", self._eager, str(self._laid_out))
        else:
            self._select(key, "eager", self._eager)
        return self._eager

    def _candidates(
        self, state: str | None
    ) -> list[tuple[AttemptLevel, str, Callable[[Function], Function]]]:
        """What to try above eager, best first; what there is not is told.

        An input that holds `state` (a cache that grows with every token) has another content each
        time: what agreed with eager once says nothing of the next call, so no graph is taken.
        """
        graphs, reason = self._runtime.rungs()
        if graphs and state is not None:
            graphs, reason = (), f"not tried: its input {state} changes from call to call"
        if graphs and len(self._bound) >= self._runtime.rules.shape_classes:
            graphs, reason = (), f"not tried: more than {len(self._bound)} shape classes"
        found: list[tuple[AttemptLevel, str, Callable[[Function], Function]]] = [
            ("compile", graph.name, graph.make) for graph in graphs
        ]
        if not graphs:
            self._tell("compile", False, reason)
        override = self._runtime.override and self._runtime.override(self._module, self._tag)
        if override is None and not self._laid_out.layers:
            reason = "; ".join(self._laid_out.refused) or "no override registered"
            self._tell("kernel_override", False, reason)
        elif override is not None:
            found.append(("kernel_override", "override", lambda _: override))
        return found

    def _attempt(
        self,
        level: AttemptLevel,
        name: str,
        make: Callable[[Function], Function],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        wanted: Any,
    ) -> Function | None:
        """The function of a rung, if it answers this input, in time, as the eager module does."""
        begun = time.monotonic()
        spare = copy.deepcopy((args, kwargs))
        try:
            with hushed():
                bound = make(self._eager)
                got = bound(*spare[0], **spare[1])
                self._runtime.synchronize()
        except JumarError:
            raise  # cancelled, or out of time: not the rung's fault
        except Exception as error:  # noqa: BLE001  (whatever a compiler raises; told in the report)
            self._tell(level, False, f"{name}: {_in_short(error)}")
            return None
        spent = time.monotonic() - begun
        if spent > self._runtime.rules.seconds:
            limit = self._runtime.rules.seconds
            self._tell(level, False, f"{name}: took {spent:.0f} s, over the limit of {limit:.0f} s")
            return None
        if (difference := self._runtime.compare(wanted, got)) is not None:
            self._tell(level, False, f"{name}: differs from eager: {difference}")
            return None
        return bound

    def _select(
        self, key: Any, level: AttemptLevel, bound: Function, name: str | None = None
    ) -> None:
        self._bound[key] = bound
        self._tell(level, True, name, selected=True)

    def _tell(
        self, level: AttemptLevel, ok: bool, reason: str | None, *, selected: bool = False
    ) -> None:
        """Once, however many shape classes say the same."""
        attempt = BackendAttempt(level=level, ok=ok, reason=reason, selected=selected)
        if attempt not in self.attempts:
            self.attempts.append(attempt)


_PLAIN = (int, float, str, bool, type(None))


def _state(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """The type of the first input that is neither a tensor nor a plain value; None without one."""
    import torch
    from torch.utils._pytree import tree_leaves

    known = (*_PLAIN, torch.Tensor, torch.dtype, torch.device)
    others = (leaf for leaf in tree_leaves((args, kwargs)) if not isinstance(leaf, known))
    return next((type(leaf).__name__ for leaf in others), None)


def _shape_class(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from torch import Tensor
    from torch.utils._pytree import tree_flatten

    leaves, structure = tree_flatten((args, kwargs))
    return structure, tuple(
        (tuple(leaf.shape), leaf.dtype, leaf.device)
        if isinstance(leaf, Tensor)
        else leaf
        if isinstance(leaf, _PLAIN)
        else type(leaf)
        for leaf in leaves
    )


def _in_short(error: Exception) -> str:
    """The error's type, its first line with words, and the operator where a later line names it."""
    error = getattr(error, "inner_exception", error)  # torch.compile wraps what its backend raised
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0][:300] if lines else 'no message'}"
    named = _OPERATOR.search(str(error))
    if named and named[0] not in text:
        text += f" ({named[0]})"
    return text
