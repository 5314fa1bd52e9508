"""NPUGraph: operators that are captured once and run again on the same memory."""

from contextlib import ExitStack
from types import TracebackType
from typing import Any

import torch

from jumar.emulator.graphs import while_in_graph

from .devices import synchronize
from .streams import Stream, StreamContext

_core = torch.ops.jumar_emulator

__all__ = ["NPUGraph", "graph", "graph_pool_handle", "is_current_stream_capturing"]


class NPUGraph:
    """A captured graph. Inputs are read, and results written, where they lay at the capture."""

    def __init__(self) -> None:
        self._id = 0

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Begin to capture the operators of this thread."""
        self.reset()
        self._id = _core.capture_begin()

    def capture_end(self) -> None:
        """End the capture."""
        _core.capture_end()

    def replay(self) -> None:
        """Run the captured operators again. Raises RuntimeError where nothing was captured."""
        _core.replay(self._id)

    def reset(self) -> None:
        """Forget what was captured, and its memory."""
        if self._id:
            _core.forget(self._id)
        self._id = 0

    def pool(self) -> tuple[int, int]:
        """The memory pool: there is one."""
        return graph_pool_handle()

    def __del__(self) -> None:
        self.reset()


class graph:  # noqa: N801
    """Context: what runs inside is captured into `npu_graph`."""

    def __init__(
        self,
        npu_graph: NPUGraph,
        pool: Any = None,
        stream: Any = None,
        auto_dispatch_capture: bool = False,
        capture_error_mode: str = "global",
    ) -> None:
        self.npu_graph = npu_graph
        self.stream = stream
        self._entered = ExitStack()

    def __enter__(self) -> None:
        synchronize()
        with ExitStack() as entered:
            entered.enter_context(
                while_in_graph("aclop-in-capture", "NPUGraph capture failed (emulated: graph=fail)")
            )
            entered.enter_context(StreamContext(self.stream or Stream()))
            self.npu_graph.capture_begin()
            self._entered = entered.pop_all()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.npu_graph.capture_end()
        self._entered.close()
        if kind is not None:
            self.npu_graph.reset()


def graph_pool_handle() -> tuple[int, int]:
    """The memory pool that graphs can share: there is one."""
    return (0, 1)


def is_current_stream_capturing() -> bool:
    """Whether this thread captures."""
    return bool(_core.is_capturing())
