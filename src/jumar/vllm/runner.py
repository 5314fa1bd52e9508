"""The runners: vLLM's own, on the CPU and on an NPU."""

from __future__ import annotations

from typing import Any

from vllm.v1.worker.cpu_model_runner import CPUModelRunner
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

from jumar.contracts.errors import InvalidRequest
from jumar.vllm.operators import linear, process


class CPURunner(CPUModelRunner):
    """On the CPU."""

    def load_model(self, load_dummy_weights: bool = False) -> None:
        """As vLLM, then float32 weights are laid out for the CPU's products."""
        super().load_model(load_dummy_weights)
        linear.prepack(self.model, process.here())

    def reload_weights(self, *args: Any, **kwargs: Any) -> None:
        """As vLLM, where it still can: it writes into the weights that it made.

        Raises:
            InvalidRequest: they were laid out for the CPU's products; nothing was touched.
        """
        if linear.is_ours(self.model):
            raise InvalidRequest(
                "The weights were laid out for the CPU's products and cannot be loaded again.",
                hint="Start the engine anew.",
            )
        super().reload_weights(*args, **kwargs)

    def _postprocess_triton(self) -> None:
        """vLLM puts compiled operators here that its CPU build has; ours are in the manifest."""


class NPURunner(GPUModelRunner):
    """On an NPU."""


RUNNERS: dict[str, type[GPUModelRunner]] = {"cpu": CPURunner, "npu": NPURunner}
