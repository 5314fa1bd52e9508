"""One fault: which calls it meets, and what it does to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from jumar.contracts.errors import InvalidValue, UnknownKey, did_you_mean

KINDS = {
    "raise": "the operator raises `text`",
    "deferred": "`text` is raised by the next thing that waits for the device",
    "oom": "torch.OutOfMemoryError, as if `bytes` did not fit",
    "abort": "the process ends by SIGABRT",
    "hang": "the operator never comes back (or after `seconds`)",
    "delay": "the operator takes `seconds` longer",
    "wrong": "the answer is wrong, the same way each time (`how`)",
    "nondeterministic": "some elements of the answer are wrong, others each time",
    "leak": "`bytes` of device memory stay taken",
    "compile": "compiling or capturing a graph that has the operator fails with `text`",
}
HOW = ("scale", "nan", "zero", "lanes")
DEFAULT_TEXT = {"raise": "aicore", "deferred": "aicore", "compile": "unsupported-by-ge"}


@dataclass(frozen=True, slots=True)
class Bound:
    """Whole numbers from `low` to `high`, both included; None: no limit."""

    low: int | None = None
    high: int | None = None

    def __contains__(self, number: int) -> bool:
        above = self.low is None or number >= self.low
        return above and (self.high is None or number <= self.high)


def bound(value: object, param: str) -> Bound:
    """Read `3`, `*`, `>=3`, `<=3` or `2-4`.

    Raises:
        InvalidValue: anything else.
    """
    text = str(value).replace(" ", "")
    if text == "*":
        return Bound()
    found = re.fullmatch(r"(>=|<=)?(\d+)|(\d+)-(\d+)", text)
    if found is None:
        raise InvalidValue(
            f"A fault's {param} is {value!r}.", hint="Valid: 3, >=3, <=3, 2-4, *.", param=param
        )
    if found[3]:
        return Bound(int(found[3]), int(found[4]))
    number = int(found[2])
    return Bound(None if found[1] == "<=" else number, None if found[1] == ">=" else number)


@dataclass(frozen=True, slots=True)
class Rule:
    """What is written of a fault. A condition that is None is met by every call.

    `op` is an operator's name ("mm", "npu_swiglu", "aten::mm.out"), `synchronize`, or "*" for all.
    `dtype`, `shape` and `numel` look at the tensor arguments: one of them has to fit. `calls`
    counts the calls that all other conditions let through, from 1. `when` gets those tensors (on
    the CPU), `change` writes wrong numbers into an output.
    """

    op: str
    kind: str
    text: str | None = None
    device: int | None = None
    dtype: str | None = None
    shape: tuple[Bound, ...] | None = None
    numel: Bound | None = None
    calls: Bound | None = None
    seconds: float | None = None
    bytes: int = 1 << 20
    how: str = "scale"
    when: Callable[..., bool] | None = None
    change: Callable[[Any], object] | None = None

    def meets(self, op: str, device: int, inputs: Sequence[Any]) -> bool:
        """Whether a call of `op` ("aten::mm.out") is met, its number apart."""
        if self.device is not None and device != self.device:
            return False
        if "." in self.op and op.split("::")[-1] != self.op.split("::")[-1]:
            return False
        about_tensors = (self.dtype, self.shape, self.numel)
        if about_tensors != (None, None, None) and not any(map(self._fits, inputs)):
            return False
        return self.when is None or bool(self.when(*inputs))

    def _fits(self, tensor: Any) -> bool:
        if self.dtype is not None and str(tensor.dtype) != f"torch.{self.dtype}":
            return False
        if self.numel is not None and tensor.numel() not in self.numel:
            return False
        if self.shape is None:
            return True
        sizes = tuple(tensor.shape)
        return len(sizes) == len(self.shape) and all(
            size in one for size, one in zip(sizes, self.shape, strict=True)
        )


def make_rule(given: Mapping[str, Any]) -> Rule:
    """A rule from the keys that are written; names of operators are looked up when it is set.

    Raises:
        UnknownKey: a key that faults do not have.
        InvalidValue: a key that is missing or has a wrong value, with the valid ones.
    """
    known = [one.name for one in fields(Rule)]
    for key in given:
        if key not in known:
            raise UnknownKey(f"A fault has no {key!r}.", hint=did_you_mean(key, known), param=key)
    for key in ("op", "kind"):
        _said(given, key)
    _among("kind", given["kind"], KINDS)
    _among("how", given.get("how", "scale"), HOW)
    text = given.get("text", DEFAULT_TEXT.get(given["kind"]))
    values = {**given, "text": None if text is None else str(text)}
    for key in ("calls", "numel"):
        if values.get(key) is not None:
            values[key] = bound(values[key], key)
    if values.get("shape") is not None:
        values["shape"] = tuple(bound(size, "shape") for size in _sizes(values["shape"]))
    if values.get("dtype") is not None:
        values["dtype"] = str(values["dtype"]).removeprefix("torch.")
        _among("dtype", values["dtype"], _dtypes())
    _number(values, "device", int, 0)
    _number(values, "bytes", int, 1)
    _number(values, "seconds", float, 0)
    rule = Rule(**values)
    if rule.kind == "delay" and rule.seconds is None:
        raise InvalidValue(
            "A fault of kind delay says no seconds.",
            hint="{op: mm, kind: delay, seconds: 0.5}",
            param="seconds",
        )
    return rule


def _said(given: Mapping[str, Any], key: str) -> None:
    if not isinstance(given.get(key), str):
        raise InvalidValue(
            f"A fault says no {key}: {dict(given)}.",
            hint="At least: {op: mm, kind: raise}",
            param=key,
        )


def _among(key: str, value: object, names: Any) -> None:
    if value not in names:
        hint = did_you_mean(str(value), names)
        raise InvalidValue(f"A fault's {key} is {value!r}.", hint=hint, param=key)


def _sizes(shape: object) -> Sequence[object]:
    if isinstance(shape, str):
        return [part for part in re.split(r"[\s,x]+", shape.strip(" []()")) if part]
    if isinstance(shape, list | tuple):
        return shape
    raise InvalidValue(f"A fault's shape is {shape!r}.", hint="shape: [1, '*', 64]", param="shape")


def _number(values: dict[str, Any], key: str, kind: type, least: float) -> None:
    value = values.get(key)
    if value is None:
        return
    wrong = isinstance(value, bool) or not isinstance(value, int | float) or value < least
    if wrong or (kind is int and value != int(value)):
        raise InvalidValue(f"A fault's {key} is {value!r}.", hint=f"{key}: {least:g}", param=key)
    values[key] = kind(value)


def _dtypes() -> list[str]:
    import torch

    return [name for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype)]
