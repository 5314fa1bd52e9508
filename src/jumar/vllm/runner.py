"""The runners: vLLM's own, on the CPU and on an NPU, with one seam around each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm.v1.worker.cpu_model_runner import CPUModelRunner
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

if TYPE_CHECKING:
    from collections.abc import Callable


def _plainly(step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return step(*args, **kwargs)


class Seam:
    """`around(step, scheduler_output, ...)` runs each step; whoever watches steps replaces it."""

    around: Callable[..., Any] = staticmethod(_plainly)

    def execute_model(self, *args: Any, **kwargs: Any) -> Any:
        """One step of the engine."""
        return self.around(super().execute_model, *args, **kwargs)  # type: ignore[misc]


class CPURunner(Seam, CPUModelRunner):
    """On the CPU."""

    def _postprocess_triton(self) -> None:
        """Compiled operators of vLLM's CPU build would come here; the manifest has what it takes."""


class NPURunner(Seam, GPUModelRunner):
    """On an NPU."""


RUNNERS = {"cpu": CPURunner, "npu": NPURunner}
