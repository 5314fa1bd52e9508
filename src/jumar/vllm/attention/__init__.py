"""Attention for vLLM: the backend that stands in its CUSTOM slot, by class path.

| implementation | backend |
|---|---|
| `reference` | `paged.TorchPagedBackend`: plain torch, on every device |
| `torch_npu` | `ascend.AscendBackend`: torch_npu's fused kernels; what they refuse in plain torch |

A path, as vLLM's platforms give one: importing this module imports neither torch nor vLLM. Vision
encoders have no cache and no backend: `vision` replaces their layer.
"""

from __future__ import annotations


def backend_path(device: str) -> str:
    """The class path for a device (`cpu`, `npu:0`) before anything was decided in a process.

    A worker decides anew, by its policy and by evidence (`jumar.vllm.operators`).

    Raises:
        OperatorUnavailable: none can be used on it.
    """
    from jumar.devices import accelerators
    from jumar.operators.binding import Bindings

    here = accelerators()[device.split(":")[0]].fingerprint()
    bindings = Bindings({"attention_backend": ("torch_npu", "reference")}, device, here)
    path: str = bindings.bind("attention_backend", "float16")()
    return path
