"""Tiny random checkpoints in the layouts of other programs, made in code.

whisper(folder)          a Whisper of transformers (random), English only
ct2(folder, state)       the same weights as CTranslate2 writes them
sentence_bert(folder)    a sentence-transformers folder around a random BERT
bert_head(folder, kind)  a random BERT with a head: labels of texts, pairs or tokens
modern_bert_head(folder) a random ModernBERT with labels of texts and pairs
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

TIMES = 1501
_SPECIAL = (
    "endoftext",
    "startoftranscript",
    "en",
    "de",
    "translate",
    "transcribe",
    "startofprev",
    "notimestamps",
)


def whisper_tokenizer() -> Tokenizer:
    """Bytes, and the special tokens of an English Whisper without the times."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: at for at, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(f"<|{name}|>", special=True) for name in _SPECIAL])
    return tokenizer


def whisper(seed: int = 0) -> Any:
    """A random Whisper of two layers with the vocabulary of `whisper_tokenizer`."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    tokenizer = whisper_tokenizer()
    start, end = (
        tokenizer.token_to_id(f"<|{name}|>") for name in ("startoftranscript", "endoftext")
    )
    torch.manual_seed(seed)
    config = WhisperConfig(
        vocab_size=tokenizer.get_vocab_size() + TIMES,
        num_mel_bins=80,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=1,
        decoder_attention_heads=1,
        encoder_ffn_dim=96,
        decoder_ffn_dim=96,
        max_target_positions=48,
        decoder_start_token_id=start,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
    )
    return WhisperForConditionalGeneration(config).eval()


def ct2(folder: Path, state: dict[str, torch.Tensor], **changes: Any) -> Path:
    """Write `state` as a CTranslate2 folder. `changes` replace variables by name; None drops one,
    and the name `version` stands for the file's own."""
    version = changes.pop("version", 6)
    variables = {**_variables(state), **changes}
    rows = {name: np.asarray(array) for name, array in variables.items() if array is not None}
    types = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4}

    def text(name: str) -> bytes:
        return struct.pack("<H", len(name) + 1) + name.encode() + b"\0"

    content = struct.pack("<I", version) + text("WhisperSpec") + struct.pack("<II", 3, len(rows))
    for name, array in rows.items():
        content += text(name) + struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)
        content += struct.pack("<BI", types[str(array.dtype)], array.nbytes) + array.tobytes()
    content += struct.pack("<I", 1) + text("decoder/projection/weight")
    content += text("decoder/embeddings/weight")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.bin").write_bytes(content)
    whisper_tokenizer().save(str(folder / "tokenizer.json"))
    english = whisper_tokenizer().token_to_id("<|en|>")
    settings = {
        "alignment_heads": [[1, 0]],
        "lang_ids": [english],
        "suppress_ids": [1, 2],
        "suppress_ids_begin": [3],
    }
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


def _variables(state: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """By CTranslate2's names; queries, keys and values stacked, with zeros for the keys' bias."""
    weights = {name: tensor.half().numpy() for name, tensor in state.items()}
    found: dict[str, np.ndarray] = {
        "encoder/num_heads": np.int16(1),
        "decoder/num_heads": np.int16(1),
        "decoder/activation": np.int8(3),
        "decoder/pre_norm": np.int8(1),
        "decoder/embeddings/weight": weights["model.decoder.embed_tokens.weight"],
    }

    def take(own: str, *names: str, kind: tuple[str, str] = ("weight", "bias")) -> None:
        found[f"{own}/{kind[0]}"] = np.concatenate([weights[f"model.{n}.weight"] for n in names])
        biases = [
            weights.get(f"model.{n}.bias", np.zeros(len(weights[f"model.{n}.weight"]), np.float16))
            for n in names
        ]
        found[f"{own}/{kind[1]}"] = np.concatenate(biases)

    def norm(own: str, name: str) -> None:
        take(own, name, kind=("gamma", "beta"))

    for conv in ("conv1", "conv2"):
        take(f"encoder/{conv}", f"encoder.{conv}")
    for side in ("encoder", "decoder"):
        positions = weights[f"model.{side}.embed_positions.weight"]
        found[f"{side}/position_encodings/encodings"] = positions
        norm(f"{side}/layer_norm", f"{side}.layer_norm")
        for layer in range(2):
            own, name = f"{side}/layer_{layer}", f"{side}.layers.{layer}"
            norm(f"{own}/self_attention/layer_norm", f"{name}.self_attn_layer_norm")
            take(f"{own}/self_attention/linear_0", *(f"{name}.self_attn.{x}_proj" for x in "qkv"))
            take(f"{own}/self_attention/linear_1", f"{name}.self_attn.out_proj")
            if side == "decoder":
                norm(f"{own}/attention/layer_norm", f"{name}.encoder_attn_layer_norm")
                take(f"{own}/attention/linear_0", f"{name}.encoder_attn.q_proj")
                take(f"{own}/attention/linear_1", *(f"{name}.encoder_attn.{x}_proj" for x in "kv"))
                take(f"{own}/attention/linear_2", f"{name}.encoder_attn.out_proj")
            norm(f"{own}/ffn/layer_norm", f"{name}.final_layer_norm")
            take(f"{own}/ffn/linear_0", f"{name}.fc1")
            take(f"{own}/ffn/linear_1", f"{name}.fc2")
    return found


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "cat", "dog", "sat", "on", "the", "mat", "and"]
WORDS += ["ran", "far", "away"]


def _tiny_bert() -> dict[str, Any]:
    return {
        "vocab_size": len(WORDS),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "max_position_embeddings": 32,
    }


def _words_of_bert(folder: Path, *, types: bool = True) -> None:
    """A tokenizer of whole words, also of pairs; `types` tell the two apart."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({w: at for at, w in enumerate(WORDS)}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = ["input_ids", *(["token_type_ids"] if types else []), "attention_mask"]
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        model_max_length=32,
        model_input_names=names,
    ).save_pretrained(folder)


def bert_head(folder: Path, kind: str, labels: tuple[str, ...], problem: str | None = None) -> Path:
    """`kind` is `SequenceClassification` or `TokenClassification`; weights far enough apart that
    texts get different answers."""
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(
        **_tiny_bert(),
        id2label=dict(enumerate(labels)),
        label2id={label: at for at, label in enumerate(labels)},
        problem_type=problem,
        initializer_range=0.5,
    )
    getattr(transformers, f"BertFor{kind}")(config).save_pretrained(folder)
    _words_of_bert(folder)
    return folder


def modern_bert_head(folder: Path, labels: tuple[str, ...]) -> Path:
    """A random ModernBERT that labels texts and pairs, with windows shorter than its texts."""
    import transformers

    torch.manual_seed(0)
    config = transformers.ModernBertConfig(
        **_tiny_bert(),
        pad_token_id=0,
        cls_token_id=2,
        sep_token_id=3,
        bos_token_id=2,
        eos_token_id=3,
        local_attention=8,
        global_attn_every_n_layers=2,
        id2label=dict(enumerate(labels)),
        label2id={label: at for at, label in enumerate(labels)},
        initializer_range=0.5,
    )
    transformers.ModernBertForSequenceClassification(config).save_pretrained(folder)
    _words_of_bert(folder, types=False)
    return folder


def sentence_bert(
    folder: Path,
    *,
    pooling: tuple[str, ...] = ("mean_tokens",),
    normalize: bool = True,
    longest: int = 16,
    **settings: Any,
) -> Path:
    """`settings` go to `sentence_bert_config.json` and the prompts, as in the real files."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    BertModel(BertConfig(**_tiny_bert())).save_pretrained(folder)
    _words_of_bert(folder)
    kinds = ["Transformer", "Pooling", *(["Normalize"] if normalize else [])]
    steps = [
        {
            "idx": at,
            "name": str(at),
            "path": "" if at == 0 else f"{at}_{kind}",
            "type": f"st.{kind}",
        }
        for at, kind in enumerate(kinds)
    ]
    (folder / "1_Pooling").mkdir(exist_ok=True)
    files = {
        "modules.json": steps,
        "1_Pooling/config.json": {f"pooling_mode_{name}": True for name in pooling},
        "sentence_bert_config.json": {
            "max_seq_length": longest,
            "do_lower_case": settings.pop("lower", False),
        },
        "config_sentence_transformers.json": settings,
    }
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value))
    return folder
