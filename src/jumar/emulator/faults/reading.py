"""`JUMAR_EMULATE_FAULTS`: a YAML file, or the same written into the variable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.contracts.errors import InvalidValue
from jumar.emulator.faults.rule import Rule, make_rule

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "JUMAR_EMULATE_FAULTS"
EXAMPLE = "[{op: mm, kind: raise, text: coreDim}]"


def read_faults(environ: Mapping[str, str]) -> list[Rule]:
    """The faults that the environment orders; none where the variable is not set or empty.

    Raises:
        InvalidValue: no such file, no YAML, or a fault that is not valid.
        UnknownKey: a key that faults do not have.
    """
    value = environ.get(VARIABLE, "").strip()
    if not value:
        return []
    listed = _listed(_load(value))
    return [make_rule(one) for one in listed]


def _load(value: str) -> Any:
    import yaml

    inline = value[0] in "[{" or value.startswith("faults:") or "\n" in value
    try:
        text = value if inline else Path(value).read_text(encoding="utf-8")
        return yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        what = "is no YAML" if inline else f"{value!r} cannot be read"
        raise InvalidValue(
            f"{VARIABLE}: {what}: {error}.",
            hint=f"A file, or inline: {VARIABLE}='{EXAMPLE}'",
            param=VARIABLE,
        ) from error


def _listed(loaded: Any) -> list[Any]:
    if isinstance(loaded, dict) and set(loaded) == {"faults"}:
        loaded = loaded["faults"]
    if isinstance(loaded, dict):
        loaded = [loaded]
    if not isinstance(loaded, list) or not all(isinstance(one, dict) for one in loaded):
        raise InvalidValue(
            f"{VARIABLE} holds no list of faults.", hint=f"Like {EXAMPLE}", param=VARIABLE
        )
    return loaded
