"""A catalogue as a JSON file, so that names can be looked up where the libraries are not.

    {"format": 1, "made_by": "jumar 0.1.0", "source": "…", "versions": {"torch_npu": "2.13.0"},
     "operators": {"aten::add.Tensor": {"keys": "CPU PrivateUse1", "schema": "…"}, …},
     "implementations": [{"provider": "flag_gems", "key": "PrivateUse1", "origin": "…",
                          "functions": {"add": ["aten::add.Tensor"]}}, …],
     "unused": {"flag_gems": {"ascend": ["copy_", …]}},
     "reentries": {"aten::linear": {"run": ["aten::addmm", …]}}}

A file whose name ends in `.gz` is compressed.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jumar import __version__
from jumar.contracts.errors import InvalidInput, OutputFailed, did_you_mean
from jumar.operators.catalogue.base import (
    Catalogue,
    Implementation,
    KnownBy,
    Operator,
    Reentry,
    merged,
)

FORMAT = 1
SHIPPED = Path(__file__).parent / "recorded"
CALLS = Path(__file__).parent / "calls"
"""Records of what torch's operators call, and of nothing else: no catalogues of their own."""

HERE = "live"
GZIP = b"\x1f\x8b"


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Operator(_Shape):
    keys: str = ""
    schema_: str = Field("", alias="schema")
    family: str | None = None
    """None where it is the base name."""


class _Group(_Shape):
    """Implementations that differ in operator and function only: operators by function."""

    provider: str
    key: str
    origin: str
    condition: str = ""
    functions: dict[str, list[str]]


class _File(_Shape):
    format: int
    made_by: str
    source: str
    versions: dict[str, str]
    operators: dict[str, _Operator]
    implementations: list[_Group] = []
    unused: dict[str, dict[str, list[str]]] = {}
    reentries: dict[str, dict[KnownBy, list[str]] | None] = {}


def write(catalogue: Catalogue, path: str | Path, *, source: str = "this process") -> Path:
    """Write a catalogue to a file; `source` says in a few words where it was read.

    Raises:
        OutputFailed: the file cannot be written.
    """
    path = Path(path)
    text = "".join(_lines(_plain(catalogue, source))).encode()
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
        fresh.replace(path)
    except OSError as error:
        raise OutputFailed(f"The catalogue cannot be written to {path}: {error}") from error
    return path


def read(path: str | Path) -> Catalogue:
    """A recorded catalogue.

    Raises:
        InvalidInput: the file is not one, or of a format that this version does not know.
    """
    try:
        data = Path(path).read_bytes()
        plain = json.loads(gzip.decompress(data) if data[:2] == GZIP else data)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise _unreadable(path, error) from error
    known = plain.get("format") if isinstance(plain, dict) else None
    if known != FORMAT:
        raise InvalidInput(
            f"{path} is of format {known!r}; this version of Jumar reads {FORMAT}.",
            hint="Record it anew with `jumar operators record`.",
            param="catalogue",
        )
    try:
        return _catalogue(_File.model_validate(plain))
    except ValidationError as error:
        raise _unreadable(path, _first(error)) from error


def _unreadable(path: str | Path, why: object) -> InvalidInput:
    return InvalidInput(f"{path} is no recorded catalogue: {why}", param="catalogue")


def _first(invalid: ValidationError) -> str:
    found = invalid.errors(include_url=False)[0]
    return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"


def shipped() -> dict[str, Path]:
    """The recorded catalogues that come with Jumar, by name: `torch_npu-2.13.0`."""
    return {path.name.partition(".json")[0]: path for path in sorted(SHIPPED.glob("*.json*"))}


def opened(names: Iterable[str] = ()) -> Catalogue:
    """The catalogue that a command line means: files, shipped names, `live`; joined. None: `live`.

    Raises:
        InvalidInput: a name is neither, or two are of different versions of one library.
        DependencyMissing: `live` needs torch.
    """
    return merged([*map(_opened, names)]) if (names := tuple(names)) else _opened(HERE)


def _opened(name: str) -> Catalogue:
    if name == HERE:
        from jumar.operators.catalogue.sources import live

        return live()
    known = shipped()
    path = known.get(name, Path(name))
    if not path.is_file():
        raise InvalidInput(
            f"There is no catalogue {name!r}.",
            hint=did_you_mean(name, [HERE, *known]),
            param="catalogue",
        )
    return read(path)


def _plain(catalogue: Catalogue, source: str) -> dict[str, Any]:
    groups: dict[tuple[str, str, str, str], dict[str, list[str]]] = {}
    for one in catalogue.implementations:
        head = (one.provider, one.key, one.origin, one.condition)
        groups.setdefault(head, {}).setdefault(one.function, []).append(one.operator)
    names = ("provider", "key", "origin", "condition")
    return {
        "format": FORMAT,
        "made_by": f"jumar {__version__}",
        "source": source,
        "versions": dict(catalogue.versions),
        "operators": {name: _said(one) for name, one in catalogue.operators.items()},
        "implementations": [
            {**dict(zip(names, head, strict=True)), "functions": functions}
            for head, functions in groups.items()
        ],
        "unused": {
            who: {v: list(n) for v, n in by.items()} for who, by in catalogue.unused.items()
        },
        "reentries": {name: _calls(found) for name, found in catalogue.reentries.items()},
    }


def _said(operator: Operator) -> dict[str, str]:
    row = {"keys": " ".join(operator.keys), "schema": operator.schema}
    if operator.family != operator.base:
        row["family"] = operator.family
    return {name: text for name, text in row.items() if text}


def _calls(reentries: Iterable[Reentry] | None) -> dict[str, list[str]] | None:
    if reentries is None:
        return None
    calls: dict[str, list[str]] = {}
    for one in reentries:
        calls.setdefault(one.known_by, []).append(one.operator)
    return calls


def _lines(plain: dict[str, Any]) -> Iterator[str]:
    """JSON with one operator per line, so that two records can be compared by eye."""
    yield "{"
    for number, (name, value) in enumerate(plain.items()):
        yield f"{',' if number else ''}\n{json.dumps(name)}: "
        if not isinstance(value, (dict, list)):
            yield json.dumps(value)
            continue
        rows = (
            [json.dumps(row) for row in value]
            if isinstance(value, list)
            else [f"{json.dumps(key)}: {json.dumps(row)}" for key, row in value.items()]
        )
        opening, closing = "[]" if isinstance(value, list) else "{}"
        yield opening + ",".join(f"\n {row}" for row in rows) + closing
    yield "\n}\n"


def _catalogue(file: _File) -> Catalogue:
    operators = {
        name: Operator(name, row.family or _base(name), tuple(row.keys.split()), row.schema_)
        for name, row in file.operators.items()
    }
    implementations = [
        Implementation(operator, group.provider, function, group.key, group.origin, group.condition)
        for group in file.implementations
        for function, names in group.functions.items()
        for operator in names
    ]
    reentries = {name: _reentries(calls) for name, calls in file.reentries.items()}
    unused = {who: {v: tuple(n) for v, n in by.items()} for who, by in file.unused.items()}
    return merged([Catalogue(file.versions, operators, tuple(implementations), unused, reentries)])


def _reentries(calls: dict[KnownBy, list[str]] | None) -> tuple[Reentry, ...] | None:
    if calls is None:
        return None
    return tuple(Reentry(called, by) for by, names in calls.items() for called in names)


def _base(name: str) -> str:
    return Operator(name, "").base
