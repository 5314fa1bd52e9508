"""What the first artifact of a request will be called."""

from __future__ import annotations

from pathlib import Path

from jumar import catalog
from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.requests import GenerateRequest

_FORMATS = {"text": ".txt", "jpeg": ".jpg"}
_TASKS = {
    "text2image": ".png",
    "image2image": ".png",
    "inpaint": ".png",
    "edit": ".png",
    "text2video": ".mp4",
    "image2video": ".mp4",
    "audio2video": ".mp4",
    "text2audio": ".wav",
    "audio2text": ".txt",
    "text2text": ".txt",
    "embeddings": ".npy",
    "classification": ".json",
    "reranking": ".json",
    "entailment": ".json",
    "decisions": ".json",
}


def suffix_of(resolved: ResolvedRequest) -> str:
    """The suffix by `response_format` where the model has that key, else by the task."""
    wanted = resolved.config.get("response_format")
    return _suffix(wanted) if wanted else _TASKS[resolved.task]


def fit_to_name(request: GenerateRequest, out: str | Path | None) -> GenerateRequest:
    """Let `--out song.mp3` mean `response_format: mp3`, where the caller named no format."""
    task = catalog.get(request.model).tasks.get(request.task)
    suffix = "" if out is None else (out if isinstance(out, Path) else Path(out)).suffix
    if not suffix or task is None or "response_format" in request.config:
        return request
    formats = task.config.get("response_format")
    for name in formats.choices if formats else ():
        if _suffix(name) == suffix:
            return request.model_copy(
                update={"config": {**request.config, "response_format": name}}
            )
    return request


def _suffix(name: str) -> str:
    return _FORMATS.get(name, f".{name}")
