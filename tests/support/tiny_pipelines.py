"""Real pipelines of diffusers with tiny random weights, made in code: nothing is downloaded.

pipeline = build("sdxl")          # equal every time
BUILDERS                          # the names
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import diffusers
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

WORDS = "a photo of a red cat and a small dog that runs in the park under an apple tree, 4k"


def build(name: str) -> Any:
    """The pipeline of that name, with the same weights every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        pipeline = BUILDERS[name]()
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def clip_tokenizer(limit: int = 77) -> Any:
    """A byte-level BPE of 998 tokens that knows `WORDS`, in CLIP's clothes."""
    start, end = "<|startoftext|>", "<|endoftext|>"
    shell = transformers.CLIPTokenizer(vocab={start: 0, end: 1}, merges=[])
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    bpe = Tokenizer(models.BPE(unk_token=end, end_of_word_suffix="</w>"))
    bpe.normalizer = shell.backend_tokenizer.normalizer
    bpe.pre_tokenizer = shell.backend_tokenizer.pre_tokenizer
    trainer = trainers.BpeTrainer(
        vocab_size=998,
        special_tokens=[start, end],
        initial_alphabet=letters,
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    bpe.train_from_iterator([WORDS, *letters], trainer)
    learnt = json.loads(bpe.to_str())["model"]
    return transformers.CLIPTokenizer(
        vocab=learnt["vocab"],
        merges=[tuple(merge) for merge in learnt["merges"]],
        model_max_length=limit,
    )


def t5_tokenizer() -> Any:
    """A unigram tokenizer that knows `WORDS` and single letters."""
    words = sorted(set(WORDS.replace(",", "").split()))
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -10.0)]
    pieces += [("▁" + word, -3.0) for word in words]
    pieces += [(letter, -6.0) for letter in "▁abcdefghijklmnopqrstuvwxyz0123456789.,"]
    unigram = Tokenizer(models.Unigram(pieces, unk_id=2))
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    unigram.decoder = decoders.Metaspace()
    unigram.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=unigram,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=512,
    )


def clip_text(*, projected: bool = False) -> Any:
    """A CLIP text encoder of 2 layers, 32 wide."""
    config = transformers.CLIPTextConfig(
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
        hidden_size=32,
        intermediate_size=37,
        num_attention_heads=4,
        num_hidden_layers=2,
        vocab_size=1000,
        projection_dim=32,
        max_position_embeddings=77,
        hidden_act="gelu",
    )
    cls = transformers.CLIPTextModelWithProjection if projected else transformers.CLIPTextModel
    return cls(config).eval()


def t5_text() -> Any:
    """A T5 encoder of 2 layers, 32 wide."""
    config = transformers.T5Config(
        vocab_size=200,
        d_model=32,
        d_kv=8,
        d_ff=37,
        num_layers=2,
        num_heads=4,
        is_encoder_decoder=False,
        use_cache=False,
        feed_forward_proj="gated-gelu",
    )
    return transformers.T5EncoderModel(config).eval()


def kl_vae(**settings: Any) -> Any:
    """An autoencoder that makes pictures 2 times smaller."""
    return diffusers.AutoencoderKL(
        **{
            "block_out_channels": (32, 64),
            "down_block_types": ("DownEncoderBlock2D",) * 2,
            "up_block_types": ("UpDecoderBlock2D",) * 2,
            "latent_channels": 4,
            "sample_size": 64,
            **settings,
        }
    )


def unet(**settings: Any) -> Any:
    """A UNet of two levels, one of them with cross-attention."""
    return diffusers.UNet2DConditionModel(
        block_out_channels=(32, 64),
        layers_per_block=1,
        sample_size=32,
        in_channels=4,
        out_channels=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=8,
        **settings,
    )


NOISE = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}


def sd15() -> Any:
    return diffusers.StableDiffusionPipeline(
        vae=kl_vae(),
        text_encoder=clip_text(),
        tokenizer=clip_tokenizer(),
        unet=unet(cross_attention_dim=32, attention_head_dim=8),
        scheduler=diffusers.PNDMScheduler(**NOISE, skip_prk_steps=True, steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def sdxl() -> Any:
    return diffusers.StableDiffusionXLPipeline(
        vae=kl_vae(),
        text_encoder=clip_text(),
        text_encoder_2=clip_text(projected=True),
        tokenizer=clip_tokenizer(),
        tokenizer_2=clip_tokenizer(),
        unet=unet(
            cross_attention_dim=64,
            attention_head_dim=(2, 4),
            use_linear_projection=True,
            addition_embed_type="text_time",
            addition_time_embed_dim=8,
            transformer_layers_per_block=(1, 2),
            projection_class_embeddings_input_dim=80,
        ),
        scheduler=diffusers.EulerDiscreteScheduler(
            **NOISE, timestep_spacing="leading", steps_offset=1
        ),
        add_watermarker=False,
    )


def sd3() -> Any:
    return diffusers.StableDiffusion3Pipeline(
        transformer=diffusers.SD3Transformer2DModel(
            sample_size=32,
            patch_size=1,
            in_channels=4,
            out_channels=4,
            num_layers=2,
            attention_head_dim=8,
            num_attention_heads=4,
            caption_projection_dim=32,
            joint_attention_dim=32,
            pooled_projection_dim=64,
        ),
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=kl_vae(
            shift_factor=0.0609,
            scaling_factor=1.5035,
            use_quant_conv=False,
            use_post_quant_conv=False,
        ),
        text_encoder=clip_text(projected=True),
        tokenizer=clip_tokenizer(),
        text_encoder_2=clip_text(projected=True),
        tokenizer_2=clip_tokenizer(),
        text_encoder_3=t5_text(),
        tokenizer_3=t5_tokenizer(),
    )


def flux() -> Any:
    return diffusers.FluxPipeline(
        transformer=diffusers.FluxTransformer2DModel(
            patch_size=1,
            in_channels=4,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=32,
            pooled_projection_dim=32,
            axes_dims_rope=(4, 4, 8),
        ),
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=diffusers.AutoencoderKL(
            sample_size=32,
            block_out_channels=(4,),
            layers_per_block=1,
            latent_channels=1,
            norm_num_groups=1,
            use_quant_conv=False,
            use_post_quant_conv=False,
            shift_factor=0.0609,
            scaling_factor=1.5035,
        ),
        text_encoder=clip_text(),
        tokenizer=clip_tokenizer(),
        text_encoder_2=t5_text(),
        tokenizer_2=t5_tokenizer(),
    )


def pixart() -> Any:
    """A pipeline that calls nobody back in the way of the others."""
    return diffusers.PixArtSigmaPipeline(
        transformer=diffusers.PixArtTransformer2DModel(
            sample_size=8,
            num_layers=2,
            patch_size=2,
            attention_head_dim=8,
            num_attention_heads=3,
            caption_channels=32,
            in_channels=4,
            out_channels=8,
            cross_attention_dim=24,
            attention_bias=True,
            activation_fn="gelu-approximate",
            num_embeds_ada_norm=1000,
            norm_type="ada_norm_single",
            norm_elementwise_affine=False,
            norm_eps=1e-6,
        ),
        vae=kl_vae(),
        scheduler=diffusers.DDIMScheduler(),
        text_encoder=t5_text(),
        tokenizer=t5_tokenizer(),
    )


def wan_vae() -> Any:
    return diffusers.AutoencoderKLWan(
        base_dim=3,
        z_dim=16,
        dim_mult=[1, 1, 1, 1],
        num_res_blocks=1,
        temperal_downsample=[False, True, True],
    )


def wan_transformer(**settings: Any) -> Any:
    return diffusers.WanTransformer3DModel(
        **{
            "patch_size": (1, 2, 2),
            "num_attention_heads": 2,
            "attention_head_dim": 12,
            "in_channels": 16,
            "out_channels": 16,
            "text_dim": 32,
            "freq_dim": 256,
            "ffn_dim": 32,
            "num_layers": 2,
            "cross_attn_norm": True,
            "qk_norm": "rms_norm_across_heads",
            "rope_max_seq_len": 32,
            **settings,
        }
    )


def wan_t2v() -> Any:
    return diffusers.WanPipeline(
        tokenizer=t5_tokenizer(),
        text_encoder=t5_text(),
        vae=wan_vae(),
        scheduler=diffusers.UniPCMultistepScheduler(
            prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
        ),
        transformer=wan_transformer(),
    )


def wan_i2v() -> Any:
    return diffusers.WanImageToVideoPipeline(
        tokenizer=t5_tokenizer(),
        text_encoder=t5_text(),
        vae=wan_vae(),
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=7.0),
        image_processor=transformers.CLIPImageProcessor(crop_size=32, size=32),
        image_encoder=transformers.CLIPVisionModel(
            transformers.CLIPVisionConfig(
                hidden_size=4,
                projection_dim=4,
                num_hidden_layers=2,
                num_attention_heads=2,
                image_size=32,
                intermediate_size=16,
                patch_size=1,
            )
        ),
        transformer=wan_transformer(in_channels=36, image_dim=4),
    )


def svd() -> Any:
    return diffusers.StableVideoDiffusionPipeline(
        unet=diffusers.UNetSpatioTemporalConditionModel(
            block_out_channels=(32, 64),
            layers_per_block=1,
            sample_size=32,
            in_channels=8,
            out_channels=4,
            down_block_types=("CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"),
            up_block_types=("UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"),
            cross_attention_dim=32,
            num_attention_heads=8,
            projection_class_embeddings_input_dim=96,
            addition_time_embed_dim=32,
        ),
        scheduler=diffusers.EulerDiscreteScheduler(
            **NOISE,
            interpolation_type="linear",
            prediction_type="v_prediction",
            sigma_max=700.0,
            sigma_min=0.002,
            steps_offset=1,
            timestep_spacing="leading",
            timestep_type="continuous",
            use_karras_sigmas=True,
        ),
        vae=diffusers.AutoencoderKLTemporalDecoder(
            block_out_channels=(32, 64),
            down_block_types=("DownEncoderBlock2D",) * 2,
            latent_channels=4,
        ),
        image_encoder=transformers.CLIPVisionModelWithProjection(
            transformers.CLIPVisionConfig(
                hidden_size=32,
                projection_dim=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                image_size=224,  # the pipeline brings pictures to that size itself
                intermediate_size=37,
                patch_size=32,
            )
        ),
        feature_extractor=transformers.CLIPImageProcessor(crop_size=32, size=32),
    )


BUILDERS: dict[str, Callable[[], Any]] = {
    "sd15": sd15,
    "sdxl": sdxl,
    "sd3": sd3,
    "flux": flux,
    "pixart": pixart,
    "wan_t2v": wan_t2v,
    "wan_i2v": wan_i2v,
    "svd": svd,
}
