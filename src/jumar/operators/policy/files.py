"""Policies as they are written: Jumar's YAML, of a platform, a user, or the environment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jumar.contracts.errors import InvalidInput, InvalidValue, UnknownKey, did_you_mean
from jumar.operators.policy.base import KEYS, Key, Layer, Origin, Policy, Rule, Strict
from jumar.operators.policy.conditions import Condition
from jumar.operators.policy.located import line_of, read, text, texts

USER_FILE = "JUMAR_OPERATOR_POLICY"
"""The variable that names the user's file, in place of the one in the user's folder."""

INLINE = "JUMAR_OPERATOR_RULES"
"""The variable whose value is itself a policy: `{strict: true, order: [{providers: [device]}]}`."""

DENY = "JUMAR_OPERATORS_DENY"
"""The variable that lists operators which the device's own kernels must not compute, separated by
commas: what `jumar bisect … -- COMMAND` switches.
"""

TOP = (*KEYS, "strict")
ENTRY = ("operators", "families", "providers", "when", "because", "source")

_PLATFORMS = {"npu": "ascend"}
"""By kind of device: the file that Jumar ships for it."""


def effective(device_kind: str, environ: Mapping[str, str] | None = None) -> Policy:
    """The policy in force for a kind of device: platform < user < environment (rules, then `DENY`).

    `device_kind` is `cpu`, `cuda` or `npu`.

    Raises:
        InvalidInput: a file cannot be read.
        UnknownKey, InvalidValue: a line means nothing; says which.
    """
    environ = os.environ if environ is None else environ
    layers = [read_file(path) for path in (platform_file(device_kind), user_file(environ)) if path]
    if written := environ.get(INLINE):
        layers.append(layer(read(written, INLINE), f"environment {INLINE}"))
    if names := [name.strip() for name in environ.get(DENY, "").split(",") if name.strip()]:
        denied = json.dumps({"deny": [{"operators": names, "providers": ["device"]}]})
        layers.append(layer(read(denied, DENY), f"environment {DENY}"))
    return Policy(tuple(layers))


def platform_file(device_kind: str) -> Path | None:
    """The file that Jumar ships for a kind of device; None where that kind needs none."""
    if device_kind not in _PLATFORMS:
        return None
    return Path(__file__).parent / "policies" / f"{_PLATFORMS[device_kind]}.yaml"


def user_file(environ: Mapping[str, str]) -> Path | None:
    """The file that `JUMAR_OPERATOR_POLICY` names, else the user's own where there is one."""
    if named := environ.get(USER_FILE):
        return Path(named)
    from platformdirs import user_config_path

    own = user_config_path("jumar") / "operators.yaml"
    return own if own.is_file() else None


def read_file(path: Path) -> Layer:
    """A policy file as one layer."""
    return layer(read(path), path.name)


def layer(data: Mapping[str, Any], place: str) -> Layer:
    """The layer of a mapping that `located.read` gave."""
    for key in data:
        _known(key, TOP, place)
    return Layer(
        name=place,
        rules=tuple(
            _rule(key, entry, place) for key in KEYS for entry in _entries(data, key, place)
        ),
        strict=_strict(data, place),
    )


def _entries(data: Mapping[str, Any], key: Key, place: str) -> list[dict[str, Any]]:
    entries = data.get(key) or []
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise InvalidInput(f"{place}: {key} is a list of entries with keys.", param=key)
    return entries


def _rule(key: Key, entry: dict[str, Any], place: str) -> Rule:
    origin = Origin(place, line_of(entry))
    for name in entry:
        _known(name, ENTRY, place)
    providers = texts(entry.get("providers"), origin.line)
    if not providers:
        raise InvalidInput(f"{origin}: no providers.", param="providers")
    if key == "require" and len(providers) > 1:
        raise InvalidValue(f"{origin}: one provider can be required, not several.", param=key)
    return Rule(
        key=key,
        providers=providers,
        operators=texts(entry.get("operators"), origin.line),
        families=texts(entry.get("families"), origin.line),
        when=_when(entry.get("when"), origin),
        because=" ".join(str(entry.get("because") or "").split()),
        sources=texts(entry.get("source"), origin.line),
        origin=origin,
    )


def _when(written: Any, origin: Origin) -> tuple[Condition, ...]:
    if written is None:
        return ()
    if not isinstance(written, dict):
        raise InvalidInput(f"{origin}: when is a mapping of names to what they are.", param="when")
    conditions = tuple(Condition(name, text(value, origin.line)) for name, value in written.items())
    for condition in conditions:
        try:
            condition.check()
        except InvalidValue as error:
            raise InvalidValue(
                f"{origin.place}:{line_of(condition.name, origin.line)}: {error.message}",
                hint=error.hint,
                param="when",
            ) from error.__cause__
    return conditions


def _strict(data: Mapping[str, Any], place: str) -> Strict | None:
    if "strict" not in data:
        return None
    line = next(line_of(key) for key in data if key == "strict")
    if not isinstance(data["strict"], bool):
        raise InvalidValue(f"{place}:{line}: strict is true or false.", param="strict")
    return Strict(data["strict"], Origin(place, line))


def _known(name: str, names: tuple[str, ...], place: str) -> None:
    if name not in names:
        where = Origin(place, line_of(name))
        hint = did_you_mean(str(name), names)
        raise UnknownKey(f"{where}: there is no key {str(name)!r}.", hint=hint, param=str(name))
