"""vLLM's view of the device: `CPUPlatform` and `NPUPlatform`, what they share above them.

vLLM makes one of them in each of its processes. What it asks for by `current_platform.NAME` and
does not find here is looked up in `torch.cpu` or `torch.npu`.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import torch
from vllm.platforms.interface import Platform, PlatformEnum
from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

from jumar.contracts.errors import InvalidValue
from jumar.vllm import operators, patches, tell
from jumar.vllm.activation import LOGGER, current
from jumar.vllm.attention import backend_path
from jumar.vllm.refusals import refuse, refuse_quantisation
from jumar.vllm.versions import untested

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vllm.config import VllmConfig
    from vllm.v1.attention.selector import AttentionSelectorConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
HOST_SHARE = 0.5
"""Of the machine's memory, for an engine in it, where nobody says another."""
WORKER = "jumar.vllm.worker.JumarWorker"


class JumarPlatform(Platform):
    """Everything that does not depend on the kind of device."""

    _enum = PlatformEnum.OOT
    simple_compile_backend = "eager"
    """vLLM compiles small functions at a first request otherwise (log probabilities: 2 to 12 s)."""

    def __init__(self) -> None:
        register_backend(AttentionBackendEnum.CUSTOM, backend_path(self.device_type))
        # Its kernels exist in Triton only; vLLM would choose it for Qwen3 where Triton is.
        os.environ.setdefault("VLLM_USE_V2_MODEL_RUNNER", "0")
        if note := untested(version("vllm")):
            LOGGER.warning("%s", note)

    @property
    def supported_dtypes(self) -> list[torch.dtype]:
        """What the device computes in, its own default first: it is what float32 checkpoints get
        under `--dtype auto`.
        """
        return [DTYPES[name] for name in _dtypes(self.device_type)]

    @classmethod
    def check_if_supports_dtype(cls, dtype: torch.dtype) -> None:
        """Raises InvalidValue for a dtype that the device does not compute in."""
        names = _dtypes(cls.device_type)
        if dtype not in [DTYPES[name] for name in names]:
            raise InvalidValue(
                f"{cls.get_device_name()} does not compute in {dtype}.",
                hint=f"--dtype, one of: {', '.join(names)}.",
                param="dtype",
            )

    @classmethod
    def verify_quantization(cls, quant: str) -> None:
        """Asked before what such weights need of a dtype; raises InvalidValue for vLLM's own."""
        refuse_quantisation(quant)

    @classmethod
    def check_and_update_config(cls, vllm_config: VllmConfig) -> None:
        """Jumar's worker, the eager path, one step at a time.

        Raises:
            InvalidValue: something in it cannot be served (`jumar.vllm.refusals`).
        """
        from vllm.config import CompilationMode, CUDAGraphMode

        refuse(vllm_config)
        if vllm_config.model_config is not None:
            vllm_config.model_config.disable_cascade_attn = True
        parallel = vllm_config.parallel_config
        if cls.in_host_memory():
            engines = parallel.data_parallel_size_local if cls.device_type == "cpu" else 1
            _leave_room(vllm_config.cache_config, engines)
        if parallel.worker_cls == "auto":
            parallel.worker_cls = WORKER
        parallel.disable_custom_all_reduce = True
        vllm_config.scheduler_config.async_scheduling = False
        compilation = vllm_config.compilation_config
        compilation.mode = CompilationMode.NONE
        compilation.cudagraph_mode = CUDAGraphMode.NONE
        compilation.cudagraph_capture_sizes = []

    @classmethod
    def log_warnings(cls) -> None:
        """Asked by vLLM 0.33 once there is a log: why this platform is active."""
        tell(current())

    @classmethod
    def in_host_memory(cls) -> bool:
        """Whether what the device takes is taken from this machine's memory."""
        return bool(_accelerator(cls.device_type).device_class() != "npu")

    @classmethod
    def get_attn_backend_cls(
        cls,
        selected_backend: AttentionBackendEnum | None,
        attn_selector_config: AttentionSelectorConfig,
        num_heads: int | None = None,
    ) -> str:
        """The backend in the CUSTOM slot; raises InvalidValue where another one is asked for."""
        if selected_backend not in (None, AttentionBackendEnum.CUSTOM):
            raise InvalidValue(
                f"Jumar's platform has no attention backend {selected_backend.name}.",
                hint="--attention-backend CUSTOM, or none.",
                param="attention_backend",
            )
        for what in ("use_mla", "use_sparse"):
            if getattr(attn_selector_config, what, False):
                raise InvalidValue(
                    f"Jumar's platform has no {what.removeprefix('use_').upper()} attention yet.",
                    hint="Models with plain attention: Qwen2, Qwen3, Qwen3-MoE, Llama, Qwen-VL.",
                    param="model",
                )
        path: str = AttentionBackendEnum.CUSTOM.get_path()
        return path

    @classmethod
    def import_kernels(cls) -> None:
        """None: the default warns that vLLM's compiled operators for CUDA are missing."""

    @classmethod
    def register_triton_kernel_overrides(cls) -> None:
        """Where vLLM 0.33 asks a platform for its kernels; in 0.24 the worker does it."""
        patches.apply(cls.device_type, "worker")

    @classmethod
    def import_ir_kernels(cls) -> None:
        """Jumar as a provider of `vllm.ir`, in front of vLLM's own code."""
        super().import_ir_kernels()
        import jumar.vllm.operators.ir  # noqa: F401  (registers it)

    @classmethod
    def get_default_ir_op_priority(cls, vllm_config: VllmConfig) -> Any:
        """Jumar's provider, for what it has; which implementation that is, each worker decides."""
        from vllm.config.kernel import IrOpPriorityConfig
        from vllm.ir.op import IrOp

        cls.import_ir_kernels()
        own = [name for name, one in IrOp.registry.items() if operators.IR_PROVIDER in one.impls]
        order = [operators.IR_PROVIDER, "native"]
        return IrOpPriorityConfig.with_default(["native"], **dict.fromkeys(own, order))

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        """Where a front end begins: what `vllm serve` takes from Jumar, and how it ends."""
        patches.apply(cls.device_type, "front")
        if parser is not None:
            from jumar.vllm import options

            options.extend(parser)

    @classmethod
    def get_punica_wrapper(cls) -> str:
        """LoRA in plain torch."""
        return "vllm.lora.punica_wrapper.punica_cpu.PunicaWrapperCPU"

    @classmethod
    def support_hybrid_kv_cache(cls) -> bool:
        """Layers with sliding windows free their blocks."""
        return True


class CPUPlatform(JumarPlatform):
    """This machine's CPU as one device. One device however many workers: they share it."""

    device_name = "cpu"  # vLLM builds torch.device(f"{device_name}:{rank}") of it
    device_type = "cpu"
    dispatch_key = "CPU"
    dist_backend = "gloo"

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """The processor."""
        return str(_accelerator("cpu").devices()[0].name)

    @classmethod
    def get_device_uuid(cls, device_id: int = 0) -> str:
        """There is one."""
        return "cpu"

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """Bytes of memory."""
        return cls.mem_get_info()[1]

    @classmethod
    def mem_get_info(cls, device: Any = None) -> tuple[int, int]:
        """Free and total bytes of memory."""
        one = _accelerator("cpu").devices()[0]
        return one.free_bytes or 0, one.total_bytes or 0

    @classmethod
    def set_device(cls, device: torch.device) -> None:
        """There is one."""

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        """`torch.manual_seed`, which vLLM calls too, seeds the CPU."""

    @classmethod
    def is_pin_memory_available(cls) -> bool:
        """There is nothing to pin it for."""
        return False

    @classmethod
    def get_current_memory_usage(cls, device: Any = None) -> float:
        """Resident bytes of this process."""
        from jumar.vllm.memory import resident

        return float(resident())

    @classmethod
    def num_compute_units(cls, device_id: int = 0) -> int:
        """Threads that torch computes with."""
        return int(torch.get_num_threads())


class NPUPlatform(JumarPlatform):
    """Ascend NPUs through torch_npu, or the emulated ones."""

    device_name = "npu"
    device_type = "npu"
    dispatch_key = "PrivateUse1"
    dist_backend = "hccl"
    ray_device_key = "NPU"
    device_control_env_var = "ASCEND_RT_VISIBLE_DEVICES"

    @classmethod
    def check_and_update_config(cls, vllm_config: VllmConfig) -> None:
        """A process that used a card cannot be forked and go on: workers are spawned."""
        super().check_and_update_config(vllm_config)
        os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """The chip; an emulated one says so."""
        return str(_npu().get_device_name(device_id))

    @classmethod
    def get_device_uuid(cls, device_id: int = 0) -> str:
        """The card's index on the host: torch_npu knows no identity of a card."""
        return f"npu-{cls.device_id_to_physical_device_id(device_id)}"

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """Bytes of device memory."""
        return int(_npu().get_device_properties(device_id).total_memory)

    @classmethod
    def set_device(cls, device: torch.device) -> None:
        """Make it the current one."""
        _npu().set_device(device)

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        """Seed all cards."""
        _npu().manual_seed_all(seed)

    @classmethod
    def get_current_memory_usage(cls, device: Any = None) -> float:
        """Bytes that tensors take on the card."""
        return float(_npu().memory_allocated(device))

    @classmethod
    def num_compute_units(cls, device_id: int = 0) -> int:
        """Vector cores of the chip."""
        return int(_npu().get_device_properties(device_id).vector_core_num)


def _leave_room(cache: Any, engines: int) -> None:
    """vLLM's share of a card's memory is no share of a machine's: other programs live there, and
    `engines` of this one."""
    from vllm.config import CacheConfig

    if cache.gpu_memory_utilization == CacheConfig.gpu_memory_utilization:
        cache.gpu_memory_utilization = HOST_SHARE / max(engines, 1)


def _accelerator(kind: str) -> Any:
    from jumar.devices import accelerators

    return accelerators()[kind]


@cache
def _dtypes(kind: str) -> Sequence[str]:
    """Names of the dtypes that a kind of device computes in, its own default first."""
    names: Sequence[str] = _accelerator(kind).dtypes(0)
    return names


def _npu() -> Any:
    import torch_npu  # noqa: F401  (registers torch.npu)

    return torch.npu
