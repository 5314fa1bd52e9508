"""Where a pipeline's weights lie, and how it saves memory.

Every option is applied for real or refused: none is dropped because a pipeline lacks it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from jumar.contracts.errors import DependencyMissing, InvalidValue
from jumar.devices.base import Placement
from jumar.runtime.families.precision import torch_dtype

DENOISERS = ("unet", "transformer", "transformer_2", "prior", "decoder")
"""The components that run once per step."""


def quantization_of(config: Mapping[str, Any], components: list[str]) -> Any:
    """diffusers' configuration for `quantization: int8|fp8|nf4` of the denoisers, or None.

    Raises:
        DependencyMissing: the package that does it is not installed.
        InvalidValue: the package that was asked for cannot do it.
    """
    wanted = config.get("quantization")
    if wanted is None:
        return None
    able = [name for name, kinds in _QUANTIZERS.items() if wanted in kinds]
    asked = config.get("quantization_backend") or "auto"
    if asked not in ("auto", *able):
        raise InvalidValue(
            f"{asked} cannot quantize to {wanted}.",
            hint=f"Valid for {wanted}: {', '.join(able)}.",
            param="config.quantization_backend",
        )
    choice = next((name for name in able if asked in ("auto", name) and find_spec(name)), None)
    if choice is None:
        missing = asked if asked != "auto" else " or ".join(able)
        raise DependencyMissing(
            f"Quantization to {wanted} needs {missing}.", hint=f"pip install {missing.split()[0]}"
        )
    from diffusers import PipelineQuantizationConfig

    parts = [name for name in DENOISERS if name in components]
    if not parts:
        raise InvalidValue(
            f"Quantization is for {' or '.join(DENOISERS)}, which this pipeline has not.",
            param="config.quantization",
        )
    return PipelineQuantizationConfig(
        quant_mapping={part: _QUANTIZERS[choice][wanted]() for part in parts}
    )


def apply_options(pipeline: Any, config: Mapping[str, Any], placement: Placement) -> None:
    """Put the pipeline onto its device, with the load-time options of `config`.

    Raises:
        InvalidValue: this pipeline or device does not have an option that is set.
    """
    for key, needed in _BELONGS_TO.items():
        if config.get(key) is not None and not config.get(needed):
            raise InvalidValue(f"{key} means nothing without {needed}.", param=f"config.{key}")
    for key, apply in _OPTIONS.items():
        if config.get(key):
            apply(pipeline, config)
    offloads = [key for key in _OFFLOADS if config.get(key)]
    if config.get("device_map"):
        offloads.append("device_map")
    if len(offloads) > 1:
        raise InvalidValue(
            f"{' and '.join(offloads)} exclude each other.",
            hint="Set one of them.",
            param=f"config.{offloads[1]}",
        )
    if not offloads:
        pipeline.to(placement.torch_device)
    elif offloads[0] in _OFFLOADS:
        if placement.device.kind == "cpu":
            raise InvalidValue(
                f"{offloads[0]} moves weights between an accelerator and main memory;"
                " this run is on the CPU.",
                param=f"config.{offloads[0]}",
            )
        _OFFLOADS[offloads[0]](pipeline, config, placement.torch_device)


def share_offload(pipeline: Any, config: Mapping[str, Any], placement: Placement) -> None:
    """Let a pipeline that shares another's components put them back after its calls.

    The other offloads sit on the components themselves and need nothing more.
    """
    if config.get("enable_model_cpu_offload"):
        pipeline.enable_model_cpu_offload(device=placement.torch_device)


def denoisers(pipeline: Any) -> dict[str, Any]:
    """The components that run once per step, by name."""
    found = {name: getattr(pipeline, name, None) for name in DENOISERS}
    return {name: module for name, module in found.items() if hasattr(module, "parameters")}


def _model_offload(pipeline: Any, config: Mapping[str, Any], device: str) -> None:
    pipeline.enable_model_cpu_offload(device=device)


def _sequential_offload(pipeline: Any, config: Mapping[str, Any], device: str) -> None:
    pipeline.enable_sequential_cpu_offload(device=device)


def _group_offload(pipeline: Any, config: Mapping[str, Any], device: str) -> None:
    import torch

    kind = config.get("group_offload_type") or "leaf_level"
    pipeline.enable_group_offload(
        onload_device=torch.device(device),
        offload_type=kind,
        num_blocks_per_group=1 if kind == "block_level" else None,
        use_stream=bool(config.get("group_offload_use_stream")),
        offload_to_disk_path=config.get("group_offload_disk_path"),
    )


_OFFLOADS: dict[str, Callable[[Any, Mapping[str, Any], str], None]] = {
    "enable_model_cpu_offload": _model_offload,
    "enable_sequential_cpu_offload": _sequential_offload,
    "enable_group_offload": _group_offload,
}


def _lacks(pipeline: Any, key: str, why: str) -> InvalidValue:
    return InvalidValue(f"{type(pipeline).__name__} has no {key}: {why}.", param=f"config.{key}")


def _vae(method: str, key: str) -> Callable[[Any, Mapping[str, Any]], None]:
    def apply(pipeline: Any, config: Mapping[str, Any]) -> None:
        enable = getattr(getattr(pipeline, "vae", None), method, None)
        if enable is None:
            raise _lacks(pipeline, key, "its VAE cannot")
        try:
            enable()
        except NotImplementedError as error:
            raise _lacks(pipeline, key, "its VAE cannot") from error

    return apply


def _attention_slicing(pipeline: Any, config: Mapping[str, Any]) -> None:
    if not any(hasattr(part, "set_attention_slice") for part in denoisers(pipeline).values()):
        raise _lacks(pipeline, "attention_slicing", "its attention cannot be sliced")
    pipeline.enable_attention_slicing()


def _channels_last(pipeline: Any, config: Mapping[str, Any]) -> None:
    import torch

    parts = list(denoisers(pipeline).values())
    if not any(weight.dim() == 4 for part in parts for weight in part.parameters()):
        raise _lacks(pipeline, "channels_last", "it has no two-dimensional convolutions")
    for part in [*parts, pipeline.vae]:
        part.to(memory_format=torch.channels_last)


def _fuse_qkv(pipeline: Any, config: Mapping[str, Any]) -> None:
    if hasattr(pipeline, "unet") and hasattr(pipeline, "fuse_qkv_projections"):
        pipeline.fuse_qkv_projections(vae=_is_plain_vae(pipeline))
        return
    parts = [p for p in denoisers(pipeline).values() if hasattr(p, "fuse_qkv_projections")]
    if not parts:
        raise _lacks(pipeline, "fuse_qkv", "its projections cannot be fused")
    for part in parts:
        part.fuse_qkv_projections()


def _is_plain_vae(pipeline: Any) -> bool:
    return type(pipeline.vae).__name__ == "AutoencoderKL"


def _layerwise_casting(pipeline: Any, config: Mapping[str, Any]) -> None:
    parts = [p for p in denoisers(pipeline).values() if hasattr(p, "enable_layerwise_casting")]
    if not parts:
        raise _lacks(pipeline, "enable_layerwise_casting", "its modules cannot be cast by layer")
    compute = config.get("layerwise_casting_compute_dtype")
    for part in parts:
        part.enable_layerwise_casting(
            storage_dtype=torch_dtype(config.get("layerwise_casting_storage_dtype") or "fp8"),
            compute_dtype=None if compute is None else torch_dtype(compute),
        )


CACHES = {
    "first_block_cache": "FirstBlockCacheConfig",
    "taylorseer_cache": "TaylorSeerCacheConfig",
}
"""Values of `cache` to diffusers' configuration of it, with its own thresholds."""


def _cache(pipeline: Any, config: Mapping[str, Any]) -> None:
    import diffusers

    name = config["cache"]
    if name not in CACHES:
        raise InvalidValue(
            f"diffusers has no cache {name!r}.",
            hint=f"Valid: {', '.join(CACHES)}.",
            param="config.cache",
        )
    parts = [part for part in denoisers(pipeline).values() if hasattr(part, "enable_cache")]
    if not parts:
        raise _lacks(pipeline, "cache", "its denoiser has no cache hooks")
    for part in parts:
        part.enable_cache(getattr(diffusers, CACHES[name])())


_OPTIONS: dict[str, Callable[[Any, Mapping[str, Any]], None]] = {
    "enable_vae_slicing": _vae("enable_slicing", "enable_vae_slicing"),
    "enable_vae_tiling": _vae("enable_tiling", "enable_vae_tiling"),
    "attention_slicing": _attention_slicing,
    "channels_last": _channels_last,
    "fuse_qkv": _fuse_qkv,
    "enable_layerwise_casting": _layerwise_casting,
    "cache": _cache,
}


_BELONGS_TO = {
    "group_offload_type": "enable_group_offload",
    "group_offload_use_stream": "enable_group_offload",
    "group_offload_disk_path": "enable_group_offload",
    "layerwise_casting_storage_dtype": "enable_layerwise_casting",
    "layerwise_casting_compute_dtype": "enable_layerwise_casting",
    "quantization_backend": "quantization",
}
"""Keys that only say how another one is done."""


def _torchao(cls: str) -> Callable[[], Any]:
    def make() -> Any:
        from diffusers import TorchAoConfig

        return TorchAoConfig(getattr(import_module("torchao.quantization"), cls)())

    return make


def _bitsandbytes(**settings: Any) -> Callable[[], Any]:
    def make() -> Any:
        from diffusers import BitsAndBytesConfig

        return BitsAndBytesConfig(**settings)

    return make


_QUANTIZERS: dict[str, dict[str, Callable[[], Any]]] = {
    "torchao": {
        "int8": _torchao("Int8WeightOnlyConfig"),
        "fp8": _torchao("Float8WeightOnlyConfig"),
    },
    "bitsandbytes": {
        "int8": _bitsandbytes(load_in_8bit=True),
        "nf4": _bitsandbytes(load_in_4bit=True, bnb_4bit_quant_type="nf4"),
    },
}
