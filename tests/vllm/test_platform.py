"""What vLLM gets from the platform: an answer to every question, or an error that names it."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")

from vllm.platforms import current_platform
from vllm.platforms.interface import Platform

from jumar.contracts.errors import InvalidValue
from jumar.vllm.refusals import GATED_DELTA_NETS, refuse

DEVICE = "npu" if os.environ.get("JUMAR_EMULATE_NPU") else "cpu"
ASKED = {
    "get_device_name": (),
    "get_device_uuid": (),
    "get_device_total_memory": (),
    "get_current_memory_usage": (),
    "get_punica_wrapper": (),
    "num_compute_units": (),
    "manual_seed_all": (0,),
}
"""Members that raise NotImplementedError where a platform does not have its own."""

USED_BY_NAME = (
    "current_device",
    "current_stream",
    "device_count",
    "mem_get_info",
    "synchronize",
)
"""What vLLM 0.24 looks up in a platform without having declared it: where it is missing vLLM warns,
and goes on with None."""


def test_it_is_the_one_for_the_device():
    assert current_platform.device_type == DEVICE and current_platform.is_out_of_tree()


@pytest.mark.parametrize("name", ASKED)
def test_what_raises_in_vllms_own_class_is_answered(name):
    getattr(current_platform, name)(*ASKED[name])


@pytest.mark.parametrize("name", USED_BY_NAME)
def test_what_vllm_looks_up_is_there(name, caplog):
    assert callable(getattr(current_platform, name))
    assert not [one for one in caplog.records if "does not have" in one.getMessage()]


def test_vllms_warning_about_what_is_missing_is_seen_here(caplog):
    """The control of the specification above."""
    import logging

    logger = logging.getLogger("vllm.platforms.interface")
    logger.addHandler(caplog.handler)
    try:
        assert current_platform.no_such_thing is None
    finally:
        logger.removeHandler(caplog.handler)
    assert "no_such_thing" in caplog.text


def test_the_float_format_of_a_float32_model_is_the_devices_own_default():
    """On a CPU vLLM would halve it, silently, to a format that the processor is slow in."""
    import torch

    first = {"cpu": torch.float32, "npu": torch.bfloat16}[DEVICE]
    assert current_platform.supported_dtypes[0] == first
    current_platform.check_if_supports_dtype(first)
    with pytest.raises(InvalidValue, match="does not compute in"):
        current_platform.check_if_supports_dtype(torch.float64)


def cache(**parts):
    """As much of a `CacheConfig`."""
    usual = {"cache_dtype": "auto", "user_specified_block_size": False, "block_size": 16}
    return SimpleNamespace(**{**usual, **parts})


def config(**parts):
    """As much of a `VllmConfig` as is looked at."""
    nothing = dict.fromkeys(("model_config", "speculative_config", "use_v2_model_runner"))
    usual = {
        "attention_config": SimpleNamespace(backend=None),
        "cache_config": cache(),
        "parallel_config": SimpleNamespace(data_parallel_size=1),
    }
    return SimpleNamespace(**{**nothing, **usual, **parts})


def model(name: str, **parts: object) -> SimpleNamespace:
    plain = {
        "has_inner_state": False,
        "hf_text_config": SimpleNamespace(),
        "use_mla": False,
        "is_moe": False,
    }
    return config(model_config=SimpleNamespace(architectures=[name], **{**plain, **parts}))


def test_models_of_attention_alone_are_not_refused():
    refuse(config())
    refuse(model("Qwen3ForCausalLM"))


@pytest.mark.parametrize("name", sorted(GATED_DELTA_NETS))
def test_models_with_gated_delta_nets_are_refused_by_name(name):
    with pytest.raises(InvalidValue, match=f"{name} is not served.*chunk_gated_delta_rule"):
        refuse(model(name, has_inner_state=True))


def test_every_model_class_with_gated_delta_nets_is_on_the_list():
    """As vLLM's own sources say: the modules that import them, and the classes in these."""
    from pathlib import Path

    from vllm.model_executor.models.registry import _VLLM_MODELS

    import vllm

    folder = Path(vllm.__file__).parent / "model_executor" / "models"
    with_them = {
        path.stem for path in folder.glob("*.py") if "mamba.gdn" in path.read_text(encoding="utf-8")
    }
    with_them |= {f"{name}_mtp" for name in with_them}
    named = {name for name, (module, _) in _VLLM_MODELS.items() if module in with_them}
    assert named and named <= GATED_DELTA_NETS


def test_other_models_with_an_inner_state_are_refused():
    with pytest.raises(InvalidValue, match="MambaForCausalLM is not served.*Triton"):
        refuse(model("MambaForCausalLM", has_inner_state=True))


@pytest.mark.parametrize(
    ("parts", "because"),
    [
        ({"use_mla": True}, "latent attention"),
        ({"hf_text_config": SimpleNamespace(index_topk=8)}, "sparse attention"),
    ],
)
def test_what_a_model_needs_and_is_not_here_is_refused_with_its_name(parts, because):
    with pytest.raises(InvalidValue, match=because) as told:
        refuse(model("AcmeForCausalLM", **parts))
    assert str(told.value).startswith("AcmeForCausalLM")


def test_experts_that_would_have_to_exchange_tokens_between_engines_are_refused():
    """They gave wrong tokens, without a word."""
    experts, engines = model("AcmeMoeForCausalLM", is_moe=True), model("AcmeForCausalLM")
    refuse(experts)
    for one in (experts, engines):
        one.parallel_config = SimpleNamespace(data_parallel_size=2)
    refuse(engines)
    with pytest.raises(InvalidValue, match="AcmeMoeForCausalLM with --data-parallel-size 2"):
        refuse(experts)


@pytest.mark.parametrize("method", ["gptq", "awq", "fp8", "compressed-tensors"])
def test_quantised_weights_are_refused_by_the_name_of_their_method(method):
    with pytest.raises(InvalidValue, match=f"quantised by {method} are not served.*Triton"):
        current_platform.verify_quantization(method)


def test_a_method_of_quantisation_that_a_plugin_brings_is_not_refused():
    current_platform.verify_quantization("acme")


@pytest.mark.parametrize("part", ["speculative_config", "use_v2_model_runner"])
def test_what_exists_in_triton_only_is_refused(part):
    with pytest.raises(InvalidValue, match="Triton only"):
        refuse(config(**{part: object()}))


def test_what_layers_would_refuse_when_they_are_built_is_refused_before():
    with pytest.raises(InvalidValue, match="Attention by TRITON_ATTN is not served"):
        refuse(
            config(attention_config=SimpleNamespace(backend=SimpleNamespace(name="TRITON_ATTN")))
        )
    with pytest.raises(InvalidValue, match="A KV cache in fp8 is not served"):
        refuse(config(cache_config=cache(cache_dtype="fp8")))
    refuse(config(attention_config=SimpleNamespace(backend=SimpleNamespace(name="CUSTOM"))))


def test_blocks_that_the_attention_does_not_read_are_refused_with_what_it_does():
    base = {"cpu": 16, "npu": 128}[DEVICE]
    for size in (base, 2 * base):
        refuse(config(cache_config=cache(user_specified_block_size=True, block_size=size)))
    refuse(config(cache_config=cache(block_size=8)))  # nobody asked: the backend chooses
    odd = cache(user_specified_block_size=True, block_size=base // 2)
    with pytest.raises(InvalidValue, match=f"--block-size {base // 2}.*no multiple of {base},"):
        refuse(config(cache_config=odd))


def test_another_attention_backend_than_jumars_is_refused():
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    plain = SimpleNamespace(use_mla=False, use_sparse=False)
    path = current_platform.get_attn_backend_cls(None, plain)
    assert path == AttentionBackendEnum.CUSTOM.get_path()
    with pytest.raises(InvalidValue, match="no attention backend TRITON_ATTN"):
        current_platform.get_attn_backend_cls(AttentionBackendEnum.TRITON_ATTN, plain)
    for what in ("use_mla", "use_sparse"):
        asked = SimpleNamespace(**{**vars(plain), what: True})
        with pytest.raises(InvalidValue, match="attention yet"):
            current_platform.get_attn_backend_cls(None, asked)


def test_no_member_that_raises_is_forgotten():
    """A newer vLLM that asks for more is noticed here, not by a user."""
    import inspect

    raising = {
        name
        for name, member in inspect.getmembers(Platform, inspect.ismethod)
        if "raise NotImplementedError" in inspect.getsource(member)
    }
    missing = {
        name
        for name in raising
        if getattr(type(current_platform), name).__func__ is getattr(Platform, name).__func__
    }
    assert missing <= {
        "check_runner_kv_caches_multi_layer",  # encoders with decoders, from vLLM 0.33 on
        "get_all_gpu_pci_bus_ids",  # VLLM_GPU_NIC_PCIE_MAPPING
        "stateless_init_device_torch_dist_pg",  # data parallelism that talks between devices
    }


@pytest.mark.parametrize("dtype", ["auto", "float32", "float16"])
def test_a_quantised_checkpoint_is_refused_whatever_its_dtype_is_to_be(tmp_path, dtype):
    """vLLM would ask for another dtype first."""
    from transformers import Qwen3Config
    from vllm.engine.arg_utils import EngineArgs

    small = {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 128}
    quantised = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False}
    config = Qwen3Config(**small, architectures=["Qwen3ForCausalLM"], quantization_config=quantised)
    config.save_pretrained(tmp_path)
    asked = EngineArgs(model=str(tmp_path), skip_tokenizer_init=True, max_model_len=64, dtype=dtype)
    with pytest.raises(InvalidValue, match="quantised by .*gptq are not served"):
        asked.create_engine_config()


def test_a_model_that_is_refused_ends_before_anything_is_loaded(tmp_path):
    from transformers import Qwen3NextConfig
    from vllm.engine.arg_utils import EngineArgs

    small = {"hidden_size": 64, "num_hidden_layers": 4, "vocab_size": 128, "num_experts": 4}
    config = Qwen3NextConfig(**small, architectures=["Qwen3NextForCausalLM"])
    config.save_pretrained(tmp_path)
    asked = EngineArgs(model=str(tmp_path), skip_tokenizer_init=True, max_model_len=64)
    with pytest.raises(InvalidValue, match="Qwen3NextForCausalLM is not served"):
        asked.create_engine_config()


def test_engines_side_by_side_share_what_one_would_take_of_this_machines_memory(tmp_path):
    from transformers import Qwen3Config
    from vllm.engine.arg_utils import EngineArgs

    small = {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 128}
    Qwen3Config(**small, architectures=["Qwen3ForCausalLM"]).save_pretrained(tmp_path)

    def share(engines):
        asked = EngineArgs(
            model=str(tmp_path),
            skip_tokenizer_init=True,
            max_model_len=64,
            data_parallel_size=engines,
        )
        return asked.create_engine_config().cache_config.gpu_memory_utilization

    assert share(2) == (share(1) / 2 if DEVICE == "cpu" else share(1))  # emulated cards have parts
