"""Loading a pipeline: its files, its dtype, its options. Each is applied or refused."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("diffusers", reason="needs the runtime extra")

import safetensors.torch
import tiny_manifests
import torch
from PIL import Image
from studio import Studio, manifest_of

from jumar import catalog
from jumar.contracts.errors import (
    DeadlineExceeded,
    DependencyMissing,
    InvalidInput,
    InvalidRequest,
    InvalidValue,
    WeightsUnavailable,
)
from jumar.contracts.requests import AdapterRef, text2image
from jumar.devices.base import Device, Placement
from jumar.runtime.families.diffusion.family import Diffusion
from jumar.runtime.families.diffusion.memory import apply_options
from jumar.runtime.families.precision import dtype_for

pytestmark = pytest.mark.usefixtures("one_thread")

Tiny = Callable[[str], Path]
CAT = {"prompt": "a red cat"}
SEED = {"seed": 1}


def load(tiny: Tiny, name: str, config: dict[str, Any] | None = None, **more: Any) -> Studio:
    return Studio(manifest_of(getattr(tiny_manifests, name.upper())), tiny(name), config, **more)


@pytest.fixture(scope="module")
def plain(tiny: Tiny) -> bytes:
    """What the tiny SD 1.5 draws without any option."""
    return load(tiny, "sd15").draw("text2image", CAT, SEED).bytes


class TestWeights:
    """A folder that does not hold the model is refused, never filled up."""

    @pytest.fixture
    def folder(self, tiny: Tiny, tmp_path: Path) -> Path:
        return Path(shutil.copytree(tiny("sdxl"), tmp_path / "copy"))

    @pytest.mark.parametrize(
        ("file", "key"),
        [
            ("unet/diffusion_pytorch_model.safetensors", "conv_in.weight"),
            ("vae/diffusion_pytorch_model.safetensors", "decoder.conv_out.weight"),
            ("text_encoder/model.safetensors", "encoder.layers.0.self_attn.q_proj.weight"),
        ],
    )
    @pytest.mark.parametrize("level", [logging.WARNING, logging.ERROR])
    def test_a_file_that_lacks_one_tensor_is_refused(
        self, folder: Path, file: str, key: str, level: int
    ) -> None:
        # Both libraries fill the gap with random numbers and only log it.
        tensors = safetensors.torch.load_file(folder / file)
        (found,) = [name for name in tensors if name.endswith(key)]
        del tensors[found]
        safetensors.torch.save_file(tensors, folder / file, metadata={"format": "pt"})
        loggers = [logging.getLogger(name) for name in ("diffusers", "transformers")]
        levels = [logger.level for logger in loggers]
        try:
            for logger in loggers:
                logger.setLevel(level)
            with pytest.raises(WeightsUnavailable) as caught:
                Studio(manifest_of(tiny_manifests.SDXL), folder)
        finally:
            for logger, before in zip(loggers, levels, strict=True):
                logger.setLevel(before)
        assert key.split(".")[-2] in str(caught.value.cause)

    def test_the_whole_folder_is_accepted(self, folder: Path) -> None:
        assert Studio(manifest_of(tiny_manifests.SDXL), folder).loading.warnings == []

    def test_a_folder_without_an_index_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(WeightsUnavailable, match=r"no model_index\.json"):
            Studio(manifest_of(tiny_manifests.SDXL), tmp_path)

    def test_pickled_weights_are_refused(self, folder: Path) -> None:
        path = folder / "unet" / "diffusion_pytorch_model.safetensors"
        torch.save(safetensors.torch.load_file(path), path.with_suffix(".bin"))
        path.unlink()
        with pytest.raises(WeightsUnavailable):
            Studio(manifest_of(tiny_manifests.SDXL), folder)

    @pytest.mark.parametrize("part", ["unet/diffusion_pytorch_model", "text_encoder/model"])
    def test_a_file_that_was_cut_off_is_refused(self, folder: Path, part: str) -> None:
        path = folder / f"{part}.safetensors"
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(WeightsUnavailable):
            Studio(manifest_of(tiny_manifests.SDXL), folder)

    def test_a_component_that_the_manifest_leaves_out_is_not_loaded(self, tiny: Tiny) -> None:
        text = tiny_manifests.SD3.replace(
            "{pipeline: StableDiffusion3Pipeline}",
            "{pipeline: StableDiffusion3Pipeline, "
            "components: {text_encoder_3: null, tokenizer_3: null}}",
        )
        studio = Studio(manifest_of(text), tiny("sd3"))
        assert studio.pipeline.text_encoder_3 is None
        studio.draw("text2image", CAT)

    def test_the_weights_of_another_model_are_refused(self, tiny: Tiny) -> None:
        with pytest.raises(WeightsUnavailable, match="cannot be loaded as FluxPipeline"):
            Studio(manifest_of(tiny_manifests.FLUX), tiny("sd15"))

    def test_a_pipeline_that_diffusers_does_not_have_is_named(self, tiny: Tiny) -> None:
        text = tiny_manifests.FLUX.replace("FluxPipeline", "FluxNextYearPipeline")
        with pytest.raises(DependencyMissing, match="has no FluxNextYearPipeline"):
            Studio(manifest_of(text), tiny("flux"))

    def test_a_pipeline_that_needs_another_package_names_it(self, tiny: Tiny) -> None:
        text = tiny_manifests.FLUX.replace("FluxPipeline", "KolorsPipeline")
        import importlib.util

        if importlib.util.find_spec("sentencepiece") is not None:
            pytest.skip("sentencepiece is installed here")
        with pytest.raises(DependencyMissing, match="needs a package") as caught:
            Studio(manifest_of(text), tiny("flux"))
        assert "sentencepiece" in str(caught.value.hint)

    def test_a_task_that_needs_other_components_is_refused(
        self, tiny: Tiny, tmp_path: Path
    ) -> None:
        text = tiny_manifests.SD15.replace(
            "StableDiffusionImg2ImgPipeline", "StableDiffusionXLImg2ImgPipeline"
        )
        studio = Studio(manifest_of(text), tiny("sd15"))
        Image.new("RGB", (32, 32)).save(tmp_path / "photo.png")
        with pytest.raises(InvalidRequest, match="needs text_encoder_2, tokenizer_2"):
            studio.draw("image2image", {**CAT, "image": str(tmp_path / "photo.png")})


class TestDtype:
    """As asked, else what the device does well; the report says which."""

    def placed(self, kind: str) -> Placement:
        return Placement(Device(kind, 0, kind), kind, kind, kind, "test")

    def test_a_cpu_computes_in_fp32_where_nobody_asks(self, tiny: Tiny) -> None:
        studio = load(tiny, "sd15")
        assert studio.pipeline.unet.dtype == torch.float32
        assert studio.draw("text2image", CAT).run.config["dtype"] == "fp32"

    def test_what_was_asked_for_is_honoured(self, tiny: Tiny, plain: bytes) -> None:
        studio = load(tiny, "sd15", {"dtype": "bf16"})
        for part in (studio.pipeline.unet, studio.pipeline.vae, studio.pipeline.text_encoder):
            assert part.dtype == torch.bfloat16
        shot = studio.draw("text2image", CAT, SEED)
        assert shot.run.config["dtype"] == "bf16"
        assert shot.bytes != plain

    @pytest.mark.parametrize("dtypes", [("bf16", "fp16", "fp32"), ("fp16", "fp32")])
    @pytest.mark.parametrize("kind", ["cuda", "npu"])
    def test_where_nobody_asks_the_device_says(self, kind: str, dtypes: tuple[str, ...]) -> None:
        placement = replace(self.placed(kind), dtypes=dtypes)
        assert dtype_for(None, placement) == dtypes[0]
        assert dtype_for("fp32", placement) == "fp32"
        assert dtype_for(None, placement, usual="fp32") == "fp32"


class TestOptions:
    """Memory options change the pipeline, or say why they cannot."""

    def test_vae_slicing_and_tiling(self, tiny: Tiny, plain: bytes) -> None:
        studio = load(tiny, "sd15", {"enable_vae_slicing": True, "enable_vae_tiling": True})
        assert studio.pipeline.vae.use_slicing
        assert studio.pipeline.vae.use_tiling
        assert studio.draw("text2image", CAT, SEED).bytes == plain  # small: one slice, one tile

    def test_attention_slicing(self, tiny: Tiny) -> None:
        processors = load(tiny, "sd15", {"attention_slicing": True}).pipeline.unet.attn_processors
        assert {type(p).__name__ for p in processors.values()} == {"SlicedAttnProcessor"}

    def test_channels_last(self, tiny: Tiny) -> None:
        pipeline = load(tiny, "sd15", {"channels_last": True}).pipeline
        for weight in (pipeline.unet.conv_in.weight, pipeline.vae.encoder.conv_in.weight):
            assert weight.is_contiguous(memory_format=torch.channels_last)

    def test_fused_projections(self, tiny: Tiny) -> None:
        unet = load(tiny, "sd15", {"fuse_qkv": True}).pipeline.unet
        assert {type(p).__name__ for p in unet.attn_processors.values()} == {
            "FusedAttnProcessor2_0"
        }

    def test_fused_projections_of_a_transformer(self, tiny: Tiny) -> None:
        transformer = load(tiny, "sd3", {"fuse_qkv": True}).pipeline.transformer
        assert all(hasattr(block.attn, "to_qkv") for block in transformer.transformer_blocks)

    def test_layerwise_casting(self, tiny: Tiny) -> None:
        studio = load(tiny, "sd3", {"enable_layerwise_casting": True})
        dtypes = {weight.dtype for weight in studio.pipeline.transformer.parameters()}
        assert torch.float8_e4m3fn in dtypes
        studio.draw("text2image", CAT)

    def test_layerwise_casting_into_another_dtype(self, tiny: Tiny) -> None:
        config = {"enable_layerwise_casting": True, "layerwise_casting_storage_dtype": "bf16"}
        transformer = load(tiny, "sd3", config).pipeline.transformer
        assert torch.bfloat16 in {weight.dtype for weight in transformer.parameters()}

    def test_the_first_block_cache_saves_blocks(
        self, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import diffusers

        # From step to step random weights change more than the ordinary threshold lets pass.
        patient = diffusers.FirstBlockCacheConfig(threshold=100.0)
        monkeypatch.setattr(diffusers, "FirstBlockCacheConfig", lambda: patient)

        def blocks_run(config: dict[str, Any]) -> int:
            studio, ran = load(tiny, "flux", config), []
            block = studio.pipeline.transformer.single_transformer_blocks[-1]
            block.proj_out.register_forward_pre_hook(lambda *_: ran.append(True))
            studio.draw("text2image", CAT, {"num_inference_steps": 5, **SEED})
            return len(ran)

        assert blocks_run({}) == 5
        assert blocks_run({"cache": "first_block_cache"}) == 1

    def test_a_cached_run_repeats(self, tiny: Tiny) -> None:
        studio = load(tiny, "flux", {"cache": "first_block_cache"})
        first, second = (studio.draw("text2image", CAT, SEED).bytes for _ in range(2))
        assert first == second

    @pytest.mark.parametrize(
        ("name", "config", "reason"),
        [
            ("sd3", {"attention_slicing": True}, "cannot be sliced"),
            ("sd15", {"cache": "first_block_cache"}, "no cache hooks"),
            ("sd15", {"layerwise_casting_storage_dtype": "fp8"}, "means nothing without"),
            ("sd15", {"group_offload_type": "leaf_level"}, "means nothing without"),
            ("sd15", {"quantization_backend": "torchao"}, "means nothing without"),
            ("sd15", {"enable_model_cpu_offload": True}, "this run is on the CPU"),
            ("sd15", {"enable_sequential_cpu_offload": True}, "this run is on the CPU"),
            ("sd15", {"enable_group_offload": True}, "this run is on the CPU"),
            (
                "sd15",
                {"enable_model_cpu_offload": True, "enable_sequential_cpu_offload": True},
                "exclude each other",
            ),
            (
                "sd15",
                {"quantization": "nf4", "quantization_backend": "torchao"},
                "torchao cannot quantize to nf4",
            ),
        ],
    )
    def test_an_option_that_cannot_be_applied_is_refused(
        self, tiny: Tiny, name: str, config: dict[str, Any], reason: str
    ) -> None:
        with pytest.raises(InvalidValue, match=reason) as caught:
            load(tiny, name, config)
        assert caught.value.param in {f"config.{key}" for key in config}

    def test_a_vae_that_cannot_be_sliced_is_told(self, tiny: Tiny) -> None:
        studio = load(tiny, "sd15")

        class Refusing:
            def enable_slicing(self) -> None:
                raise NotImplementedError

        studio.pipeline.vae.enable_slicing = Refusing().enable_slicing
        placement = Placement(Device("cpu", 0, "cpu"), "cpu", "cpu", "cpu", "test")
        with pytest.raises(InvalidValue, match="its VAE cannot"):
            apply_options(studio.pipeline, {"enable_vae_slicing": True}, placement)

    @pytest.mark.parametrize("wanted", ["int8", "fp8"])
    def test_torchao_quantizes_the_denoiser(self, tiny: Tiny, wanted: str) -> None:
        pytest.importorskip("torchao", reason="no torchao here")
        config = {"quantization": wanted, "dtype": "bf16"}
        studio = load(tiny, "sd3", config)
        kinds = {type(weight.data).__name__ for weight in studio.pipeline.transformer.parameters()}
        assert kinds & {"Int8Tensor", "Float8Tensor"}
        studio.draw("text2image", CAT)

    @pytest.mark.parametrize("wanted", ["int8", "fp8", "nf4"])
    def test_quantization_names_the_package_that_is_not_there(
        self, tiny: Tiny, wanted: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        module = "jumar.runtime.families.diffusion.memory.find_spec"
        monkeypatch.setattr(module, lambda name: None)
        with pytest.raises(DependencyMissing, match=r"needs (torchao|bitsandbytes)"):
            load(tiny, "sd3", {"quantization": wanted})


@dataclass(frozen=True)
class Pretended(Placement):
    """An accelerator by name whose tensors stay on the CPU: shows what is hooked, not what it
    saves."""

    @property
    def torch_device(self) -> str:
        return "cpu"


class TestOffload:
    """Offloading hooks the components, changes no result, and survives a run cut short."""

    # enable_sequential_cpu_offload is left out: accelerate fails where both ends are the CPU.
    OFFLOADS = ("enable_model_cpu_offload", "enable_group_offload")

    @pytest.fixture
    def pretended(self, monkeypatch: pytest.MonkeyPatch) -> Placement:
        class Backend:
            synchronize = staticmethod(lambda: None)

        monkeypatch.setattr(torch, "get_device_module", lambda device: Backend)
        return Pretended(Device("cuda", 0, "pretended"), "cuda", "cuda", "cuda", "test")

    @pytest.mark.parametrize("key", OFFLOADS)
    def test_it_is_there_and_changes_nothing(
        self, tiny: Tiny, plain: bytes, pretended: Placement, key: str
    ) -> None:
        studio = load(tiny, "sd15", {key: True, "dtype": "fp32"}, placement=pretended)
        unet = studio.pipeline.unet
        hooked = [
            m for m in unet.modules() if hasattr(m, "_hf_hook") or "_diffusers_hook" in dir(m)
        ]
        assert hooked
        assert studio.draw("text2image", CAT, SEED).bytes == plain
        assert studio.draw("text2image", CAT, SEED).bytes == plain

    @pytest.mark.parametrize("key", OFFLOADS)
    def test_other_tasks_and_stopped_runs_leave_it_working(
        self, tiny: Tiny, plain: bytes, pretended: Placement, key: str, tmp_path: Path
    ) -> None:
        Image.new("RGB", (32, 32), "red").save(tmp_path / "red.png")
        inputs = {**CAT, "image": str(tmp_path / "red.png")}
        studio = load(tiny, "sd15", {key: True, "dtype": "fp32"}, placement=pretended)
        expected = load(tiny, "sd15").draw("image2image", inputs, SEED).bytes
        with pytest.raises(DeadlineExceeded):
            studio.draw("text2image", CAT, SEED, deadline=time.monotonic() + 0.05)
        assert studio.draw("image2image", inputs, SEED).bytes == expected
        assert studio.draw("text2image", CAT, SEED).bytes == plain
        assert studio.draw("image2image", inputs, SEED).bytes == expected


class TestSchedulers:
    """A scheduler that is asked for is the one that samples."""

    NAMES = (
        "ddim",
        "dpm-solver",
        "dpm-solver-karras",
        "euler-ancestral",
        "euler-discrete",
        "unipc",
    )

    def latents(self, studio: Studio, **config: Any) -> Any:
        run = studio.draw("text2image", CAT, {"num_inference_steps": 5, **SEED, **config}).run
        assert run.latent_stats is not None
        return tuple(run.latent_stats.values())

    def test_each_one_changes_the_result_and_the_models_own_is_put_back(self, tiny: Tiny) -> None:
        studio = load(tiny, "sd15")
        own = studio.pipeline.scheduler
        native = self.latents(studio)
        seen = {"native": native}
        for name in self.NAMES:
            seen[name] = self.latents(studio, scheduler=name)
            assert studio.pipeline.scheduler is own
        assert len(set(seen.values())) == len(self.NAMES) + 1
        assert self.latents(studio, scheduler="native") == native

    def test_it_is_made_from_the_models_own_configuration(self, tiny: Tiny) -> None:
        import diffusers

        studio = load(tiny, "sd15")
        swapped = self.latents(studio, scheduler="dpm-solver-karras")
        pipeline = studio.pipeline
        pipeline.scheduler = diffusers.DPMSolverMultistepScheduler.from_config(
            pipeline.scheduler.config, use_karras_sigmas=True
        )
        assert self.latents(studio) == swapped

    @pytest.mark.parametrize("name", ["sd3", "flux"])
    @pytest.mark.parametrize("other", ["flow-match-unipc", "flow-match-dpm-solver"])
    def test_a_flow_has_samplers_of_its_own(self, tiny: Tiny, name: str, other: str) -> None:
        studio = load(tiny, name)
        native = self.latents(studio)
        assert self.latents(studio, scheduler="flow-match-euler") == native
        assert self.latents(studio, scheduler=other) != native

    def test_the_shift_of_a_flow_is_kept(self, tiny: Tiny) -> None:
        from jumar.runtime.families.diffusion.schedulers import sampling_with

        pipeline = load(tiny, "sd3").pipeline
        with sampling_with(pipeline, "flow-match-unipc", {}):
            assert pipeline.scheduler.config.flow_shift == 3.0
        wan = load(tiny, "wan_t2v").pipeline
        with sampling_with(wan, "flow-match-euler", {}):
            assert wan.scheduler.config.shift == 3.0

    @pytest.mark.parametrize(
        ("name", "asked", "valid"),
        [
            ("sd3", "ddim", "flow-match-euler"),
            ("sd15", "flow-match-euler", "dpm-solver-karras"),
        ],
    )
    def test_one_that_does_not_fit_is_refused_and_the_valid_ones_are_named(
        self, tiny: Tiny, name: str, asked: str, valid: str
    ) -> None:
        studio = load(tiny, name)
        with pytest.raises(InvalidValue, match="does not fit") as caught:
            studio.draw("text2image", CAT, {"scheduler": asked})
        assert valid in str(caught.value.hint)
        assert asked not in str(caught.value.hint)

    def test_one_that_the_pipeline_does_not_take_is_refused(self, tiny: Tiny) -> None:
        text = tiny_manifests.FLUX.replace(
            "{pipeline: FluxPipeline}",
            "{pipeline: FluxPipeline, schedulers: {ddim: {class: DDIMScheduler}}}",
        )
        studio = Studio(manifest_of(text), tiny("flux"))
        with pytest.raises(InvalidValue, match="does not work with scheduler 'ddim'"):
            studio.draw("text2image", CAT, {"scheduler": "ddim"})
        studio.draw("text2image", CAT)

    def test_a_manifest_may_bring_its_own(self, tiny: Tiny) -> None:
        text = tiny_manifests.SD15.replace(
            "{pipeline: StableDiffusionPipeline}",
            "{pipeline: StableDiffusionPipeline, schedulers: "
            "{ddim: {class: DDIMScheduler, settings: {beta_schedule: linear}}}}",
        )
        ordinary, linear = load(tiny, "sd15"), Studio(manifest_of(text), tiny("sd15"))
        assert self.latents(ordinary, scheduler="ddim") != self.latents(linear, scheduler="ddim")


class TestAdapters:
    """LoRA weights change the result as far as their scale says."""

    @pytest.fixture
    def lora(self, tiny: Tiny, tmp_path: Path) -> str:
        """Random LoRA weights of rank 2 for the tiny SD 1.5."""
        pytest.importorskip("peft")
        import diffusers
        from peft import LoraConfig
        from peft.utils import get_peft_model_state_dict

        unet = diffusers.UNet2DConditionModel.from_pretrained(tiny("sd15"), subfolder="unet")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            unet.add_adapter(
                LoraConfig(r=2, target_modules=["to_q", "to_v"], init_lora_weights=False)
            )
        diffusers.StableDiffusionPipeline.save_lora_weights(
            tmp_path, unet_lora_layers=get_peft_model_state_dict(unet)
        )
        return str(tmp_path / "pytorch_lora_weights.safetensors")

    def drawn(self, tiny: Tiny, *adapters: AdapterRef) -> bytes:
        studio = load(tiny, "sd15", adapters=list(adapters))
        return studio.draw("text2image", CAT, SEED).bytes

    def test_it_changes_the_result_by_its_scale(self, tiny: Tiny, lora: str, plain: bytes) -> None:
        whole = self.drawn(tiny, AdapterRef(kind="lora", path=lora))
        half = self.drawn(tiny, AdapterRef(kind="lora", path=lora, scale=0.5))
        assert len({plain, whole, half}) == 3

    def test_scale_0_is_as_if_it_were_not_there(self, tiny: Tiny, lora: str, plain: bytes) -> None:
        assert self.drawn(tiny, AdapterRef(kind="lora", path=lora, scale=0.0)) == plain

    def test_two_are_added_up(self, tiny: Tiny, lora: str) -> None:
        whole = AdapterRef(kind="lora", path=lora, scale=1.0)
        none = AdapterRef(kind="lora", path=lora, scale=0.0)
        assert self.drawn(tiny, whole, none) == self.drawn(tiny, whole)
        assert self.drawn(tiny, whole, whole) != self.drawn(tiny, whole)

    def test_weights_for_another_model_are_refused(self, tiny: Tiny, tmp_path: Path) -> None:
        path = tmp_path / "other.safetensors"
        safetensors.torch.save_file({"unet.nowhere.lora_A.weight": torch.ones(2, 2)}, path)
        with pytest.raises(InvalidInput, match=r"other\.safetensors") as caught:
            self.drawn(tiny, AdapterRef(kind="lora", path=str(path)))
        assert caught.value.param == "adapters"

    @pytest.mark.parametrize(
        ("name", "content", "reason"),
        [
            ("weights.bin", b"", "can run code"),
            ("weights.safetensors", None, "does not exist"),
            ("weights.safetensors", b"no tensors", "cannot be used"),
        ],
    )
    def test_a_file_that_is_no_lora_is_refused(
        self, tiny: Tiny, tmp_path: Path, name: str, content: bytes | None, reason: str
    ) -> None:
        pytest.importorskip("peft")
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InvalidInput, match=reason):
            self.drawn(tiny, AdapterRef(kind="lora", path=str(path)))

    def test_one_that_is_not_there_is_refused_before_anything_is_loaded(
        self, tmp_path: Path
    ) -> None:
        absent = AdapterRef(kind="lora", path=str(tmp_path / "none.safetensors"))
        request = text2image("sdxl-digits", "x").model_copy(update={"adapters": [absent]})
        with pytest.raises(InvalidInput, match="does not exist"):
            Diffusion().prepare(catalog.resolve(request))
