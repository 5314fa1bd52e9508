"""The process group `hccl`: gloo on CPU aliases of npu tensors, so that results land in place."""

from __future__ import annotations

from typing import Any


def register() -> None:
    """Make `torch.distributed.init_process_group("hccl")` work."""
    import torch.distributed as dist

    if dist.is_available():
        dist.Backend.register_backend("hccl", _make_group, devices=["npu"])


def _make_group(store: Any, rank: int, size: int, timeout: Any) -> Any:
    import torch
    from torch.distributed import ProcessGroup, ProcessGroupGloo

    to_cpu = torch.ops.jumar_emulator.to_cpu

    def alias(value: Any) -> Any:
        """Tensors in lists of any depth as their CPU aliases."""
        if isinstance(value, list | tuple):
            return [alias(one) for one in value]
        return to_cpu(value) if getattr(value, "is_npu", False) else value

    def forward(name: str) -> Any:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            torch.npu.synchronize()
            return getattr(self.gloo, name)(*map(alias, args), **kwargs)

        return call

    class HCCL(ProcessGroup):  # type: ignore[misc]
        """gloo under HCCL's name."""

        def __init__(self) -> None:
            super().__init__(rank, size)
            self.gloo = ProcessGroupGloo(store, rank, size, timeout=timeout)

        def getBackendName(self) -> str:  # noqa: N802
            return "hccl"

    for name in COLLECTIVES:
        setattr(HCCL, name, forward(name))
    for name, older in SINGLE.items():
        setattr(HCCL, name, forward(older))
    return HCCL()


COLLECTIVES = (
    "allreduce",
    "allreduce_coalesced",
    "broadcast",
    "reduce",
    "allgather",
    "_allgather_base",
    "allgather_into_tensor_coalesced",
    "gather",
    "scatter",
    "reduce_scatter",
    "_reduce_scatter_base",
    "alltoall",
    "alltoall_base",
    "send",
    "recv",
    "recv_anysource",
    "barrier",
)

SINGLE = {
    "all_gather_single": "_allgather_base",
    "reduce_scatter_single": "_reduce_scatter_base",
    "all_to_all_single": "alltoall_base",
}
"""Names that groups have since torch 2.13, and what backends call the same."""
