"""Attention for vLLM: the backend that stands in its CUSTOM slot, by class path.

| implementation | backend |
|---|---|
| `reference` | `paged.TorchPagedBackend`: plain torch, on every device |
| `torch_npu` | `ascend.AscendBackend`: torch_npu's fused kernels |

A path, as vLLM's platforms give one: importing this module imports neither torch nor vLLM.
"""

from __future__ import annotations

PAGED = "jumar.vllm.attention.paged.TorchPagedBackend"


def backend_path(device: str) -> str:
    """The class path of the attention backend for a device (`cpu`, `npu`, `npu:0`)."""
    return PAGED
