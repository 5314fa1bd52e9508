"""The shape of a record's ``host.json`` and ``paths.json``, which people also write by hand.

Every field may be missing; a name that is none of these is refused, because a misspelt one would be
passed over without a word.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    StringConstraints,
    ValidationError,
)

from jumar.contracts.errors import InvalidInput, did_you_mean
from jumar.host.facts import Holder, PathKind, Port

FORMAT = 1

AbsolutePath = Annotated[str, StringConstraints(pattern="^(/|(/[^/]+)+)$")]
Mode = Annotated[str, StringConstraints(pattern="^[0-7]{1,5}$")]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Entry(_Shape):
    """One path: what stands there, or what a link says."""

    kind: PathKind | None = None
    mode: Mode | None = None
    uid: int | None = None
    gid: int | None = None
    owner: str | None = None
    group: str | None = None
    link: str | None = None


def _entry(value: object) -> object:
    return {"kind": value} if isinstance(value, str) else value


class Paths(RootModel[dict[AbsolutePath, Annotated[Entry, BeforeValidator(_entry)]]]):
    """``paths.json``; a text alone is a kind."""


class Process(_Shape):
    """What only the process knew (`source.PROCESS_KEYS`)."""

    uid: int | None = None
    gid: int | None = None
    user: str | None = None
    groups: list[int] | None = None
    group_names: list[str] | None = None
    home: str | None = None
    cwd: str | None = None
    cwd_writable: bool | None = None
    host_name: str | None = None
    kernel: str | None = None
    arch: str | None = None
    glibc: str | None = None
    locale: str | None = None
    cpu_count: int | None = None
    cpu_usable: int | None = None
    python_version: str | None = None
    python_executable: str | None = None
    packages: dict[str, tuple[str, str]] | None = None
    """By name: version and folder."""


class Host(_Shape):
    """``host.json``."""

    format: int = FORMAT
    made_by: str | None = None
    complete: bool = False
    process: Process | None = None
    environ: dict[str, str] | None = None
    disks: dict[str, tuple[int, int]] | None = None
    """By path: total and free MB."""
    holders: dict[str, list[Holder]] | None = None
    listeners: list[Port] | None = None
    exit_codes: dict[str, int] = Field(default_factory=dict)
    missing_programs: list[str] = Field(default_factory=list)
    failures: dict[str, str] = Field(default_factory=dict)


Part = TypeVar("Part", bound=BaseModel)
NAMES = (*Host.model_fields, *Process.model_fields, *Entry.model_fields)


def read_part(where: str, part: type[Part], text: str) -> Part:
    """The checked content of one file; raises InvalidInput that names the first thing wrong."""
    try:
        return part.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"])
        unknown = first["type"] == "extra_forbidden"
        raise InvalidInput(
            f"{where}: {f'{place}: ' if place else ''}{first['msg']}",
            hint=did_you_mean(str(first["loc"][-1]), NAMES) if unknown else None,
            param="host",
        ) from error
