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

    def forward(name: str) -> Any:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            torch.npu.synchronize()
            return getattr(self.gloo, name)(*map(_alias, args), **kwargs)

        return call

    class HCCL(ProcessGroup):  # type: ignore[misc]
        """gloo under HCCL's name."""

        def __init__(self) -> None:
            super().__init__(rank, size)
            self.gloo = ProcessGroupGloo(store, rank, size, timeout=timeout)

        def getBackendName(self) -> str:  # noqa: N802
            return "hccl"

        # torch keeps the name in the backends of a group, and this one has none.
        def _set_group_name(self, name: str) -> None:
            self.name = name

        @property
        def group_name(self) -> str:
            return self.name

    for name in COLLECTIVES:
        setattr(HCCL, name, forward(name))
    for name, older in SINGLE.items():
        setattr(HCCL, name, forward(older))
    return HCCL()


def _alias(value: Any) -> Any:
    """Tensors in lists of any depth as their CPU aliases."""
    import torch

    if isinstance(value, list | tuple):
        return [_alias(one) for one in value]
    to_cpu = torch.ops.jumar_emulator.to_cpu
    return to_cpu(value) if getattr(value, "is_npu", False) else value


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
