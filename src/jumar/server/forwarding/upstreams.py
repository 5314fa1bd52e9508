"""Which models other servers run: names, addresses and keys, all of them the operator's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jumar import catalog
from jumar.catalog.manifest import ENVIRONMENT
from jumar.contracts.errors import InvalidInput, InvalidValue, UnknownKey, did_you_mean
from jumar.runtime.families.remote.service import Service, address

SPEECH = "vllm-omni-speech"
"""The model of the catalog that stands for a service, whatever voice that has."""

_ROW = ("url", "model", "api_key_env", "silence_s")


@dataclass(frozen=True)
class Upstream:
    """A model elsewhere; `model` is its name there, where that is not the one callers use."""

    service: Service
    model: str | None = None


@dataclass(frozen=True)
class Upstreams:
    """Models by the names that callers use; `speech` speaks under every name unknown here."""

    named: Mapping[str, Upstream] = field(default_factory=dict)
    speech: Upstream | None = None

    def __iter__(self) -> Iterator[Upstream]:
        yield from self.named.values()
        if self.speech is not None:
            yield self.speech

    def __bool__(self) -> bool:
        return any(True for _ in self)


def read_upstreams(
    pairs: Sequence[str] = (), file: Path | None = None, speech_url: str | None = None
) -> Upstreams:
    """Upstreams from `NAME=URL`, and from a YAML file that maps names to URLs or to rows.

    A row has `url`, and may have `model` (its name there), `api_key_env` (the variable that holds
    its key) and `silence_s`. Where `speech_url` is None the environment is asked for it.

    Raises:
        InvalidInput: the file cannot be read, or is no such mapping.
        InvalidValue: an address that is none, a name without one, or a name of Jumar's own.
        UnknownKey: a row with another key.
    """
    rows: dict[str, Any] = {} if file is None else _rows(file)
    for pair in pairs:
        name, _, url = pair.partition("=")
        if not name or not url:
            raise InvalidValue(f"{pair!r} is not NAME=URL.", param="upstream")
        rows[name] = url
    for name in rows:
        if name in catalog.names():
            raise InvalidValue(f"{name!r} is a model of Jumar's own.", param="upstream")
    named = {name: _upstream(name, row) for name, row in rows.items()}
    return Upstreams(named, _speech(speech_url or _variable("VLLM_OMNI_SPEECH_URL")))


def _rows(file: Path) -> dict[str, Any]:
    import yaml

    try:
        found: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidInput(f"Cannot read the upstreams in {file}.") from error
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise InvalidInput(f"{file} is no list of upstreams.", hint="One a line: name: URL")
    return found


def _upstream(name: str, row: Any) -> Upstream:
    row = {"url": row} if isinstance(row, str) else row
    if not isinstance(row, dict) or not isinstance(row.get("url"), str):
        raise InvalidInput(f"The upstream {name!r} has no url.")
    for key in row:
        if key not in _ROW:
            raise UnknownKey(
                f"The upstream {name!r} has an unknown key {key!r}.",
                hint=did_you_mean(str(key), _ROW),
            )
    variable = row.get("api_key_env")
    key = None if variable is None else os.environ.get(variable)
    if variable is not None and not key:
        raise InvalidInput(f"{variable} holds no key for the upstream {name!r}.")
    service = Service(
        address(row["url"], param="upstream"),
        key,
        _silence(name, row.get("silence_s", Service.silence_s)),
        name=f"The upstream {name!r}",
    )
    return Upstream(service, row.get("model"))


def _silence(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise InvalidValue(f"silence_s of the upstream {name!r} is no number of seconds.")
    return float(value)


def _speech(url: str | None) -> Upstream | None:
    if url is None:
        return None
    key = _variable("VLLM_OMNI_API_KEY")
    return Upstream(Service(address(url, param="speech-url"), key, name="The speech service"))


def _variable(name: str) -> str | None:
    """The first of the variables that end in `name` which is set to something."""
    return next((value for prefix in ENVIRONMENT if (value := os.environ.get(prefix + name))), None)
