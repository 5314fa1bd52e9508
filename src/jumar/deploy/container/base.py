"""The parts of a plan, each with its reason, and the rows of ``needs.yaml``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

Kind = Literal["file", "directory"]


@dataclass(frozen=True, kw_only=True)
class DeviceNeed:
    """A device node that a product needs besides its cards."""

    path: str
    why: str
    products: tuple[str, ...] = ()
    needed: bool = False


@dataclass(frozen=True, kw_only=True)
class MountNeed:
    """A file or folder of the host that a product needs; `path` may end in ``*``."""

    path: str
    kind: Kind
    why: str
    target: str | None = None
    products: tuple[str, ...] = ()
    needed: bool = False
    write: bool = False
    cann: Literal["host", "image"] | None = None
    """For images with CANN ("image") or without ("host") only."""


@dataclass(frozen=True, kw_only=True)
class ShmNeed:
    """The size of ``/dev/shm``."""

    size: str
    why: str
    products: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Needs:
    """All rows; `of` picks those of a product line."""

    devices: tuple[DeviceNeed, ...]
    mounts: tuple[MountNeed, ...]
    shm: tuple[ShmNeed, ...]
    resources: dict[str, str]

    def of(self, line: str) -> Needs:
        """The rows that hold for one product line."""
        return self._only(lambda products: not products or line in products)

    @property
    def common(self) -> Needs:
        """The rows that hold for more than one product line."""
        return self._only(lambda products: len(products) != 1)

    def _only(self, holds: Callable[[tuple[str, ...]], bool]) -> Needs:
        return Needs(
            devices=tuple(need for need in self.devices if holds(need.products)),
            mounts=tuple(need for need in self.mounts if holds(need.products)),
            shm=tuple(need for need in self.shm if holds(need.products)),
            resources=self.resources,
        )


@cache
def needs() -> Needs:
    """``needs.yaml``; an unknown key in a row is a TypeError."""
    import yaml

    text = (Path(__file__).parent / "needs.yaml").read_text(encoding="utf-8")
    data: dict[str, Any] = yaml.safe_load(text)

    def rows(kind: type, name: str) -> tuple[Any, ...]:
        return tuple(
            kind(**{**row, "products": tuple(row.get("products", ()))}) for row in data[name]
        )

    return Needs(
        devices=rows(DeviceNeed, "devices"),
        mounts=rows(MountNeed, "mounts"),
        shm=rows(ShmNeed, "shm"),
        resources=data["resources"],
    )


@dataclass(frozen=True)
class Device:
    """A node to hand over."""

    path: str
    why: str


@dataclass(frozen=True)
class Mount:
    """A bind mount whose source exists and is of this kind."""

    source: str
    target: str
    kind: Kind
    write: bool
    why: str


@dataclass(frozen=True)
class Option:
    """An option of the container: "privileged", "shm-size", "net", "user", "group-add", …"""

    name: str
    value: str | None
    why: str


@dataclass(frozen=True)
class Variable:
    """An environment variable of the container."""

    name: str
    value: str
    why: str


@dataclass(frozen=True)
class Step:
    """A command to run inside, after the start."""

    run: str
    why: str


@dataclass(frozen=True)
class LeftOut:
    """Something that the product needs or likes, and why the plan does not have it."""

    path: str
    why: str
    needed: bool


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How to start one container on one host."""

    image: str
    line: str
    cards: tuple[int, ...]
    """The numbers of the chosen card nodes."""
    devices: tuple[Device, ...]
    mounts: tuple[Mount, ...]
    options: tuple[Option, ...]
    environment: tuple[Variable, ...]
    steps: tuple[Step, ...]
    command: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[LeftOut, ...]:
        """What was left out and without which nothing starts."""
        return tuple(one for one in self.left_out if one.needed)

    def option(self, name: str) -> Option | None:
        """The option of this name."""
        return next((one for one in self.options if one.name == name), None)
