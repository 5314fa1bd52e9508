"""Golden sets on disk: a YAML file to review, and a safetensors file of numbers per reference.

goldens/all-minilm-l6-v2/
  golden.yaml              requests, relations, answers in words, what was recorded where
  cpu-fp32.safetensors     `short/vector.0` …
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from jumar.contracts.errors import InvalidInput, OutputFailed, UnknownKey, did_you_mean
from jumar.lab.golden.base import Answers, Golden, Key, Reference, Request
from jumar.parity.answers import Answer

NAME = "golden.yaml"
FORMAT = 1


def read(folder: str | Path) -> Golden:
    """The golden set of a folder.

    Raises:
        InvalidInput: there is none, or a file is damaged or not what the YAML says it is.
    """
    import yaml

    path = Path(folder) / NAME
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
        if raw["format"] != FORMAT:
            raise InvalidInput(f"{path} has format {raw['format']!r}; this Jumar reads {FORMAT}.")
        return Golden(
            model=raw["model"],
            digest=raw["digest"],
            task=raw["task"],
            requests=tuple(_request(one, path.parent) for one in raw["requests"]),
            references=tuple(_reference(one, path.parent) for one in raw.get("references", ())),
        )
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"{path} is no golden set: {type(error).__name__}: {error}") from error


def write(golden: Golden, folder: str | Path) -> Path:
    """Write a set, each file whole or not at all; gives the path of the YAML."""
    import yaml

    home = Path(folder)
    try:
        home.mkdir(parents=True, exist_ok=True)
        references = [_written(one, home) for one in golden.references]
        text = yaml.safe_dump(
            {
                "format": FORMAT,
                "model": golden.model,
                "digest": golden.digest,
                "task": golden.task,
                "requests": [_plain(one, home) for one in golden.requests],
                "references": references,
            },
            sort_keys=False,
            allow_unicode=True,
            width=100,
        )
        _replace(home / NAME, text.encode())
    except OSError as error:
        raise OutputFailed(f"The golden set cannot be written to {home}: {error}") from error
    return home / NAME


def read_requests(path: str | Path) -> tuple[Request, ...]:
    """Requests that somebody wrote: a YAML list of name, inputs, and what else a `Request` has.

    `file:NAME` is a file beside it.

    Raises:
        InvalidInput: the file cannot be read, holds no requests, or two of one name.
        UnknownKey: a request has a key that means nothing.
    """
    import yaml

    file = Path(path)
    hint = "A YAML list: - {name: short, inputs: {texts: [a]}, covers: [short]}"
    try:
        raw = yaml.safe_load(file.read_text(encoding="utf-8"))
        found = tuple(_request(one, file.parent) for one in raw)
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"{file} holds no requests: {type(error).__name__}: {error}"
        raise InvalidInput(message, hint=hint, param="requests") from error
    if not found:
        raise InvalidInput(f"{file} holds no requests.", hint=hint, param="requests")
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(f"{file} has two requests named {name!r}.", param="requests")
    return found


def _request(raw: Mapping[str, Any], home: Path) -> Request:
    known = [field.name for field in fields(Request)]
    for key in raw.keys():  # noqa: SIM118  (what is no mapping is refused)
        if key not in known:
            hint = did_you_mean(str(key), known)
            raise UnknownKey(f"A golden request has no key {key!r}.", hint=hint, param=str(key))
    inputs = {
        key: str(home.resolve() / value.removeprefix("file:")) if _is_file(value) else value
        for key, value in raw["inputs"].items()
    }
    return Request(
        raw["name"],
        inputs,
        raw.get("config", {}),
        tuple(raw.get("covers", ())),
        raw.get("same_as", {}),
    )


def _is_file(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("file:")


def _plain(request: Request, home: Path) -> dict[str, Any]:
    """The request for YAML. Files that it names come along, so that the folder can be moved."""
    inputs = {}
    for key, value in request.inputs.items():
        named = Path(value) if isinstance(value, str) and value.startswith("/") else None
        if named is not None and named.is_file():
            if named.parent != home.resolve():
                shutil.copyfile(named, home / named.name)
            inputs[key] = f"file:{named.name}"
        else:
            inputs[key] = value
    raw = {
        "name": request.name,
        "covers": list(request.covers),
        "inputs": inputs,
        "config": dict(request.config),
        "same_as": dict(request.same_as),
    }
    return {key: value for key, value in raw.items() if value or key == "inputs"}


def _reference(raw: Mapping[str, Any], home: Path) -> Reference:
    from safetensors.numpy import load

    answers: dict[str, dict[str, Answer]] = {}
    if "numbers" in raw:
        stored = (home / raw["numbers"]).read_bytes()
        if hashlib.sha256(stored).hexdigest() != raw["sha256"]:
            raise InvalidInput(f"{home / raw['numbers']} is not the file that was recorded.")
        tensors = load(stored)
    for path, told in raw["answers"].items():
        request, _, name = path.partition("/")
        value = told["words"] if "words" in told else tensors[path]
        answers.setdefault(request, {})[name] = Answer(told["quantity"], value, told.get("margin"))
    return Reference(Key(**raw["key"]), raw["made_on"], answers, raw["anchor"])


def _written(reference: Reference, home: Path) -> dict[str, Any]:
    import numpy as np
    from safetensors.numpy import save

    told, tensors = {}, {}
    for path, answer in _flat(reference.answers):
        entry: dict[str, Any] = {"quantity": answer.quantity}
        if answer.margin is not None:
            entry["margin"] = answer.margin
        if answer.is_text:
            entry["words"] = answer.value
        else:
            tensors[path] = np.ascontiguousarray(answer.value)
        told[path] = entry
    key = reference.key
    raw: dict[str, Any] = {
        "key": {"device_class": key.device_class, "dtype": key.dtype, "chip": key.chip},
        "anchor": reference.anchor,
        "made_on": dict(reference.made_on),
    }
    if tensors:
        stored = save(tensors)
        name = re.sub(r"[^\w.-]+", "-", f"{key.device_class}-{key.dtype}")
        if key.device_class != "cpu" and key.chip:
            name += "-" + re.sub(r"[^\w.-]+", "-", key.chip).strip("-")
        _replace(home / f"{name}.safetensors", stored)
        raw |= {"numbers": f"{name}.safetensors", "sha256": hashlib.sha256(stored).hexdigest()}
    return {**raw, "answers": told}


def _flat(answers: Mapping[str, Answers]) -> list[tuple[str, Answer]]:
    return [
        (f"{request}/{name}", answer)
        for request, told in answers.items()
        for name, answer in told.items()
    ]


def _replace(path: Path, content: bytes) -> None:
    fresh = path.with_name(f".{path.name}.part")
    fresh.write_bytes(content)
    fresh.replace(path)
