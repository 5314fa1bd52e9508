"""Whisper from CTranslate2's format to transformers'.

A `model.bin` of version 6 is: version u32, specification's name, its revision u32, number of
variables u32; per variable its name, rank u8, dimensions u32 each, type u8, bytes u32, data; then
aliases as pairs of names. Names are u16 length (with a closing zero) and bytes. All little-endian.
(CTranslate2, `ctranslate2.specs.model_spec`, read in version 4.6.)
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from jumar.contracts.errors import WeightsUnavailable

if TYPE_CHECKING:
    import numpy as np

    Arrays = dict[str, np.ndarray]

_VERSION = 6
_TYPES = {0: "<f4", 1: "i1", 2: "<i2", 3: "<i4", 4: "<f2"}

# Variables that are no weights: settings of the specification. Those that decide what is computed
# are checked against what transformers computes; the others follow from the folder's config.json.
_SETTINGS = {
    "decoder/activation": 3,  # GELU with the error function
    "decoder/alibi": 0,
    "decoder/pre_norm": 1,
    "decoder/scale_embeddings": 0,
    "decoder/start_from_zero_embedding": 0,
    "decoder/alignment_heads": None,
    "decoder/alignment_layer": None,
    "decoder/num_heads": None,
    "encoder/num_heads": None,
}

# (transformers' name, CTranslate2's name) of the parts of a layer. A list of names means that
# CTranslate2 has them stacked in one matrix.
_SELF = [
    ("self_attn_layer_norm", "self_attention/layer_norm"),
    (["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], "self_attention/linear_0"),
    ("self_attn.out_proj", "self_attention/linear_1"),
]
_CROSS = [
    ("encoder_attn_layer_norm", "attention/layer_norm"),
    ("encoder_attn.q_proj", "attention/linear_0"),
    (["encoder_attn.k_proj", "encoder_attn.v_proj"], "attention/linear_1"),
    ("encoder_attn.out_proj", "attention/linear_2"),
]
_FEED = [
    ("final_layer_norm", "ffn/layer_norm"),
    ("fc1", "ffn/linear_0"),
    ("fc2", "ffn/linear_1"),
]
_LAYER = {"encoder": [*_SELF, *_FEED], "decoder": [*_SELF, *_CROSS, *_FEED]}
_WHOLE = [
    ("encoder.conv1", "encoder/conv1"),
    ("encoder.conv2", "encoder/conv2"),
    ("encoder.layer_norm", "encoder/layer_norm"),
    ("encoder.embed_positions.weight", "encoder/position_encodings/encodings"),
    ("decoder.embed_positions.weight", "decoder/position_encodings/encodings"),
    ("decoder.embed_tokens.weight", "decoder/embeddings/weight"),
    ("decoder.layer_norm", "decoder/layer_norm"),
]
_PARTS = {"weight": ("weight", "gamma"), "bias": ("bias", "beta")}


def ct2_whisper(source: Path, target: Path) -> None:
    """Fill `target` with a folder that `WhisperForConditionalGeneration.from_pretrained` loads.

    Raises:
        WeightsUnavailable: another version, a quantised or incomplete file, or one that is no
            Whisper; naming the variable that is wrong.
    """
    with (source / "model.bin").open("rb") as file:
        variables = _read(file)
    _check_settings(variables)
    tensors = {f"model.{name}": array for name, array in _renamed(variables)}
    if variables:
        raise WeightsUnavailable(
            f"model.bin has unknown variables: {', '.join(sorted(variables))}."
        )
    _save(tensors, source, target)


def _save(tensors: Arrays, source: Path, target: Path) -> None:
    from safetensors.numpy import save_file
    from transformers import WhisperFeatureExtractor

    tokenizer = _save_tokenizer(source, target, len(tensors["model.decoder.embed_tokens.weight"]))
    config = _config(tensors, tokenizer)
    _check_shapes(tensors, config)
    given = json.loads((source / "config.json").read_text("utf-8"))
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(target)
    _generation_config(given, tokenizer, config).save_pretrained(target)
    WhisperFeatureExtractor(feature_size=config.num_mel_bins).save_pretrained(target)


def _check_shapes(tensors: Arrays, config: Any) -> None:
    """Exactly the tensors of such a model, in its shapes; the output matrix is the embedding."""
    import torch
    from transformers import WhisperForConditionalGeneration

    with torch.device("meta"):
        state = WhisperForConditionalGeneration(config).state_dict()
    wanted = {name: tuple(tensor.shape) for name, tensor in state.items()}
    del wanted["proj_out.weight"]
    found = {name: array.shape for name, array in tensors.items()}
    wrong = sorted(name for name, _ in wanted.items() ^ found.items())
    if wrong:
        raise WeightsUnavailable(
            f"model.bin is no Whisper of {config.encoder_layers} layers: {wrong[0]} is "
            f"{found.get(wrong[0], 'missing')}, not {wanted.get(wrong[0], 'known')}."
        )


class _Bytes:
    """A file read from front to back; EOFError where it ends too early."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def take(self, count: int) -> bytes:
        content = self._file.read(count)
        if len(content) < count:
            raise EOFError(f"{count} bytes wanted, {len(content)} left")
        return content

    def number(self, code: str) -> int:
        (value,) = struct.unpack("<" + code, self.take(struct.calcsize(code)))
        return int(value)

    def name(self) -> str:
        return self.take(self.number("H"))[:-1].decode()


def _read(file: BinaryIO) -> Arrays:
    """All variables by name. The one alias, of the output matrix, is Whisper's tied embedding."""
    try:
        given = _Bytes(file)
        if (version := given.number("I")) != _VERSION:
            raise WeightsUnavailable(f"model.bin has version {version}; {_VERSION} can be read.")
        if (kind := given.name()) != "WhisperSpec":
            raise WeightsUnavailable(f"model.bin is a {kind[:100]!r}, no Whisper.")
        given.number("I")  # the specification's revision: names have stayed the same
        variables = dict(_variable(given) for _ in range(given.number("I")))
        aliases = {given.name(): given.name() for _ in range(given.number("I"))}
    except (EOFError, ValueError, KeyError) as error:
        raise WeightsUnavailable("model.bin is cut off or damaged.") from error
    if aliases != {"decoder/projection/weight": "decoder/embeddings/weight"}:
        raise WeightsUnavailable(f"model.bin has other aliases than Whisper: {aliases}.")
    return variables


def _variable(given: _Bytes) -> tuple[str, np.ndarray]:
    import numpy as np

    name, shape = given.name(), [given.number("I") for _ in range(given.number("B"))]
    kind = _TYPES[given.number("B")]
    return name, np.frombuffer(given.take(given.number("I")), kind).reshape(shape)


def _check_settings(variables: Arrays) -> None:
    for name, wanted in _SETTINGS.items():
        value = variables.pop(name, None)
        if value is not None and wanted is not None and int(value) != wanted:
            raise WeightsUnavailable(f"model.bin has {name} = {int(value)}, a Whisper {wanted}.")


def _renamed(variables: Arrays) -> Iterator[tuple[str, np.ndarray]]:
    """Take every weight out of `variables`, under its name in transformers."""
    for name, own in _WHOLE:
        yield from _taken(variables, name, own)
    for side, rows in _LAYER.items():
        for index in range(_layers(variables, side)):
            for names, own in rows:
                placed = [names] if isinstance(names, str) else names
                full = [f"{side}.layers.{index}.{name}" for name in placed]
                yield from _taken(variables, full, f"{side}/layer_{index}/{own}")


def _taken(variables: Arrays, names: str | list[str], own: str) -> Iterator[tuple[str, np.ndarray]]:
    """One matrix, or a weight and a bias; stacked ones are cut into equal parts."""
    import numpy as np

    if isinstance(names, str):
        names = [names]
    if own in variables:
        yield names[0], variables.pop(own)
        return
    for part, own_names in _PARTS.items():
        array = next(
            (variables.pop(f"{own}/{last}") for last in own_names if f"{own}/{last}" in variables),
            None,
        )
        if array is None:
            raise WeightsUnavailable(f"model.bin has no {own}/{own_names[0]}.")
        if array.dtype.kind != "f":
            raise WeightsUnavailable(
                f"{own} in model.bin is quantised; float16 or float32 is needed."
            )
        for name, piece in zip(names, np.split(array, len(names)), strict=True):
            if part == "bias" and name.endswith("k_proj"):
                _is_zero(piece, own)
            else:
                yield f"{name}.{part}", np.ascontiguousarray(piece)


def _is_zero(bias: np.ndarray, own: str) -> None:
    """Whisper's keys have no bias; CTranslate2 stacks zeros there."""
    if bias.any():
        raise WeightsUnavailable(f"{own} in model.bin has a bias for its keys; Whisper has none.")


def _layers(variables: Arrays, side: str) -> int:
    found = {key.split("/")[1] for key in variables if key.startswith(f"{side}/layer_")}
    return len(found - {"layer_norm"})


def _save_tokenizer(source: Path, target: Path, vocabulary: int) -> Any:
    """The tokenizer with the 1501 times `<|0.00|>` … `<|30.00|>`, which CTranslate2 leaves out."""
    from tokenizers import AddedToken, Tokenizer

    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    absent = vocabulary - tokenizer.get_vocab_size()
    if absent == 1501:
        times = [AddedToken(f"<|{step * 0.02:.2f}|>", normalized=False) for step in range(absent)]
        tokenizer.add_tokens(times)
    if tokenizer.get_vocab_size() != vocabulary:
        raise WeightsUnavailable(
            f"tokenizer.json has {vocabulary - absent} tokens, model.bin {vocabulary}."
        )
    tokenizer.save(str(target / "tokenizer.json"))
    end = "<|endoftext|>"
    settings = {
        "tokenizer_class": "WhisperTokenizer",
        **{f"{role}_token": end for role in ("bos", "eos", "unk", "pad")},
    }
    (target / "tokenizer_config.json").write_text(json.dumps(settings, indent=1), "utf-8")
    return tokenizer


def _config(tensors: Arrays, tokenizer: Any) -> Any:
    from transformers import WhisperConfig

    vocabulary, width = tensors["model.decoder.embed_tokens.weight"].shape
    layers = {
        side: 1 + max(int(name.split(".")[3]) for name in tensors if f"{side}.layers." in name)
        for side in _LAYER
    }
    heads = width // 64  # every Whisper has 64 numbers per head
    end = tokenizer.token_to_id("<|endoftext|>")
    return WhisperConfig(
        vocab_size=vocabulary,
        num_mel_bins=tensors["model.encoder.conv1.weight"].shape[1],
        d_model=width,
        encoder_layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=len(tensors["model.encoder.layers.0.fc1.weight"]),
        decoder_ffn_dim=len(tensors["model.decoder.layers.0.fc1.weight"]),
        max_source_positions=len(tensors["model.encoder.embed_positions.weight"]),
        max_target_positions=len(tensors["model.decoder.embed_positions.weight"]),
        decoder_start_token_id=tokenizer.token_to_id("<|startoftranscript|>"),
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
        dtype=str(tensors["model.decoder.embed_tokens.weight"].dtype),
    )


def _generation_config(given: dict[str, Any], tokenizer: Any, config: Any) -> Any:
    from transformers import GenerationConfig

    languages = {
        token: tokenizer.token_to_id(token)
        for token in tokenizer.get_vocab()
        if tokenizer.token_to_id(token) in given["lang_ids"]
    }
    # The English models keep the language tokens of the others, and are one token shorter.
    multilingual = config.vocab_size >= 51865
    several = {
        "lang_to_id": languages,
        "task_to_id": {
            task: tokenizer.token_to_id(f"<|{task}|>") for task in ("transcribe", "translate")
        },
    }
    return GenerationConfig(
        decoder_start_token_id=config.decoder_start_token_id,
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        pad_token_id=config.pad_token_id,
        max_length=config.max_target_positions,
        suppress_tokens=given["suppress_ids"],
        begin_suppress_tokens=given["suppress_ids_begin"],
        alignment_heads=given["alignment_heads"],
        no_timestamps_token_id=tokenizer.token_to_id("<|notimestamps|>"),
        prev_sot_token_id=tokenizer.token_to_id("<|startofprev|>"),
        max_initial_timestamp_index=50,  # a first word within the first second, as in OpenAI's code
        return_timestamps=False,
        is_multilingual=multilingual,
        **(several if multilingual else {}),
    )
