"""Models that Jumar pulls and vLLM runs, on Jumar's platform where there is an NPU."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from jumar.catalog.manifest import Manifest
from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import UnsupportedTask
from jumar.devices.base import Placement
from jumar.runtime.families.base import Converter, LoadPlan, Model
from jumar.runtime.families.vllm.gguf_llama import gguf_llama
from jumar.runtime.run import Run


class VLLM:
    """Folders for `vllm serve`. Continuous batching over a paged cache is vLLM's own work: the
    engine here would answer the same request alone, and many times slower.
    """

    name = "vllm"
    requires = ("gguf", "numpy", "safetensors", "tokenizers", "torch", "transformers")
    converters: Mapping[str, Converter] = MappingProxyType({"gguf_llama": gguf_llama})

    def refuses(self, placement: Placement) -> str | None:
        """Any device: vLLM chooses its own."""
        return "vLLM runs it, in processes of its own"

    def prepare(self, request: ResolvedRequest) -> dict[str, Any]:
        """Never possible.

        Raises:
            UnsupportedTask: naming the command that serves the model.
        """
        raise _served_by_vllm(request.manifest)

    def load(self, plan: LoadPlan, run: Run) -> Model:
        """Never possible: UnsupportedTask, as from `prepare`."""
        raise _served_by_vllm(plan.manifest)


def _served_by_vllm(manifest: Manifest) -> UnsupportedTask:
    return UnsupportedTask(
        f"{manifest.id} is served by vLLM; Jumar's own engine does not run language models.",
        hint=f'Run: vllm serve "$(jumar models pull --quiet {manifest.id})"',
        param="model",
    )
