"""Tiny random checkpoints of the architectures that vLLM serves, made in code: a few MB, seeded.

    python -m tests.vllm.models qwen3 FOLDER

Each folder is what `vllm serve` and transformers take: weights in float32, a byte-level tokenizer
that was trained here, a chat template. The weights are drawn wide, so that greedy tokens depend on
everything that attention does: a model of narrow weights repeats one token whatever is broken.

name         what it has besides
qwen3        norms of queries and keys, grouped heads
qwen2        biases of queries, keys and values; tied embeddings
llama        grouped heads, nothing else
qwen3_moe    eight experts, two for a token
glm4_moe     experts in groups, scores by a sigmoid with a bias, weights scaled by 2.5, a shared one
mistral      a sliding window of 24 tokens
gemma2       soft caps, a sliding window in every other layer
bloom        ALiBi instead of rotary positions
qwen2_vl     pictures: a vision tower of two layers, rotary positions in three axes
bert         no causal mask, no cache: vectors of whole texts
bert_classes the same, with three classes
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
CORPUS = (
    "A rope, a rock face and a device that cannot slip back.",
    "def climb(rope: Rope, metres: float) -> Height: return rope.top - metres",
    "What is 7 times 8? 56. The primes below 12 are 2, 3, 5, 7 and 11.",
    "The capital of France is Paris; the river that runs through it is the Seine.",
    "Keys and values lie in blocks of sixteen, and a table says which block comes next.",
)
TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}
{%- for part in message.content -%}
{%- if part.type in ('image', 'image_url') -%}<|vision_start|><|image_pad|><|vision_end|>
{%- else -%}{{ part.text }}{%- endif -%}
{%- endfor -%}{% endif %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}"""
VOCABULARY = 512
"""Rows of the embeddings: all bytes, the special tokens, and what the corpus is merged into."""


def tokenizer() -> PreTrainedTokenizerFast:
    """Bytes, merged as the corpus suggests; fewer tokens than `VOCABULARY`."""
    own = Tokenizer(models.BPE())
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    own.train_from_iterator(CORPUS * 20, trainer)
    made = PreTrainedTokenizerFast(
        tokenizer_object=own,
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        model_max_length=2048,
    )
    made.chat_template = TEMPLATE
    return made


def _decoder(words: PreTrainedTokenizerFast) -> dict[str, Any]:
    """The settings that the decoders here share."""
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "initializer_range": 0.3,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": words.eos_token_id,
        "pad_token_id": words.pad_token_id,
    }


def _qwen3(words: PreTrainedTokenizerFast) -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(Qwen3Config(**_decoder(words), head_dim=32))


def _qwen2(words: PreTrainedTokenizerFast) -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return Qwen2ForCausalLM(Qwen2Config(**{**_decoder(words), "tie_word_embeddings": True}))


def _llama(words: PreTrainedTokenizerFast) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**_decoder(words)))


def _qwen3_moe(words: PreTrainedTokenizerFast) -> Any:
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    config = Qwen3MoeConfig(
        **_decoder(words),
        head_dim=32,
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        norm_topk_prob=True,
    )
    return Qwen3MoeForCausalLM(config)


def _glm4_moe(words: PreTrainedTokenizerFast) -> Any:
    from transformers import Glm4MoeConfig, Glm4MoeForCausalLM

    config = Glm4MoeConfig(
        **_decoder(words),
        head_dim=32,
        use_qk_norm=True,
        n_routed_experts=8,
        num_experts_per_tok=2,
        n_group=4,
        topk_group=2,
        n_shared_experts=1,
        moe_intermediate_size=32,
        first_k_dense_replace=1,
        norm_topk_prob=True,
        routed_scaling_factor=2.5,
    )
    model = Glm4MoeForCausalLM(config)
    model.model.layers[1].mlp.gate.e_score_correction_bias.normal_(0, 0.1)
    return model


def _mistral(words: PreTrainedTokenizerFast) -> Any:
    from transformers import MistralConfig, MistralForCausalLM

    return MistralForCausalLM(MistralConfig(**_decoder(words), head_dim=16, sliding_window=24))


def _gemma2(words: PreTrainedTokenizerFast) -> Any:
    from transformers import Gemma2Config, Gemma2ForCausalLM

    config = Gemma2Config(
        **{**_decoder(words), "tie_word_embeddings": True},
        head_dim=32,
        query_pre_attn_scalar=32,
        sliding_window=24,
        attn_logit_softcapping=20.0,
        final_logit_softcapping=10.0,
    )
    model = Gemma2ForCausalLM(config)
    # Tied to the head, and multiplied by 8: as wide as the rest, a token predicts itself.
    model.model.embed_tokens.weight.data.mul_(0.05)
    return model


def _bloom(words: PreTrainedTokenizerFast) -> Any:
    from transformers import BloomConfig, BloomForCausalLM

    config = BloomConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        n_layer=2,
        n_head=4,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )
    model = BloomForCausalLM(config)
    # Tied to the head: as wide as the rest, a token predicts itself.
    model.transformer.word_embeddings_layernorm.weight.data.mul_(0.02)
    return model


def _qwen2_vl(words: PreTrainedTokenizerFast) -> Any:
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

    ids = {name: words.convert_tokens_to_ids(f"<|{name}|>") for name in _VISION}
    config = Qwen2VLConfig(
        text_config={
            **_decoder(words),
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10_000.0,
                "mrope_section": [2, 3, 3],
            },
        },
        vision_config={
            "depth": 2,
            "embed_dim": 32,
            "hidden_size": 64,
            "num_heads": 2,
            "patch_size": 4,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "initializer_range": 0.3,
        },
        image_token_id=ids["image_pad"],
        video_token_id=ids["video_pad"],
        vision_start_token_id=ids["vision_start"],
        vision_end_token_id=ids["vision_end"],
        tie_word_embeddings=False,
    )
    return Qwen2VLForConditionalGeneration(config)


_VISION = ("image_pad", "video_pad", "vision_start", "vision_end")


def _bert(words: PreTrainedTokenizerFast) -> Any:
    from transformers import BertModel

    return BertModel(_bert_config(words))


def _bert_classes(words: PreTrainedTokenizerFast) -> Any:
    from transformers import BertForSequenceClassification

    return BertForSequenceClassification(_bert_config(words))


def _bert_config(words: PreTrainedTokenizerFast) -> Any:
    from transformers import BertConfig

    return BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=512,
        initializer_range=0.1,
        pad_token_id=words.pad_token_id,
        num_labels=3,
    )


MODELS: dict[str, Callable[[PreTrainedTokenizerFast], Any]] = {
    "qwen3": _qwen3,
    "qwen2": _qwen2,
    "llama": _llama,
    "qwen3_moe": _qwen3_moe,
    "glm4_moe": _glm4_moe,
    "mistral": _mistral,
    "gemma2": _gemma2,
    "bloom": _bloom,
    "qwen2_vl": _qwen2_vl,
    "bert": _bert,
    "bert_classes": _bert_classes,
}


def make(name: str, folder: Path, seed: int = 0) -> Path:
    """Write the checkpoint called `name` into `folder`; equal seeds give equal weights."""
    words = tokenizer()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = MODELS[name](words).float().eval()
        _widen(model)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    if name == "qwen2_vl":
        _processor(words).save_pretrained(folder)
    return folder


def _widen(model: Any) -> None:
    """Draw what an initialiser leaves at zero or one: biases and norms that do nothing hide
    an operator that forgets them."""
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            weight.data.normal_(0, 0.1)
        elif weight.dim() == 1:
            weight.data.add_(torch.randn_like(weight) * 0.1)


def _processor(words: PreTrainedTokenizerFast) -> Any:
    from transformers import Qwen2VLImageProcessor, Qwen2VLProcessor, Qwen2VLVideoProcessor

    size = {"shortest_edge": 16 * 16, "longest_edge": 64 * 64}
    patches = {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2, "size": size}
    return Qwen2VLProcessor(
        image_processor=Qwen2VLImageProcessor(**patches),
        tokenizer=words,
        video_processor=Qwen2VLVideoProcessor(**patches),
        chat_template=TEMPLATE,
    )


if __name__ == "__main__":
    print(make(sys.argv[1], Path(sys.argv[2])))
