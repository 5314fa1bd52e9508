"""Ways of turning a function into a graph, best first, by kind of device.

Each takes a function of tensors and gives one that does the same faster; the work may happen when
it is made or when it is first called, so only a call shows whether it worked.
"""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

Function = Callable[..., Any]

TALKERS = ("torch._dynamo", "torch._inductor", "torch._functorch")


@dataclass(frozen=True)
class Graph:
    """One way; `name` is what reports call it."""

    name: str
    make: Callable[[Function], Function]


def torch_compile(name: str, **options: Any) -> Graph:
    """`torch.compile` with a backend; each shape class is compiled by itself (`dynamic=False`).

    torch runs code eagerly, without an error, once it was compiled eight times, and many modules
    share their code: so each graph counts for itself, or where this torch cannot do that,
    the count goes as far as torch lets it.
    """

    def make(function: Function) -> Function:
        import torch

        isolates = _isolates(torch.compile)
        alone = {"isolate_recompiles": True} if isolates else {}
        compiled: Function = torch.compile(function, dynamic=False, **alone, **options)
        if isolates:
            return compiled

        def counted_further(*args: Any, **kwargs: Any) -> Any:
            settings = torch._dynamo.config
            with settings.patch(cache_size_limit=settings.accumulated_cache_size_limit):
                return compiled(*args, **kwargs)

        return counted_further

    return Graph(name, make)


def _isolates(compiler: Callable[..., Any]) -> bool:
    return "isolate_recompiles" in inspect.signature(compiler).parameters


def inside(name: str, mode: Callable[[], Any]) -> Graph:
    """Run the function in a context, as `torch_npu.npu.graph_mode()` is used."""

    def make(function: Function) -> Function:
        def in_mode(*args: Any, **kwargs: Any) -> Any:
            with mode():
                return function(*args, **kwargs)

        return in_mode

    return Graph(name, make)


def captured(name: str, device_module: Any, graph_class: str) -> Graph:
    """Capture the kernels of one call and replay them over the same memory.

    `device_module` is `torch.npu` or `torch.cuda`; its `graph` context and `graph_class` have the
    form of CUDA graphs (PyTorch's notes on CUDA graphs: warm up on a side stream, capture, copy
    new inputs into the captured ones, replay).
    """

    def make(function: Function) -> Function:
        return _Replay(function, device_module, getattr(device_module, graph_class))

    return Graph(name, make)


class _Replay:
    """A function whose first call is captured; later ones copy their tensors in and replay.

    Its calls must be of one shape class. A replay cannot write into an object of the caller's (a
    key-value cache), so arguments other than tensors and plain values are refused.
    """

    def __init__(self, function: Function, device_module: Any, graph_class: Any) -> None:
        self._function = function
        self._device = device_module
        self._graph = graph_class()
        self._inputs: list[Any] | None = None
        self._outputs: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from torch import Tensor
        from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

        if not _plain((args, kwargs)):
            raise TypeError("a captured graph takes tensors and plain values only")
        leaves, spec = tree_flatten((args, kwargs))
        if self._inputs is None:
            self._inputs = [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
            self._capture(*tree_unflatten(self._inputs, spec))
        for held, given in zip(self._inputs, leaves, strict=True):
            if isinstance(held, Tensor):
                held.copy_(given)
        self._graph.replay()
        return tree_map(lambda x: x.clone() if isinstance(x, Tensor) else x, self._outputs)

    def _capture(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        side = self._device.Stream()
        side.wait_stream(self._device.current_stream())
        with self._device.stream(side):
            self._function(*args, **kwargs)
        self._device.current_stream().wait_stream(side)
        with self._device.graph(self._graph):
            self._outputs = self._function(*args, **kwargs)


@contextmanager
def hushed() -> Iterator[None]:
    """Compilers warn of what they cannot do well; that is for their authors. Errors still come."""
    loggers = [logging.getLogger(name) for name in TALKERS]
    levels = [logger.level for logger in loggers]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for logger in loggers:
                logger.setLevel(logging.CRITICAL)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _plain(value: Any) -> bool:
    from torch import Tensor, dtype
    from torch import device as torch_device

    if type(value) in (tuple, list):
        return all(map(_plain, value))
    if type(value) is dict:
        return all(map(_plain, value.values()))
    return isinstance(value, (Tensor, dtype, torch_device, bool, int, float, str, type(None)))
