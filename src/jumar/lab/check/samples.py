"""Inputs from torch's own tests: OpInfo samples, found by recording what a sample really calls.

OpInfo is private to torch: `op_db` says what is missing where it cannot be had. Which aten overload
belongs to which OpInfo is not guessed from names: a sample is run once, and what the dispatcher was
asked for is written down (612 overloads in 1.3 s of one core, torch 2.13).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from jumar.contracts.errors import DependencyMissing
from jumar.lab.check.calls import Call, plain, signature

MODULE = "torch.testing._internal.common_methods_invocations"
INDEXED = 3
"""Samples of an OpInfo that are run to see which overloads it calls."""
LOOKED_AT = 40
"""Samples of an OpInfo that are looked at for calls of one overload."""


def require() -> None:
    """See that OpInfos can be had, without importing them here.

    Raises:
        DependencyMissing: names the package that they need and that is not installed.
    """
    from importlib.util import find_spec

    for name in ("torch", "numpy", "expecttest"):
        if find_spec(name) is None:
            raise DependencyMissing(
                f"torch's own test samples need {name}, which is not installed.",
                hint=f"pip install {name}",
            )


def op_db() -> list[Any]:
    """torch's OpInfos.

    Raises:
        DependencyMissing: a package that they need is not installed, or this torch has none.
    """
    from importlib import import_module

    try:
        found: list[Any] = import_module(MODULE).op_db
    except (ImportError, AttributeError) as error:
        missing = getattr(error, "name", None)
        raise DependencyMissing(
            f"torch's OpInfo samples cannot be had: {error}.",
            hint=f"pip install {missing}" if missing and not missing.startswith("torch") else None,
        ) from error
    return found


def index() -> dict[str, tuple[str, ...]]:
    """For each aten overload the OpInfos whose samples call it, those of its own name first."""
    found: dict[str, dict[str, None]] = {}
    for info in op_db():
        for dtype in _first(info):
            for called, _ in islice(_recorded(info, dtype, INDEXED), 400):
                found.setdefault(called, {})[info.full_name] = None
    return {name: _nearest_first(name, list(infos)) for name, infos in found.items()}


def calls(operator: str, dtype: Any, name: str, limit: int) -> Iterator[Call]:
    """At most `limit` different calls of an overload in `dtype` by the samples of one OpInfo."""
    info = next(one for one in op_db() if one.full_name == name)
    if dtype not in info.dtypes:
        return
    seen: set[str] = set()
    for _, call in _recorded(info, dtype, LOOKED_AT, only=operator):
        if len(seen) >= limit:
            return
        if plain(call) and (mark := signature(call)) not in seen:
            seen.add(mark)
            yield call


def _first(info: Any) -> list[Any]:
    """The dtype that says most about an OpInfo: float32, else the first of what it has."""
    import torch

    ranked = sorted(info.dtypes, key=lambda one: (one is not torch.float32, str(one)))
    return ranked[:1]


def _recorded(
    info: Any, dtype: Any, count: int, only: str | None = None
) -> Iterator[tuple[str, Call]]:
    """Names and arguments of what the first samples call, below torch's composites."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    try:
        # Not `info.sample_inputs`: it walks the stack for the test that asks, at every sample.
        drawn = info.sample_inputs_func(info, "cpu", dtype, requires_grad=False)
        samples = list(islice(drawn, count))
    except (NotImplementedError, RuntimeError, TypeError, ValueError):
        return  # this OpInfo has no samples here (no LAPACK, no such dtype): others may
    functions = [one for one in (info.op, info.inplace_variant) if one is not None]
    for sample in samples:
        for function in functions:
            yield from _called(function, sample, only)


def _called(function: Callable[..., Any], sample: Any, only: str | None) -> list[tuple[str, Call]]:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    found: list[tuple[str, Call]] = []

    class Recorder(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name = op.name()
            if only in (None, name):
                call = Call(args, kwargs or {}) if only is None else _kept(args, kwargs or {})
                found.extend([] if call is None else [(name, call)])
            return op(*args, **(kwargs or {}))

    kept = Call((sample.input, *sample.args), sample.kwargs)
    try:
        kept = kept.cloned() if plain(kept) else kept
        with torch.no_grad(), Recorder():
            function(*kept.args, **kept.kwargs)
    except Exception:  # noqa: BLE001  (a sample that this variant refuses; what it called stays)
        return found
    return found


def _kept(args: Any, kwargs: Any) -> Call | None:
    """A copy of the arguments as they are before the operator writes to them."""
    call = Call(args, kwargs)
    return call.cloned() if plain(call) else None


def _nearest_first(operator: str, infos: list[str]) -> tuple[str, ...]:
    base = operator.partition("::")[2].partition(".")[0].strip("_")
    return tuple(sorted(infos, key=lambda name: (base not in name, len(name), name)))
