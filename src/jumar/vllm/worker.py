"""One worker of the engine: vLLM's GPU worker with another device, and memory that was measured."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from vllm.distributed import get_pp_group
from vllm.platforms import current_platform
from vllm.platforms.interface import set_assigned_physical_gpu_ids
from vllm.utils.torch_utils import set_random_seed
from vllm.v1.utils import report_usage_stats
from vllm.v1.worker.gpu_worker import Worker, init_worker_distributed_environment
from vllm.v1.worker.worker_base import CompilationTimes
from vllm.v1.worker.workspace import init_workspace_manager

from jumar.vllm import operators, patches
from jumar.vllm.activation import LOGGER
from jumar.vllm.healing.steps import Steps
from jumar.vllm.memory import Gauge, Memory, gauge
from jumar.vllm.runner import RUNNERS

if TYPE_CHECKING:
    from vllm.v1.core.sched.output import GrammarOutput, SchedulerOutput


class JumarWorker(Worker):
    """Owns the device of its rank, the runner on it, and the account of its memory."""

    gauge: Gauge
    memory: Memory
    steps: Steps

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        patches.apply(current_platform.device_type, "worker")
        super().__init__(*args, **kwargs)

    def init_device(self) -> None:
        """Device, process groups, operators, runner: in this order."""
        self.device = self._device()
        current_platform.set_device(self.device)
        current_platform.check_if_supports_dtype(self.model_config.dtype)
        init_worker_distributed_environment(
            self.vllm_config,
            self.rank,
            self.distributed_init_method,
            self.local_rank,
            current_platform.dist_backend,
        )
        set_random_seed(self.model_config.seed)
        operators.bind(self.device)
        self.gauge = gauge(self.device)
        self.memory = Memory.of(self.cache_config, self.gauge, self._sharing())
        init_workspace_manager(self.device, 1)
        self.steps = Steps.from_environment(str(self.device), self.rank)
        self.model_runner = RUNNERS[self.device.type](self.vllm_config, self.device)
        if self.rank == 0:
            report_usage_stats(self.vllm_config)

    def load_model(self, *, load_dummy_weights: bool = False) -> None:
        """Build the model and load its weights; then say in the log which operators it got."""
        super().load_model(load_dummy_weights=load_dummy_weights)
        if not get_pp_group().is_first_rank:
            self._receive()
        operators.settle()
        self.steps.watch(self.model_runner.model)

    def jumar_operators(self) -> dict[str, Any]:
        """What this worker bound (`GET /jumar/operators`)."""
        return operators.report()

    def determine_available_memory(self) -> int:
        """Bytes for the KV cache: those that were named, else what the profile run leaves."""
        if self.memory.named is not None:
            LOGGER.info("KV cache: %s", self.memory.told(self.memory.named))
            return self.memory.named
        self.gauge.begin()
        self.model_runner.profile_run()
        left = self.memory.left(self.gauge.peak())
        LOGGER.info("KV cache: %s", self.memory.told(left))
        return left

    def compile_or_warm_up_model(self) -> CompilationTimes:
        """Nothing is compiled."""
        set_random_seed(self.model_config.seed)
        return CompilationTimes(language_model=0.0, encoder=0.0)

    def execute_model(self, scheduler_output: SchedulerOutput) -> Any:
        """The forward of one step."""
        with self.steps.forward():
            return super().execute_model(scheduler_output)

    def sample_tokens(self, grammar_output: GrammarOutput | None) -> Any:
        """The sampling that belongs to it."""
        with self.steps.sampling():
            return super().sample_tokens(grammar_output)

    def _receive(self) -> None:
        """Make what the stage before is received in, which vLLM makes in a profile run: there is
        none where the memory of the KV cache is named."""
        runner = self.model_runner
        runner.intermediate_tensors = runner.model.make_empty_intermediate_tensors(
            batch_size=runner.max_num_tokens, dtype=self.model_config.dtype, device=self.device
        )

    def _device(self) -> torch.device:
        if current_platform.device_type == "cpu":
            # Names the shared memory of this engine's collectives.
            os.environ["VLLM_DIST_IDENT"] = self.distributed_init_method.split(":")[-1]
            return torch.device("cpu")
        parallel = self.parallel_config
        if (cards := parallel.assigned_physical_gpu_ids) is not None:
            set_assigned_physical_gpu_ids(cards)  # of engines side by side each has its own
        elif parallel.distributed_executor_backend not in ("ray", "external_launcher"):
            # Engines side by side see the same cards; each takes its own.
            self.local_rank += (parallel.data_parallel_rank_local or 0) * parallel.world_size
        index = current_platform.logical_device_id_to_visible_device_id(self.local_rank)
        return torch.device(current_platform.device_type, index)

    def _sharing(self) -> int:
        """How many workers share the memory of the device."""
        return self.parallel_config.local_world_size if self.device.type == "cpu" else 1

    def _maybe_get_memory_pool_context(self, tag: str) -> AbstractContextManager[None]:
        """vLLM's pool for sleeping is CUDA's."""
        return nullcontext()
