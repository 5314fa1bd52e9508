"""Calls of a real model as data: operator, shapes, strides, dtypes and the other arguments.

with capture("npu") as calls:
    model(x)
write(calls, "calls.json")          # no weights, no texts: sizes and settings only
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jumar.contracts.errors import InvalidInput, OutputFailed
from jumar.lab.check.calls import Call

Captured = dict[str, Any]
FORMAT = "jumar-calls-1"
PER_OPERATOR = 8
"""Calls of one operator that are kept: of different shapes, dtypes or settings."""


@contextmanager
def capture() -> Iterator[list[Captured]]:
    """The different calls that the block makes below torch's composites, in their order."""
    from torch.utils._python_dispatch import TorchDispatchMode

    calls: list[Captured] = []
    seen: dict[str, set[str]] = {}

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            given = _described(op.name(), args, kwargs or {})
            marks = seen.setdefault(op.name(), set())
            if given is not None and len(marks) < PER_OPERATOR:
                mark = json.dumps(given, sort_keys=True)
                if mark not in marks:
                    marks.add(mark)
                    calls.append(given)
            return op(*args, **(kwargs or {}))

    with Mode():
        yield calls


def capturing(
    make: Callable[[Any], Callable[[], object]], request: Any
) -> Callable[[Any], list[Captured]]:
    """A worker that captures what one request of a model calls; `make` loads the model."""
    ask = make(request)

    def answer(_: Any) -> list[Captured]:
        with capture() as calls:
            ask()
        return calls

    return answer


def write(calls: Sequence[Captured], path: str | Path) -> None:
    """Write captured calls as JSON.

    Raises:
        OutputFailed: the file cannot be written.
    """
    try:
        Path(path).write_text(json.dumps({"format": FORMAT, "calls": list(calls)}, indent=1))
    except OSError as error:
        raise OutputFailed(f"The calls cannot be written to {path}: {error.strerror}.") from error


def read(path: str | Path) -> list[Captured]:
    """Read what `write` wrote.

    Raises:
        InvalidInput: the file cannot be read, or holds something else.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} holds no captured calls: {error}", param="calls") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InvalidInput(f"{path} holds no captured calls.", param="calls")
    calls: list[Captured] = found["calls"]
    return calls


def dtype_of(call: Mapping[str, Any]) -> str:
    """The dtype that a captured call is checked under: its first floating one, else its first."""
    dtypes = list(_dtypes([call["args"], call["kwargs"]]))
    floating = [one for one in dtypes if "float" in one]
    return next(iter([*floating, *dtypes]), "float32")


def rebuilt(call: Mapping[str, Any]) -> Call:
    """A call of the captured form with numbers of our own on the CPU, always the same."""
    import torch

    generator = torch.Generator().manual_seed(0)
    args = tuple(_value(one, generator) for one in call["args"])
    return Call(args, {name: _value(one, generator) for name, one in call["kwargs"].items()})


def _described(name: str, args: Any, kwargs: Any) -> Captured | None:
    """A call as JSON; None where an argument cannot be written down."""
    try:
        described = [_written(one) for one in args]
        named = {key: _written(value) for key, value in kwargs.items()}
    except TypeError:
        return None
    return {"operator": name, "args": described, "kwargs": named}


def _written(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            raise TypeError(value.layout)
        return {
            "tensor": str(value.dtype).removeprefix("torch."),
            "shape": list(value.shape),
            "stride": list(value.stride()),
            **({} if value.is_floating_point() or not value.numel() else _range(value)),
        }
    if isinstance(value, list | tuple):
        return [_written(one) for one in value]
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": "cpu"}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(type(value).__name__)


def _range(tensor: Any) -> dict[str, int]:
    """What an index may be has to be kept: the smallest and the largest."""
    import torch

    if tensor.dtype == torch.bool or tensor.is_complex():
        return {}
    return {"low": int(tensor.min()), "high": int(tensor.max())}


def _value(given: Any, generator: Any) -> Any:
    import torch

    if isinstance(given, list):
        return [_value(one, generator) for one in given]
    if not isinstance(given, dict):
        return given
    if "torch" in given:
        return getattr(torch, given["torch"])
    if "device" in given:
        return torch.device("cpu")
    dtype = getattr(torch, given["tensor"])
    steps = zip(given["shape"], given["stride"], strict=True)
    count = 1 + sum((size - 1) * stride for size, stride in steps) if all(given["shape"]) else 0
    if dtype.is_floating_point:
        flat = torch.randn(count, generator=generator).to(dtype)
    elif "low" in given:
        flat = torch.randint(given["low"], given["high"] + 1, (count,), generator=generator).to(
            dtype
        )
    else:
        flat = torch.randint(0, 2, (count,), generator=generator).to(dtype)
    return flat.as_strided(given["shape"], given["stride"])


def _dtypes(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and "tensor" in value:
        yield value["tensor"]
    elif isinstance(value, dict):
        for one in value.values():
            yield from _dtypes(one)
    elif isinstance(value, list):
        for one in value:
            yield from _dtypes(one)
