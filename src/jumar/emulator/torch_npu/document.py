"""Names that OmniRT's deployment page uses (profile 2.1): as the document says, not as recorded.

torch_npu 2.13.0 has neither of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from jumar.emulator.graphs import enter_graph_mode

from . import npu


def empty_cache() -> None:
    """Give cached memory of all devices back."""
    npu.empty_cache()


@contextmanager
def graph_mode() -> Iterator[None]:
    """Run the block as a graph; fails as a whole where an operator is not supported.

    Raises:
        RuntimeError: graph mode init failed, with the operator.
    """
    with enter_graph_mode():
        yield
