"""The emulated torchair: a backend for `torch.compile` that checks a graph and runs it eagerly."""

from collections.abc import Callable, Sequence
from typing import Any

from jumar.emulator.graphs import compile_graph

from .configs import CompilerConfig

__all__ = ["CompilerConfig", "get_npu_backend"]


def get_npu_backend(*, compiler_config: CompilerConfig | None = None) -> Callable[..., Any]:
    """The backend: `torch.compile(model, backend=get_npu_backend())`."""

    def npu(module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return compile_graph(module, example_inputs)

    return npu
