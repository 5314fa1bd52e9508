"""A tiny random Llama as llama.cpp writes one: GGUF with 4-bit matrices and byte-level words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from tokenizers import pre_tokenizers

WIDTH, HEADS, SHARED, INNER, LAYERS = 64, 4, 2, 96, 2
WORDS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
WORDS += sorted(pre_tokenizers.ByteLevel.alphabet())
WORDS += ["Ġc", "at", "Ġcat", "12"]
MERGES = ["Ġ c", "a t", "Ġc at", "1 2"]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"


def llama_tensors(seed: int = 0) -> dict[str, np.ndarray]:
    """Float32, by GGUF's names; queries and keys in GGUF's order."""
    draw = np.random.default_rng(seed)
    half = WIDTH * SHARED // HEADS
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (len(WORDS), WIDTH)}
    for layer in range(LAYERS):
        shapes |= {
            f"blk.{layer}.{name}": shape
            for name, shape in {
                "attn_norm": (WIDTH,),
                "attn_q": (WIDTH, WIDTH),
                "attn_k": (half, WIDTH),
                "attn_v": (half, WIDTH),
                "attn_output": (WIDTH, WIDTH),
                "ffn_norm": (WIDTH,),
                "ffn_gate": (INNER, WIDTH),
                "ffn_up": (INNER, WIDTH),
                "ffn_down": (WIDTH, INNER),
            }.items()
        }
    shapes["output_norm"] = (WIDTH,)
    return {
        f"{name}.weight": draw.normal(len(shape) == 1, 0.2, shape).astype(np.float32)
        for name, shape in shapes.items()
    }


def write(folder: Path, tensors: dict[str, np.ndarray], **facts: Any) -> Path:
    """`facts` replace `architecture` and `pre` (how words are split)."""
    folder.mkdir(parents=True, exist_ok=True)
    file = gguf.GGUFWriter(folder / "tiny.gguf", facts.get("architecture", "llama"))
    file.add_block_count(LAYERS)
    file.add_context_length(256)
    file.add_embedding_length(WIDTH)
    file.add_feed_forward_length(INNER)
    file.add_head_count(HEADS)
    file.add_head_count_kv(SHARED)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_rope_freq_base(10_000.0)
    file.add_rope_dimension_count(WIDTH // HEADS)
    file.add_vocab_size(len(WORDS))
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre(facts.get("pre", "smollm"))
    file.add_token_list(WORDS)
    file.add_token_types([3] * 3 + [1] * (len(WORDS) - 3))
    file.add_token_merges(MERGES)
    file.add_bos_token_id(1)
    file.add_eos_token_id(2)
    file.add_unk_token_id(0)
    file.add_pad_token_id(2)
    file.add_chat_template(TEMPLATE)
    for name, array in tensors.items():
        kind = gguf.GGMLQuantizationType.Q4_1 if array.ndim == 2 else None
        data = array if kind is None else gguf.quants.quantize(array, kind)
        file.add_tensor(name, data, raw_dtype=kind)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return folder
