"""Which models are served and how, from the words of the command line and a file.

jumar serve all-minilm-l6-v2 --set dtype=bf16 --set compile=off
jumar serve --models models.yaml

models:
  - {model: all-minilm-l6-v2, name: embedder, device: "npu:1", workers: 2, config: {dtype: bf16}}
  - {model: hibari}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jumar import catalog
from jumar.contracts.errors import InvalidInput, InvalidValue, UnknownKey, did_you_mean
from jumar.engine.plan import Plan
from jumar.engine.service import Service

_SERVICE = {
    "workers": "workers",
    "max_queue": "queue",
    "result_cache_entries": "results",
    "require_verified": "require_verified",
    "heartbeat": "heartbeat",
    "load_heartbeat": "load_heartbeat",
}
_BATCHING = {
    "max_batch_size": "most",
    "max_batch_tokens": "budget",
    "batch_window_ms": "window",
}
"""Fields of an entry, and those of a `Service` and its `Batching` that they set."""


@dataclass(frozen=True)
class Served:
    """What is served: models in order, their other names, their plans."""

    names: list[str]
    aliases: dict[str, str] = field(default_factory=dict)
    plans: dict[str, Plan] = field(default_factory=dict)


def read_plans(
    named: Sequence[str], pairs: Sequence[str], file: Path | None, service: Service, device: str
) -> Served:
    """Models named on the line, with `[MODEL:]KEY=VALUE` pairs, and those of a file.

    Raises:
        InvalidInput: the file cannot be read, or is no list of models.
        UnknownModel, UnknownKey, InvalidValue: naming the nearest that there is.
    """
    entries = [] if file is None else [_entry(row, place) for place, row in enumerate(_rows(file))]
    models = [catalog.get(name).id for name in (*named, *(entry["model"] for entry in entries))]
    if doubled := sorted({model for model in models if models.count(model) > 1}):
        raise InvalidValue(f"{doubled[0]} is named twice.", hint="One entry for each model.")
    rows: dict[str, dict[str, Any]] = {model: {} for model in models}
    aliases: dict[str, str] = {}
    for entry in entries:
        model = catalog.get(entry["model"]).id
        rows[model] = entry
        if (name := entry.get("name")) not in (None, model):
            if name in aliases or name in catalog.names():
                raise InvalidValue(f"{name!r} is the name of another model.", param="name")
            aliases[name] = model
    for pair in pairs:
        _add(pair, rows)
    plans = {model: _plan(model, row, service, device) for model, row in rows.items() if row}
    return Served(models, aliases, plans)


def _add(pair: str, rows: dict[str, dict[str, Any]]) -> None:
    """One `[MODEL:]KEY=VALUE` to the models that it is for."""
    left, equals, value = pair.partition("=")
    name, colon, key = left.rpartition(":")
    if not equals or not key:
        raise InvalidValue(f"{pair!r} is not KEY=VALUE.", hint="Or MODEL:KEY=VALUE.", param="set")
    if colon:
        meant = [catalog.get(name).id]
        rows.setdefault(meant[0], {})
    else:
        meant = [model for model in rows if key in _load_keys(model)]
    if not rows:
        raise InvalidValue(f"{pair!r} is for no model.", hint="Name models.", param="set")
    if not meant:
        known = sorted({known for model in rows for known in _load_keys(model)})
        raise UnknownKey(
            f"No model that is served has a load-time key {key!r}.",
            hint=did_you_mean(key, known),
            param="set",
        )
    for model in meant:
        rows[model] = {**rows[model], "config": {**rows[model].get("config", {}), key: value}}


def _load_keys(model: str) -> list[str]:
    manifest = catalog.get(model)
    return [k for k, one in manifest.tasks[manifest.primary_task].config.items() if one.load]


def _plan(model: str, row: dict[str, Any], service: Service, device: str) -> Plan:
    manifest = catalog.get(model)
    known = manifest.tasks[manifest.primary_task].config
    given = {key: _spelt(value, known.get(key)) for key, value in row.get("config", {}).items()}
    where = row.get("device") or device
    loaded = catalog.resolve_load(manifest, manifest.primary_task, where, given)
    config = {key: loaded.config[key] for key in given}
    own = {name: row[key] for key, name in _SERVICE.items() if key in row}
    batching = {name: row[key] for key, name in _BATCHING.items() if key in row}
    if "most" in batching:
        batching["pictures"] = None
    if "window" in batching:
        batching["window"] /= 1e3
    if own or batching:
        service = replace(service, **own, batching=replace(service.batching, **batching))
    return Plan(config, row.get("device"), service if own or batching else None)


def _spelt(value: Any, param: Any) -> Any:
    """YAML 1.1 reads `off` as false."""
    if isinstance(value, bool) and param is not None and {"on", "off"} & set(param.choices or ()):
        return "on" if value else "off"
    return value


def _entry(row: Any, place: int) -> dict[str, Any]:
    """One entry, its fields and their types looked at."""
    row = {"model": row} if isinstance(row, str) else row
    where = f"models.{place}"
    if not isinstance(row, dict) or not isinstance(row.get("model"), str):
        raise InvalidInput(f"{where} names no model.", hint="- {model: NAME, …}", param=where)
    for key, value in row.items():
        if key not in _WANTED:
            raise UnknownKey(
                f"{where} ({row['model']}) has no field {key!r}.",
                hint=did_you_mean(str(key), _WANTED),
                param=f"{where}.{key}",
            )
        fits, wanted = _WANTED[key]
        if not fits(value):
            raise InvalidValue(
                f"{where} ({row['model']}): {key} is {value!r}.",
                hint=wanted,
                param=f"{where}.{key}",
            )
    return row


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _word(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _truth(value: Any) -> bool:
    return isinstance(value, bool)


def _mapping(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


_A_WORD = (_word, "It is a word.")
_A_COUNT = (_count, "It is a whole number above 0.")
_A_TIME = (_seconds, "It is a number above 0.")
_WANTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "model": _A_WORD,
    "name": _A_WORD,
    "device": _A_WORD,
    "config": (_mapping, "It has load-time keys and their values."),
    "workers": _A_COUNT,
    "max_queue": _A_COUNT,
    "result_cache_entries": (lambda value: value == 0 or _count(value), "It is a whole number."),
    "max_batch_size": _A_COUNT,
    "max_batch_tokens": _A_COUNT,
    "batch_window_ms": (lambda value: value == 0 or _seconds(value), "It is a number."),
    "require_verified": (_truth, "It is true or false."),
    "heartbeat": _A_TIME,
    "load_heartbeat": _A_TIME,
}
"""What an entry of the file may have: each but the first four is the option of that name."""


def _rows(file: Path) -> list[Any]:
    import yaml

    try:
        found: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidInput(f"Cannot read the models in {file}.") from error
    found = found.get("models") if isinstance(found, dict) and len(found) == 1 else found
    if not isinstance(found, list) or not found:
        raise InvalidInput(f"{file} is no list of models.", hint="models: [{model: NAME}, …]")
    return found
