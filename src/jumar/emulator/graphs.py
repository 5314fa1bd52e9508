"""Whether a graph can be made: what compiling, capturing and the document's graph mode meet.

A graph works unless `JUMAR_EMULATE_NPU=…,graph=fail` or a fault of kind `compile` names an operator
that is in it; the error then has a real text and names the operator.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


def refuse_unsupported(ops: Iterable[str]) -> None:
    """Fail as torchair does where one of `ops` ("aten::mm") has no converter.

    Raises:
        RuntimeError: the text of the fault, or "Unsupported torch op … by ge".
    """
    from jumar.emulator.faults.acting import compile_faults
    from jumar.emulator.faults.texts import say
    from jumar.emulator.start import current_settings

    faults = compile_faults()
    for number, op in enumerate(ops):
        for fault in faults:
            if fault.meets(op, 0, ()):
                raise RuntimeError(say(fault.rule.text, op))
        if number == 0 and not current_settings().graph:
            raise RuntimeError(say("unsupported-by-ge", op))


def compile_graph(module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """The backend for `torch.compile`: the aten graph of `module`, checked, then run as it is."""
    from torch._dynamo.backends.common import aot_autograd

    compiled: Callable[..., Any] = aot_autograd(fw_compiler=_checked)(module, example_inputs)
    return compiled


def _checked(module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    from functorch.compile import make_boxed_func  # type: ignore[import-untyped]

    targets = [node.target for node in module.graph.nodes if node.op == "call_function"]
    refuse_unsupported(one.name() for one in targets if hasattr(one, "_schema"))
    boxed: Callable[..., Any] = make_boxed_func(module.forward)
    return boxed


@contextmanager
def while_in_graph(text: str, begin: str) -> Iterator[None]:
    """Make the operators of `compile` faults fail with `text` in the block.

    Raises:
        RuntimeError: `begin`, where no graph works at all.
    """
    from jumar.emulator.faults import fault
    from jumar.emulator.faults.acting import compile_faults
    from jumar.emulator.start import current_settings

    if not current_settings().graph:
        raise RuntimeError(begin)
    with ExitStack() as faults:
        for one in compile_faults():
            faults.enter_context(fault(one.rule.op, "raise", text=text))
        yield


@contextmanager
def enter_graph_mode() -> Iterator[None]:
    """`torch_npu.npu.graph_mode()` of the deployment page."""
    with while_in_graph("graph-mode", "graph mode init failed"):
        yield
