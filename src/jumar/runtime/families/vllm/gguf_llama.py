"""A Llama from llama.cpp's GGUF format to a folder of transformers.

Names, the order of rotary pairs and the metadata keys are those that llama.cpp's converter writes
(`conversion` of Llama models in `convert_hf_to_gguf.py`; keys in `gguf.constants`). Weights are
stored as bfloat16, the format that such models were trained in: a 4-bit file has less precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.contracts.errors import WeightsUnavailable

if TYPE_CHECKING:
    import numpy as np
    import torch

# (transformers' name, GGUF's name)
_WHOLE = [
    ("model.embed_tokens.weight", "token_embd.weight"),
    ("model.norm.weight", "output_norm.weight"),
    ("lm_head.weight", "output.weight"),
]
_LAYER = [
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("post_attention_layernorm", "ffn_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
]
_MARKED = {"bos": "bos", "eos": "eos", "padding": "pad"}
"""What GGUF and what transformers call the tokens with a role."""
_CONTROL = 3
"""`gguf.TokenType.CONTROL`: special tokens, never made from text by merging."""


def gguf_llama(source: Path, target: Path) -> None:
    """Fill `target` with a folder that `LlamaForCausalLM.from_pretrained` and vLLM load.

    Raises:
        WeightsUnavailable: not one GGUF file, no Llama, another vocabulary than known ones, or not
            exactly the tensors of the model that its metadata describes.
    """
    from gguf import GGUFReader

    given = sorted(source.glob("*.gguf"))
    if len(given) != 1:
        raise WeightsUnavailable(f"{source} holds {len(given)} GGUF files; a model is one.")
    try:
        reader = GGUFReader(given[0])
    except (ValueError, IndexError) as error:
        raise WeightsUnavailable(f"{given[0].name} is cut off or damaged.") from error
    facts = {name: field.contents() for name, field in reader.fields.items()}
    if (kind := facts["general.architecture"]) != "llama":
        raise WeightsUnavailable(f"{given[0].name} is a {kind!r}, no Llama.")
    arrays = {tensor.name: tensor for tensor in reader.tensors}
    config = _config(facts, tied="output.weight" not in arrays)
    _save(dict(_weights(arrays, config)), config, target)
    _tokenizer(facts).save_pretrained(target)


def _config(facts: dict[str, Any], *, tied: bool) -> Any:
    from transformers import LlamaConfig

    def of(name: str) -> Any:
        return facts[f"llama.{name}"]

    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=len(facts["tokenizer.ggml.tokens"]),
        hidden_size=of("embedding_length"),
        intermediate_size=of("feed_forward_length"),
        num_hidden_layers=of("block_count"),
        num_attention_heads=of("attention.head_count"),
        num_key_value_heads=of("attention.head_count_kv"),
        max_position_embeddings=of("context_length"),
        rms_norm_eps=of("attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": of("rope.freq_base")},
        tie_word_embeddings=tied,
        dtype="bfloat16",
        **{f"{own}_token_id": _token(facts, name) for name, own in _MARKED.items()},
    )


def _token(facts: dict[str, Any], role: str) -> int:
    return int(facts[f"tokenizer.ggml.{role}_token_id"])


def _weights(arrays: dict[str, Any], config: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of `arrays`, under its name in transformers."""
    import torch
    from gguf.quants import dequantize

    for name, own in _names(config):
        if own in arrays:
            tensor = arrays.pop(own)
            plain = dequantize(tensor.data, tensor.tensor_type)
            yield name, torch.tensor(_as_trained(own, plain, config)).bfloat16()
    if arrays:
        raise WeightsUnavailable(f"The file has unknown tensors: {', '.join(sorted(arrays))}.")


def _names(config: Any) -> Iterator[tuple[str, str]]:
    yield from _WHOLE
    for layer in range(config.num_hidden_layers):
        for name, own in _LAYER:
            yield f"model.layers.{layer}.{name}.weight", f"blk.{layer}.{own}.weight"


def _as_trained(own: str, plain: np.ndarray, config: Any) -> np.ndarray:
    """Rows of queries and keys in transformers' order.

    GGUF has the two numbers that a rotation turns beside each other, transformers half a head
    apart.
    """
    rows = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    heads = rows.get(own.split(".")[-2])
    if heads is None:
        return plain
    pairs = plain.reshape(heads, -1, 2, plain.shape[-1])
    ordered: np.ndarray = pairs.swapaxes(1, 2).reshape(plain.shape)
    return ordered


def _save(tensors: dict[str, torch.Tensor], config: Any, target: Path) -> None:
    """Exactly the tensors of such a model, in its shapes."""
    import torch
    from safetensors.torch import save_file
    from transformers import GenerationConfig, LlamaForCausalLM

    with torch.device("meta"):
        state = LlamaForCausalLM(config).state_dict()
    wanted = {name: tuple(tensor.shape) for name, tensor in state.items()}
    if config.tie_word_embeddings:
        del wanted["lm_head.weight"]
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if wrong := sorted(name for name, _ in wanted.items() ^ found.items()):
        raise WeightsUnavailable(
            f"The file is no Llama of {config.num_hidden_layers} layers: {wrong[0]} is "
            f"{found.get(wrong[0], 'missing')}, not {wanted.get(wrong[0], 'known')}."
        )
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(target)
    GenerationConfig.from_model_config(config).save_pretrained(target)


def _tokenizer(facts: dict[str, Any]) -> Any:
    """The byte-level BPE that the metadata describes, with its chat template."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    def of(name: str) -> Any:
        return facts[f"tokenizer.ggml.{name}"]

    kind = (of("model"), of("pre"))
    if kind != ("gpt2", "smollm"):
        raise WeightsUnavailable(f"The file splits words like {kind}; only SmolLM's way is known.")
    tokens = of("tokens")
    merges = [tuple(merge.split(" ")) for merge in of("merges")]
    own = Tokenizer(models.BPE({token: at for at, token in enumerate(tokens)}, merges))
    own.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    own.decoder = decoders.ByteLevel()
    control = [
        token for token, type_ in zip(tokens, of("token_type"), strict=True) if type_ == _CONTROL
    ]
    own.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    made = PreTrainedTokenizerFast(
        tokenizer_object=own,
        model_max_length=facts["llama.context_length"],
        clean_up_tokenization_spaces=False,
        **{f"{own}_token": tokens[_token(facts, name)] for name, own in _MARKED.items()},
    )
    made.chat_template = facts["tokenizer.chat_template"]
    return made
