"""Golden answers of a model of Hugging Face, by `transformers` on the CPU in float32.

task            what is recorded of each text
text            its greedy continuation, and the log probability of each of its tokens
embeddings      the vector of the whole text, of length one
classification  the probabilities of its classes, or the logits of a regression
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jumar.contracts.errors import InvalidInput, JumarError
from jumar.lab.golden.base import Answers, Golden, Key, Reference, Request
from jumar.lab.golden.files import write
from jumar.parity.answers import Answer

LENGTH = 24
"""Tokens that each prompt is continued by."""

TEXTS = {
    "short": "Hello",
    "sentence": "The climber put a jumar on the rope, and from then on she could only go up.",
    "long": "An ascender grips the line and slides only upwards. " * 24,  # over several blocks
    "non-latin": "攀登者把上升器扣在绳上。Кто идёт вверх?",
}

ENDINGS = {
    "LMHeadModel": "text",
    "ForSequenceClassification": "classification",
    "ForMaskedLM": "embeddings",
    "Model": "embeddings",
}
"""What a class of transformers is for, by the end of its name: the first that fits. The rest is
for text, as it is in vLLM."""

POOLINGS: dict[str, Callable[[Any], Any]] = {
    "cls": lambda states: states[0],
    "last": lambda states: states[-1],
    "mean": lambda states: states.mean(0),
}
"""From the last hidden states [tokens, size] to one vector, by the names that vLLM has."""

SENTENCE_TRANSFORMERS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
    "pooling_mode_mean_tokens": "mean",
}
"""The keys of a `1_Pooling/config.json`."""

Answered = tuple[dict[str, Any], Answers]
"""What a request carries besides its prompt, and its answers."""


class Task(NamedTuple):
    """A class of transformers, and how its model is asked one prompt."""

    loader: str
    answer: Callable[[Any, list[int], str], Answered]


def record(
    model: str, folder: str | Path, *, task: str | None = None, pooling: str | None = None
) -> Path:
    """Ask `transformers` and write the golden set; gives its file.

    `task` and `pooling` (of embeddings) are what the checkpoint says where they are None.

    Raises:
        InvalidInput: `model` is no folder of such a model.
    """
    if not Path(model).is_dir():
        raise InvalidInput(f"There is no folder {model}.", param="model")
    import torch
    import transformers

    try:
        config = transformers.AutoConfig.from_pretrained(model)
        tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        task = task or _task(Path(model), config)
        pooled = (pooling or _pooling(Path(model), config)) if task == "embeddings" else ""
        loader = getattr(transformers, TASKS[task].loader)
        loaded = loader.from_pretrained(model, dtype=torch.float32).eval()
    except JumarError:
        raise
    except (OSError, ValueError, KeyError) as error:
        what = task or "transformers"
        raise InvalidInput(f"{model} is no model for {what}: {error}", param="model") from error
    requests, answers = [], {}
    room = getattr(config, "max_position_embeddings", None)
    for name, text in TEXTS.items():
        prompt = tokenizer(text)["input_ids"][: room and room - LENGTH]
        with torch.inference_mode():
            besides, answers[name] = TASKS[task].answer(loaded, prompt, pooled)
        requests.append(Request(name, {"prompt": prompt, **besides}, covers=(name,)))
    made_on = {"torch": str(torch.__version__), "made_by": "transformers"}
    reference = Reference(Key("cpu", "fp32", ""), made_on, answers, "itself only")
    return write(Golden(str(model), "", task, tuple(requests), (reference,)), folder)


def _continued(model: Any, prompt: list[int], pooling: str) -> Answered:
    continued = _greedy(model, prompt)
    return {"continued": continued}, {
        "tokens.0": Answer("words", words(continued)),
        "logits.0": Answer("logit", _scores(model, prompt, continued)),
    }


def _vector(model: Any, prompt: list[int], pooling: str) -> Answered:
    import torch

    states = model(torch.tensor([prompt])).last_hidden_state[0].double()
    vector = torch.nn.functional.normalize(POOLINGS[pooling](states), dim=0)
    return {"pooling": pooling}, {"vector.0": Answer("vector", vector.numpy())}


def _classes(model: Any, prompt: list[int], pooling: str) -> Answered:
    import torch

    logits = model(torch.tensor([prompt])).logits[0].double()
    activation = _activation(model.config)
    quantity = "probability" if activation else "logit"
    told = activation(logits) if activation else logits
    return {"quantity": quantity}, {"classes.0": Answer(quantity, told.numpy())}


TASKS = {
    "text": Task("AutoModelForCausalLM", _continued),
    "embeddings": Task("AutoModel", _vector),
    "classification": Task("AutoModelForSequenceClassification", _classes),
}


def words(tokens: Sequence[int]) -> str:
    """Tokens as an answer in words."""
    return " ".join(map(str, tokens))


def _greedy(model: Any, prompt: list[int]) -> list[int]:
    """The most probable token, LENGTH times, without a cache of keys and values."""
    import torch

    known = torch.tensor([prompt])
    for _ in range(LENGTH):
        best = model(known).logits[:, -1].argmax(-1, keepdim=True)
        known = torch.cat([known, best], 1)
    return [int(token) for token in known[0, len(prompt) :]]


def _scores(model: Any, prompt: list[int], continued: list[int]) -> Any:
    """Log probability of each token of the continuation, float64 [LENGTH]."""
    import torch

    whole = torch.tensor([prompt + continued])
    scores = model(whole).logits[0].double().log_softmax(-1)
    at = torch.arange(len(prompt) - 1, whole.shape[1] - 1)
    return scores[at, whole[0, len(prompt) :]].numpy()


# ---- what a checkpoint says of itself -----------------------------------------------------------


def _task(folder: Path, config: Any) -> str:
    if (folder / "modules.json").exists():
        return "embeddings"
    [name, *_] = config.architectures or [""]
    return next((task for end, task in ENDINGS.items() if name.endswith(end)), "text")


def _pooling(folder: Path, config: Any) -> str:
    """As Sentence Transformers wrote it, else the first token of an encoder, the last of a decoder.

    Raises:
        InvalidInput: it pools, or goes on, in a way that is not recorded here.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES as MASKED

    hint = f"What is recorded: {', '.join(POOLINGS)}, of the last hidden states."
    modules = {m["type"].rpartition(".")[2]: m for m in _read(folder / "modules.json", [])}
    if more := modules.keys() - {"Transformer", "Pooling", "Normalize"}:
        raise InvalidInput(f"{folder} has more modules: {', '.join(sorted(more))}.", hint=hint)
    if "Pooling" not in modules:
        return "cls" if config.model_type in MASKED else "last"
    told = _read(folder / modules["Pooling"]["path"] / "config.json", {})
    named = [name for key, name in SENTENCE_TRANSFORMERS.items() if told.get(key)]
    named += [told["pooling_mode"]] if "pooling_mode" in told else []
    if len(named) != 1 or named[0] not in POOLINGS:
        raise InvalidInput(f"{folder} pools in another way: {told}.", hint=hint)
    return str(named[0])


def _activation(config: Any) -> Callable[[Any], Any] | None:
    """From logits to probabilities: as the loss that transformers trains such a model with, and as
    the files of Sentence Transformers say; None where logits are the answer."""
    named = getattr(config, "sbert_ce_default_activation_function", None)
    named = named or (getattr(config, "sentence_transformers", None) or {}).get("activation_fn", "")
    kind = config.problem_type
    if kind == "regression" or (kind is None and named.endswith("Identity")):
        return None
    if kind == "multi_label_classification" or config.num_labels == 1:
        return lambda logits: logits.sigmoid()
    return lambda logits: logits.softmax(-1)


def _read(path: Path, otherwise: Any) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else otherwise
