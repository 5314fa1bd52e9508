"""The runners: vLLM's own, on the CPU and on an NPU."""

from __future__ import annotations

import torch
from vllm.model_executor.layers.linear import LinearBase
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead
from vllm.v1.worker.cpu_model_runner import CPUModelRunner
from vllm.v1.worker.gpu_model_runner import GPUModelRunner


class CPURunner(CPUModelRunner):
    """On the CPU."""

    def load_model(self, load_dummy_weights: bool = False) -> None:
        """As vLLM, then float32 weights are laid out by their columns."""
        super().load_model(load_dummy_weights)
        by_columns(self.model)

    def _postprocess_triton(self) -> None:
        """vLLM puts compiled operators here that its CPU build has; ours are in the manifest."""


def by_columns(model: torch.nn.Module) -> None:
    """Lay out each float32 matrix (outputs, inputs) of linear layers and heads by its columns.

    The same numbers with other strides: for the 4 to 15 rows that a decode step often has, the
    CPU's product with them takes 0.6 to 0.8 of the time (`python -m benchmarks.vllm_columns`).
    """
    for layer in model.modules():
        heavy = isinstance(layer, LinearBase | ParallelLMHead)
        weight = getattr(layer, "weight", None) if heavy else None
        if isinstance(weight, torch.nn.Parameter) and weight.dtype == torch.float32:
            weight.data = weight.data.t().contiguous().t()


class NPURunner(GPUModelRunner):
    """On an NPU."""


RUNNERS: dict[str, type[GPUModelRunner]] = {"cpu": CPURunner, "npu": NPURunner}
