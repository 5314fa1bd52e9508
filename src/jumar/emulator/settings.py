"""`JUMAR_EMULATE_NPU`: how many NPUs, and of what kind.

8                                     eight 910B1 of 64 GiB
8,chip=310P3,memory=24GiB             without bfloat16
2,profile=2.1,graph=fail,noise=off
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from jumar.contracts.errors import InvalidValue, UnknownKey, did_you_mean
from jumar.emulator.chips import CHIPS, Chip, find_chip
from jumar.host.visibility import read_visibility

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

VARIABLE = "JUMAR_EMULATE_NPU"
LIMIT = 64
"""Cards of one machine; torch's device index has eight bits."""

Profile = Literal["2.13", "2.1"]
UNITS = {"": 1, "MB": 10**6, "GB": 10**9, "MiB": 1 << 20, "GiB": 1 << 30}


@dataclass(frozen=True, slots=True)
class Settings:
    """What is emulated. `memory` in bytes per card; `visible` the logical ids this process sees."""

    count: int
    chip: Chip = CHIPS["Ascend910B1"]
    memory: int = CHIPS["Ascend910B1"].memory
    profile: Profile = "2.13"
    graph: bool = True
    """Whether graph capture and compilation work where no fault says otherwise."""
    noise: Literal["on", "off", "repeatable"] = "on"
    seed: int = 0
    core: Literal["auto", "compiled", "python"] = "auto"
    """`auto`: compiled where there is a compiler."""
    visible: tuple[int, ...] = ()

    @property
    def device_name(self) -> str:
        """What `torch.npu.get_device_name` answers."""
        return f"{self.chip.name} (emulated)"


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Read the variable; `ASCEND_RT_VISIBLE_DEVICES` narrows the cards as CANN would.

    Raises:
        InvalidValue: a value that is not valid, with what is.
        UnknownKey: a setting that does not exist.
    """
    head, *rest = environ.get(VARIABLE, "").split(",")
    settings = Settings(_count(head.strip()))
    given = dict(_pair(part) for part in rest)
    read: dict[str, Any] = {key: KEYS[key](text) for key, text in given.items()}
    settings = replace(settings, **read)
    if "memory" not in given:
        settings = replace(settings, memory=settings.chip.memory)
    every = range(settings.count)
    seen = read_visibility(environ, every).ids
    return replace(settings, visible=tuple(every) if seen is None else seen)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= LIMIT:
        raise InvalidValue(
            f"{VARIABLE} begins with {text!r}, which is no number of cards.",
            hint=f"A number from 1 to {LIMIT}, then settings: {VARIABLE}=8,chip=310P3,memory=24GiB",
            param=VARIABLE,
        )
    return int(text)


def _pair(part: str) -> tuple[str, str]:
    key, equals, text = part.strip().partition("=")
    if not equals:
        raise InvalidValue(
            f"{VARIABLE}: {part.strip()!r} is no setting.",
            hint=f"Settings are written key=value; keys: {', '.join(KEYS)}.",
            param=VARIABLE,
        )
    if key not in KEYS:
        raise UnknownKey(
            f"{VARIABLE} has no setting {key!r}.", hint=did_you_mean(key, KEYS), param=VARIABLE
        )
    return key, text


def _memory(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text)
    if found is None or found[2] not in UNITS:
        raise InvalidValue(
            f"{VARIABLE}: memory={text} is no size.",
            hint=f"A number and one of {', '.join(filter(None, UNITS))}: memory=24GiB",
            param=VARIABLE,
        )
    size = int(float(found[1]) * UNITS[found[2]])
    if size < 1 << 20:
        raise InvalidValue(
            f"{VARIABLE}: memory={text} is less than 1 MiB.", hint="memory=24GiB", param=VARIABLE
        )
    return size


def _seed(text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text):
        raise InvalidValue(
            f"{VARIABLE}: seed={text} is no whole number.", hint="seed=7", param=VARIABLE
        )
    return int(text)


def _choice(key: str, *names: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in names:
            raise InvalidValue(
                f"{VARIABLE}: {key}={text} is not valid.",
                hint=did_you_mean(text, names),
                param=VARIABLE,
            )
        return text

    return read


def _graph(text: str) -> bool:
    return _choice("graph", "ok", "fail")(text) == "ok"


KEYS: dict[str, Callable[[str], object]] = {
    "chip": find_chip,
    "memory": _memory,
    "profile": _choice("profile", "2.13", "2.1"),
    "graph": _graph,
    "noise": _choice("noise", "on", "off", "repeatable"),
    "seed": _seed,
    "core": _choice("core", "auto", "compiled", "python"),
}
