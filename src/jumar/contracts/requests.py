"""What a caller asks for, and one typed helper per task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field, ValidationError

from jumar.contracts.errors import InvalidInput, InvalidRequest, UnknownKey, did_you_mean
from jumar.contracts.results import Contract

Task = Literal[
    "text2image",
    "image2image",
    "inpaint",
    "edit",
    "text2video",
    "image2video",
    "audio2video",
    "text2audio",
    "audio2text",
    "text2text",
    "embeddings",
    "classification",
    "reranking",
    "entailment",
    "decisions",
]
TASKS: tuple[str, ...] = get_args(Task)


class AdapterRef(Contract):
    """Weights added to a model when it is loaded: a LoRA in safetensors, blended in at `scale`."""

    kind: Literal["lora"]
    path: str
    scale: float = 1.0


class GenerateRequest(Contract):
    """One thing to generate. `backend` is `auto`, `cuda`, `ascend`, `cpu` or a device (`npu:0`).

    Which keys `inputs` and `config` may have is said by the model's manifest
    (``jumar models MODEL``); `jumar.catalog.resolve` checks them.
    """

    task: Task
    model: str
    backend: str = "auto"
    inputs: dict[str, Any] = Field(default_factory=dict)
    config: dict[str, Any] = Field(default_factory=dict)
    adapters: list[AdapterRef] | None = None

    @classmethod
    def from_dict(cls, payload: Any) -> GenerateRequest:
        """Check `payload`.

        Raises:
            InvalidRequest: not a mapping, a field is missing, or of the wrong type.
            UnknownKey: a field that requests do not have.
        """
        if not isinstance(payload, dict):
            what = "nothing" if payload is None else f"a {type(payload).__name__}"
            raise InvalidRequest(f"A request is a mapping with task and model, not {what}.")
        known = cls.model_fields
        for key in payload:
            if key not in known:
                raise UnknownKey(
                    f"A request has no field {key!r}.",
                    hint=did_you_mean(str(key), known),
                    param=str(key),
                )
        try:
            return cls.model_validate(payload)
        except ValidationError as error:
            raise _as_invalid_request(error) from None

    @classmethod
    def from_file(cls, path: str | Path) -> GenerateRequest:
        """Read a request from a JSON or YAML file.

        Raises:
            InvalidInput: the file cannot be read or parsed.
            InvalidRequest: its content is no request.
        """
        import yaml

        path = Path(path)
        try:
            raw = path.read_text(encoding="utf-8")
            payload = json.loads(raw) if path.suffix.lower() == ".json" else yaml.safe_load(raw)
        except OSError as error:
            raise InvalidInput(f"Cannot read the request file {path}.") from error
        except (ValueError, yaml.YAMLError) as error:
            raise InvalidInput(
                f"{path} is no JSON or YAML.", hint="A request looks like: task: …, model: …"
            ) from error
        return cls.from_dict(payload)


def _as_invalid_request(error: ValidationError) -> InvalidRequest:
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return InvalidRequest(f"The request has no {field}.", param=field)
    if field == "task":
        return InvalidRequest(
            f"Unknown task {first.get('input')!r}.",
            hint=did_you_mean(str(first.get("input")), TASKS),
            param="task",
        )
    return InvalidRequest(f"{field}: {first['msg']}.", param=field)


def _request(
    task: Task, model: str, backend: str, inputs: dict[str, Any], config: dict[str, Any]
) -> GenerateRequest:
    given = {key: value for key, value in inputs.items() if value is not None}
    return GenerateRequest(task=task, model=model, backend=backend, inputs=given, config=config)


def text2image(
    model: str,
    prompt: str,
    *,
    negative_prompt: str | None = None,
    backend: str = "auto",
    **config: Any,
) -> GenerateRequest:
    """Draw a picture from words."""
    inputs = {"prompt": prompt, "negative_prompt": negative_prompt}
    return _request("text2image", model, backend, inputs, config)


def image2image(
    model: str,
    image: str | Path,
    prompt: str,
    *,
    negative_prompt: str | None = None,
    backend: str = "auto",
    **config: Any,
) -> GenerateRequest:
    """Draw a picture again, after words."""
    inputs = {"prompt": prompt, "image": str(image), "negative_prompt": negative_prompt}
    return _request("image2image", model, backend, inputs, config)


def inpaint(
    model: str,
    image: str | Path,
    mask: str | Path,
    prompt: str,
    *,
    negative_prompt: str | None = None,
    backend: str = "auto",
    **config: Any,
) -> GenerateRequest:
    """Draw the white part of `mask` anew."""
    inputs = {
        "prompt": prompt,
        "image": str(image),
        "mask": str(mask),
        "negative_prompt": negative_prompt,
    }
    return _request("inpaint", model, backend, inputs, config)


def edit(
    model: str, image: str | Path, prompt: str, *, backend: str = "auto", **config: Any
) -> GenerateRequest:
    """Change a picture as the words say."""
    return _request("edit", model, backend, {"prompt": prompt, "image": str(image)}, config)


def text2video(
    model: str,
    prompt: str,
    *,
    negative_prompt: str | None = None,
    backend: str = "auto",
    **config: Any,
) -> GenerateRequest:
    """Make a video from words."""
    inputs = {"prompt": prompt, "negative_prompt": negative_prompt}
    return _request("text2video", model, backend, inputs, config)


def image2video(
    model: str,
    image: str | Path,
    *,
    prompt: str | None = None,
    negative_prompt: str | None = None,
    backend: str = "auto",
    **config: Any,
) -> GenerateRequest:
    """Make a video that begins with a picture."""
    inputs = {"image": str(image), "prompt": prompt, "negative_prompt": negative_prompt}
    return _request("image2video", model, backend, inputs, config)


def audio2video(
    model: str,
    image: str | Path,
    audio: str | Path,
    *,
    prompt: str | None = None,
    backend: str = "auto",
    **config: Any,
) -> GenerateRequest:
    """Make the person in a picture say what is heard."""
    inputs = {"image": str(image), "audio": str(audio), "prompt": prompt}
    return _request("audio2video", model, backend, inputs, config)


def text2audio(
    model: str,
    prompt: str,
    *,
    audio: str | Path | None = None,
    reference_text: str | None = None,
    backend: str = "auto",
    **config: Any,
) -> GenerateRequest:
    """Speak `prompt`; `audio` and `reference_text` are a voice to imitate, where a model can."""
    inputs = {
        "prompt": prompt,
        "audio": None if audio is None else str(audio),
        "reference_text": reference_text,
    }
    return _request("text2audio", model, backend, inputs, config)


def audio2text(
    model: str, audio: str | Path, *, backend: str = "auto", **config: Any
) -> GenerateRequest:
    """Write down what is said."""
    return _request("audio2text", model, backend, {"audio": str(audio)}, config)


def embeddings(
    model: str, texts: str | list[str], *, backend: str = "auto", **config: Any
) -> GenerateRequest:
    """Turn texts into vectors."""
    listed = [texts] if isinstance(texts, str) else texts
    return _request("embeddings", model, backend, {"texts": listed}, config)


def classification(
    model: str,
    texts: str | list[str],
    *,
    text_pairs: list[str] | None = None,
    backend: str = "auto",
    **config: Any,
) -> GenerateRequest:
    """Say what each text is, or what stands where in it."""
    inputs = {"texts": [texts] if isinstance(texts, str) else texts, "text_pairs": text_pairs}
    return _request("classification", model, backend, inputs, config)


def reranking(
    model: str, query: str, documents: list[str], *, backend: str = "auto", **config: Any
) -> GenerateRequest:
    """Say how well each document answers a query."""
    inputs = {"query": [query], "texts": documents}
    return _request("reranking", model, backend, inputs, config)


def entailment(
    model: str,
    texts: str | list[str],
    hypotheses: str | list[str],
    *,
    backend: str = "auto",
    **config: Any,
) -> GenerateRequest:
    """Say whether sentences follow from texts."""
    listed = [[one] if isinstance(one, str) else one for one in (texts, hypotheses)]
    inputs = {"texts": listed[0], "hypotheses": listed[1]}
    return _request("entailment", model, backend, inputs, config)


def decisions(
    model: str,
    state: str,
    questions: dict[str, dict[str, Any]],
    *,
    backend: str = "auto",
    **config: Any,
) -> GenerateRequest:
    """Answer typed questions about a text (`jumar.contracts.questions`)."""
    return _request("decisions", model, backend, {"state": state, "questions": questions}, config)
