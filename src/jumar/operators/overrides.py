"""Operators of torch computed by another implementation than the device's own kernel.

>>> with installed({Override("aten::gelu", "reference")}, device="npu"):
...     model(x)                         # gelu runs on the CPU now, copied there and back
>>> live(Override("aten::gelu", "reference"), device="npu")
False

A kernel is registered with torch's dispatcher at the device's key (`PrivateUse1` for npu, `CUDA`
for cuda), for one overload each; a composite (`aten::linear`) is computed whole. Each is proven
live when it is installed, by a call that has to arrive. Operators without override pay nothing.

- **Order.** The override that was installed last is in force, whoever is removed first. `device`
  as implementation brings the device's own kernel back for the block.
- **Threads and forks.** The dispatcher is the process's: all threads see an override, and a forked
  child inherits it. Install before other threads compute on the device, not while they do.
- **Gradients** go on working where torch has a formula for the operator. A composite, which torch
  differentiates in parts, refuses arguments that require gradients, rather than dropping them.
- All cards of one kind (`npu:0`, `npu:1`) share their kernels.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

from jumar.contracts.errors import InvalidValue, OperatorUnavailable, RunFailed
from jumar.operators.base import Override, Overrides
from jumar.operators.dispatcher import device_key, is_composite, overload, probe
from jumar.operators.failures import remember
from jumar.operators.providers import provider, unfit
from jumar.operators.reference import reference

Kernel = Callable[..., Any]
Lookup = Callable[[Override], Kernel]


class _Arrived(Exception):
    """A probe has reached the kernel of an override."""

    def __init__(self, layer: _Layer) -> None:
        super().__init__(layer.override)
        self.layer = layer


class _Layer:
    """One override on one dispatch key, and its registration while it is the one in force."""

    def __init__(self, override: Override, key: str, kernel: Kernel | None) -> None:
        self.override, self.key, self.kernel = override, key, kernel
        self.library: Any = None

    @property
    def place(self) -> tuple[str, str]:
        return self.key, self.override.operator

    def register(self) -> None:
        """Tell the dispatcher; `device` has nothing to tell."""
        import torch

        if self.kernel is None:
            return
        space, _, name = self.override.operator.partition("::")
        self.library = torch.library.Library(space, "IMPL")
        with warnings.catch_warnings():
            # That a kernel is replaced is the purpose.
            warnings.filterwarnings("ignore", message="Warning only once for all operators")
            self.library.impl(name, _entry(self, self.kernel), self.key)

    def withdraw(self) -> None:
        """Take the kernel back from the dispatcher."""
        if self.library is not None:
            self.library._destroy()
            self.library = None


_layers: dict[tuple[str, str], list[_Layer]] = {}
"""By dispatch key and operator; the last of a list is in force."""
_changing = threading.RLock()
_probing = 0
"""The thread whose calls are probes, or 0."""


def install(overrides: Iterable[Override], *, device: Any, lookup: Lookup | None = None) -> None:
    """Put `overrides` in force for the life of the process; all of them or none.

    `lookup` gives the kernels instead of the installed providers.

    Raises:
        InvalidValue: no such operator or provider, or no call on this device reaches it.
        OperatorUnavailable: the provider has no such function, or cannot be used on this device.
    """
    _push(overrides, device, lookup)


@contextmanager
def installed(
    overrides: Iterable[Override], *, device: Any, lookup: Lookup | None = None
) -> Iterator[None]:
    """Like `install`, for a block."""
    layers = _push(overrides, device, lookup)
    try:
        yield
    finally:
        _drop(layers)


def active(device: Any) -> Overrides:
    """The overrides in force on a device."""
    key = device_key(device)
    tops = [layers[-1] for (at, _), layers in list(_layers.items()) if at == key]
    return frozenset(one.override for one in tops if one.kernel is not None)


def live(override: Override, *, device: Any) -> bool:
    """Whether a call of its operator on `device` arrives at this override now, as a probe shows."""
    arrived, _ = _probe(override.operator, device)
    return arrived is not None and arrived.override == override


def _push(overrides: Iterable[Override], device: Any, lookup: Lookup | None) -> list[_Layer]:
    key = device_key(device)
    lookup = lookup or partial(_provided, device)
    chosen = sorted(set(overrides))
    for one, other in pairwise(chosen):
        if one.operator == other.operator:
            raise InvalidValue(f"{one} and {other} cannot both be on.", param="overrides")
    made = [_Layer(one, key, _kernel(one, key, lookup)) for one in chosen]
    with _changing:
        pushed: list[_Layer] = []
        try:
            for layer in made:
                pushed.append(layer)
                _place(layer)
                _prove(layer, device)
        except BaseException:
            _drop(pushed)
            raise
    return made


def _place(layer: _Layer) -> None:
    below = _layers.setdefault(layer.place, [])
    if below:
        below[-1].withdraw()
    below.append(layer)
    layer.register()


def _drop(layers: list[_Layer]) -> None:
    with _changing:
        for layer in reversed(layers):
            stack = _layers[layer.place]
            was_on_top = stack[-1] is layer
            layer.withdraw()
            stack.remove(layer)
            if not stack:
                del _layers[layer.place]
            elif was_on_top:
                stack[-1].register()


def _provided(device: Any, override: Override) -> Kernel:
    """The function of an installed provider."""
    import torch

    here = provider(override.implementation)
    why = here.unavailable()
    found = None if why else here.functions().get(override.operator)
    if found is not None:
        why = unfit(found, torch.device(device).type, None, {})
    if found is None or why:
        raise OperatorUnavailable(f"{override}: {why or 'it has no such function'}.")
    return found.make()


def _kernel(override: Override, key: str, lookup: Lookup) -> Kernel | None:
    op = overload(override.operator)
    if override.implementation == "device":
        return None
    if override.implementation == "reference":
        if key == "CPU":
            raise InvalidValue("The CPU computes the reference: it has none of its own.")
        kernel = reference(op)
    else:
        kernel = lookup(override)
    return _without_gradients(override, kernel) if is_composite(op) else kernel


def _without_gradients(override: Override, kernel: Kernel) -> Kernel:
    import torch
    from torch.utils._pytree import tree_leaves

    def refusing(*args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled() and any(
            getattr(one, "requires_grad", False) for one in tree_leaves((args, kwargs))
        ):
            raise RunFailed(
                f"{override} computes no gradients: torch differentiates this operator in parts.",
                hint="Run under torch.inference_mode(), or override its parts.",
            )
        return kernel(*args, **kwargs)

    return refusing


def _entry(layer: _Layer, kernel: Kernel) -> Kernel:
    """What the dispatcher calls. Tracebacks and stacks of a hang show it by the override's name."""

    def entry(*args: Any, **kwargs: Any) -> Any:
        if _probing and _probing == threading.get_ident():
            raise _Arrived(layer)
        return kernel(*args, **kwargs)

    entry.__code__ = entry.__code__.replace(co_name=str(layer.override))
    remember(entry, layer.override)
    return entry


def _prove(layer: _Layer, device: Any) -> None:
    if layer.kernel is None:
        return
    arrived, cause = _probe(layer.override.operator, device)
    if arrived is not layer:
        raise InvalidValue(
            f"{layer.override} is dead: a call of it on {device} does not arrive there.",
            hint="The operator is taken apart, or computed by something else, before.",
        ) from cause


def _probe(operator: str, device: Any) -> tuple[_Layer | None, Exception | None]:
    """The layer that a call arrives at; or none, and what the call raised instead."""
    global _probing
    import torch

    op = overload(operator)
    with _changing, torch.inference_mode():
        args, kwargs = probe(op, device)
        _probing = threading.get_ident()
        try:
            op(*args, **kwargs)
        except _Arrived as signal:
            return signal.layer, None
        except Exception as error:  # noqa: BLE001 - whatever else the probe met is no arrival
            return None, error
        finally:
            _probing = 0
    return None, None
