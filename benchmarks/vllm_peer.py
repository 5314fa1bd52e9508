"""A minimal platform for vLLM 0.24 on the CPU, as a peer: what it takes to serve, and no more.

It attends to one sequence after another, gathers each one's whole context in every layer, binds no
operator, measures no memory, and looks after nothing. `benchmarks.vllm_speed` makes it known to
vLLM as the plugin `minimal`; importing this module imports neither torch nor vLLM, as vLLM wants of
a plugin. The classes below are made when vLLM asks for them by name.
"""

from __future__ import annotations

from typing import Any

HERE = __name__


def plugin() -> str:
    """The entry point `vllm.platform_plugins`."""
    return f"{HERE}.MinimalPlatform"


def __getattr__(name: str) -> Any:
    makers = {
        "MinimalPlatform": _platform,
        "MinimalWorker": _worker,
        "OneByOne": _backend,
    }
    if name not in makers:
        raise AttributeError(name)
    made = globals()[name] = makers[name]()
    return made


def _platform() -> Any:
    import psutil
    import torch
    from vllm.platforms.interface import Platform, PlatformEnum
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    register_backend(AttentionBackendEnum.CUSTOM, f"{HERE}.OneByOne")
    for name in ("empty_cache", "empty_host_cache", "synchronize"):
        setattr(torch.accelerator, name, lambda *_, **__: None)

    class MinimalPlatform(Platform):
        _enum = PlatformEnum.OOT
        device_name = device_type = "cpu"
        dispatch_key, dist_backend = "CPU", "gloo"
        simple_compile_backend = "eager"

        get_device_name = classmethod(lambda cls, device_id=0: "cpu")
        set_device = classmethod(lambda cls, device: None)
        manual_seed_all = classmethod(lambda cls, seed: None)
        import_kernels = classmethod(lambda cls: None)
        is_pin_memory_available = classmethod(lambda cls: False)
        check_if_supports_dtype = classmethod(lambda cls, dtype: None)
        get_current_memory_usage = classmethod(lambda cls, device=None: 0.0)
        num_compute_units = classmethod(lambda cls, device_id=0: torch.get_num_threads())
        get_attn_backend_cls = classmethod(
            lambda cls, *_, **__: AttentionBackendEnum.CUSTOM.get_path()
        )

        @classmethod
        def get_device_total_memory(cls, device_id: int = 0) -> int:
            return int(psutil.virtual_memory().total)

        @classmethod
        def mem_get_info(cls) -> tuple[int, int]:
            now = psutil.virtual_memory()
            return now.available, now.total

        @classmethod
        def check_and_update_config(cls, vllm_config: Any) -> None:
            from vllm.config import CompilationMode, CUDAGraphMode

            vllm_config.parallel_config.worker_cls = f"{HERE}.MinimalWorker"
            vllm_config.parallel_config.disable_custom_all_reduce = True
            vllm_config.scheduler_config.async_scheduling = False
            if vllm_config.model_config is not None:
                vllm_config.model_config.disable_cascade_attn = True
            vllm_config.compilation_config.mode = CompilationMode.NONE
            vllm_config.compilation_config.cudagraph_mode = CUDAGraphMode.NONE
            vllm_config.compilation_config.cudagraph_capture_sizes = []

    return MinimalPlatform


def _worker() -> Any:
    import os
    from contextlib import nullcontext

    import vllm.v1.worker.cpu.shm  # noqa: F401  (stands in for streams and events; comes first)
    import torch  # isort: skip
    from vllm.v1.worker.block_table import BlockTable
    from vllm.v1.worker.cpu_model_runner import CPUModelRunner
    from vllm.v1.worker.gpu_worker import Worker, init_worker_distributed_environment
    from vllm.v1.worker.worker_base import CompilationTimes

    def slots(self: Any, count: int, starts: Any, positions: Any) -> None:
        new = starts[1 : count + 1] - starts[:count]
        request = torch.arange(count).repeat_interleave(new.long())
        block = self.block_table.gpu[request, positions // self.block_size].long()
        here = self.slot_mapping.gpu
        here.fill_(-1)
        here[: len(request)] = block * self.block_size + positions % self.block_size

    class Runner(CPUModelRunner):
        def _postprocess_triton(self) -> None:
            BlockTable.compute_slot_mapping = slots

    class MinimalWorker(Worker):
        def init_device(self) -> None:
            BlockTable.compute_slot_mapping = slots
            self.device = torch.device("cpu")
            os.environ["VLLM_DIST_IDENT"] = self.distributed_init_method.split(":")[-1]
            init_worker_distributed_environment(
                self.vllm_config, self.rank, self.distributed_init_method, self.local_rank, "gloo"
            )
            self.model_runner = Runner(self.vllm_config, self.device)

        def determine_available_memory(self) -> int:
            self.model_runner.profile_run()
            return int(self.cache_config.kv_cache_memory_bytes)

        def compile_or_warm_up_model(self) -> Any:
            return CompilationTimes(language_model=0.0, encoder=0.0)

        def _maybe_get_memory_pool_context(self, tag: str) -> Any:
            return nullcontext()

    return MinimalWorker


def _backend() -> Any:
    import torch
    from torch.nn.functional import scaled_dot_product_attention
    from vllm.v1.attention.backend import (
        AttentionBackend,
        AttentionImpl,
        AttentionMetadataBuilder,
        MultipleOf,
    )

    class Builder(AttentionMetadataBuilder):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)

        def build(
            self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False
        ) -> Any:
            common = common_attn_metadata
            count = common.num_reqs
            starts = common.query_start_loc_cpu[: count + 1].tolist()
            lengths, tables = common.seq_lens[:count].tolist(), common.block_table_tensor
            return [*zip(starts, starts[1:], lengths, tables, strict=False)]

    class Impl(AttentionImpl):
        def __init__(
            self, num_heads: int, head_size: int, scale: float, *_: Any, **__: Any
        ) -> None:
            self.num_heads, self.head_size, self.scale = num_heads, head_size, scale

        def do_kv_cache_update(
            self, layer: Any, key: Any, value: Any, cache: Any, slots: Any
        ) -> None:
            kept = slots >= 0
            size, at = cache.shape[2], slots[kept]
            both = torch.cat((key[: len(slots)][kept], value[: len(slots)][kept]), -1)
            cache.transpose(1, 2)[at // size, at % size] = both

        def forward(
            self, layer: Any, query: Any, key: Any, value: Any, cache: Any, step: Any, output: Any,
            **_: Any,
        ) -> Any:  # fmt: skip
            if step is None:
                return output.fill_(0)
            size = cache.shape[2]
            for begin, end, length, table in step:
                blocks = cache[table[: -(-length // size)].long()]
                keys, values = (
                    blocks.transpose(0, 1).flatten(1, 2)[:, :length].split(self.head_size, -1)
                )
                at = torch.arange(length - (end - begin), length)[:, None]
                attended = scaled_dot_product_attention(
                    query[begin:end].transpose(0, 1)[None],
                    keys[None],
                    values[None],
                    attn_mask=None if end - begin == 1 else torch.arange(length) <= at,
                    scale=self.scale,
                    enable_gqa=True,
                )
                output[begin:end] = attended[0].transpose(0, 1)
            return output

    class OneByOne(AttentionBackend):
        accept_output_buffer = True
        forward_includes_kv_cache_update = False
        get_name = staticmethod(lambda: "CUSTOM")
        get_impl_cls = staticmethod(lambda: Impl)
        get_builder_cls = staticmethod(lambda: Builder)
        get_supported_kernel_block_sizes = staticmethod(lambda *_: [MultipleOf(16)])

        @staticmethod
        def get_kv_cache_shape(
            num_blocks: int, block_size: int, num_kv_heads: int, head_size: int, **_: Any
        ) -> tuple[int, ...]:
            return num_blocks, num_kv_heads, block_size, 2 * head_size

    return OneByOne
