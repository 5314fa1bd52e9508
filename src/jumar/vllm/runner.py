"""The runners: vLLM's own, on the CPU and on an NPU."""

from __future__ import annotations

from vllm.v1.worker.cpu_model_runner import CPUModelRunner
from vllm.v1.worker.gpu_model_runner import GPUModelRunner


class CPURunner(CPUModelRunner):
    """On the CPU."""

    def _postprocess_triton(self) -> None:
        """vLLM puts compiled operators here that its CPU build has; ours are in the manifest."""


class NPURunner(GPUModelRunner):
    """On an NPU."""


RUNNERS: dict[str, type[GPUModelRunner]] = {"cpu": CPURunner, "npu": NPURunner}
