"""Which operators an operator calls: found out in a child, because some crash on made-up inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice, product
from typing import Any

from jumar.isolate import Returned, Zygote
from jumar.operators.catalogue.base import KnownBy, Reentry

DEADLINE = 20.0
"""Seconds that one operator may take on tensors of a few elements."""

COMPOSITE = ("CompositeExplicitAutograd", "CompositeImplicitAutograd")
"""Kernels made of other operators, in the order in which the dispatcher takes them."""

SHAPES = ((4, 4), (1, 4, 4, 4), (4,), (1, 4, 4), (1, 1, 4, 4, 4), ())
"""Shapes of made-up tensors, tried in turn until an operator takes one."""

SAMPLES = 6
"""How many of torch's samples of one function are tried."""

Calls = dict[KnownBy, list[str]]


def find(names: Iterable[str]) -> dict[str, tuple[Reentry, ...] | None]:
    """For each operator what it calls, all levels down; None where that was not found out.

    Composite kernels are run on small tensors on the CPU, down to operators that have kernels of
    their own; torch's Python decomposition is run likewise, one level.
    """
    found: dict[str, tuple[Reentry, ...] | None] = dict.fromkeys(names)
    child = None
    with Zygote(preload=["torch", "torch._decomp"]) as zygote:
        for name in found:
            if child is None or not child.alive:
                child = zygote.spawn(prober)
            outcome = child.call(name, deadline=DEADLINE)
            if isinstance(outcome, Returned) and outcome.value is not None:
                found[name] = tuple(
                    Reentry(called, known_by)
                    for known_by, calls in outcome.value.items()
                    for called in calls
                )
    return found


def prober() -> Callable[[str], Calls | None]:
    """The worker in the child."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    return probe


def probe(name: str) -> Calls | None:
    """What one operator calls, by how that is known; None where it could not be run.

    An operator with a kernel of its own everywhere and no decomposition calls nothing: `{}`.
    """
    from torch._decomp import decomposition_table

    operator = _overload(name)
    runs: dict[KnownBy, Callable[..., Any]] = {}
    if _composite_key(name) is not None:
        runs["run"] = operator
    if operator in decomposition_table:
        runs["decomposition"] = decomposition_table[operator]
    found: Calls = {}
    for known_by, function in runs.items():
        calls = _made_up(name, function)
        if calls is None and known_by == "run":
            calls = _sampled(name)
        if calls is not None:
            found[known_by] = sorted(calls - {name})
    return found if found or not runs else None


def _made_up(name: str, function: Callable[..., Any]) -> set[str] | None:
    """All calls of the runs that ended well on made-up inputs; None where none did.

    Which way a kernel takes depends on its inputs: tensors of several shapes are tried, with and
    without the optional ones, of the first dtype that an operator takes.
    """
    import torch

    schema = torch._C._get_schema(*_parts(name))
    for dtype in (torch.float32, torch.int64, torch.bool):
        ended = []
        for shape, optional in product(SHAPES, (False, True)):
            with suppress(Exception):  # whatever an operator says of inputs that are not for it
                positional, named = _inputs(schema, shape, dtype, optional)
                ended.append(recorded(function, *positional, **named))
        if ended:
            return set().union(*ended)
    return None


def _sampled(name: str) -> set[str] | None:
    """The same on the samples of torch's own tests; None where the operator was never called."""
    ended = []
    for call in _samples(name):
        with suppress(Exception):
            ended.append(recorded(call, within=name))
    calls = set().union(*ended)
    return calls or None


def _samples(name: str) -> Iterator[Callable[[], Any]]:
    """Calls of the functions that torch's tests know by the operator's name, on their samples."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    base = _parts(name)[0].rpartition("::")[2]
    for info in op_db:
        if base in (info.name.rpartition(".")[2], info.aten_name):
            for sample in islice(info.sample_inputs("cpu", torch.float32), SAMPLES):
                yield partial(info.op, sample.input, *sample.args, **sample.kwargs)


def recorded(
    function: Callable[..., Any], *positional: Any, within: str = "", **named: Any
) -> set[str]:
    """The names of the operators that a call makes.

    `within` leaves out what is not called by that operator. Inference mode lets composites reach
    the dispatch mode whole; it then runs their kernel with itself on.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    calls: set[str] = set()

    class Recorder(TorchDispatchMode):  # type: ignore[misc]
        inside = not within

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name = f"{func._schema.name}.{func._schema.overload_name}".removesuffix(".")
            before = self.inside
            self.inside = before or name == within
            if self.inside:
                calls.add(name)
            composite = _composite_key(name)
            try:
                if composite is None:
                    return func(*args, **(kwargs or {}))
                with self:
                    key = getattr(torch._C.DispatchKey, composite)
                    return func._op_dk(key, *args, **(kwargs or {}))
            finally:
                self.inside = before

    with torch.inference_mode(), Recorder():
        function(*positional, **named)
    return calls


def _inputs(
    schema: Any, shape: tuple[int, ...], dtype: Any, optional: bool
) -> tuple[list[Any], dict[str, Any]]:
    """A value for each argument without default, with `optional` for optional operands too."""
    positional, named = [], {}
    for argument in schema.arguments:
        kind = str(argument.type)
        if optional and kind in ("Optional[Tensor]", "Optional[number]"):
            kind = kind.removeprefix("Optional[").removesuffix("]")
        elif argument.has_default_value():
            continue
        value = _value(kind, shape, dtype)
        if argument.N:  # a list of fixed length, as `int[2]`
            value = value * argument.N
        if argument.kwarg_only or (optional and argument.has_default_value()):
            named[argument.name] = value
        else:
            positional.append(value)
    return positional, named


def _value(kind: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """A value of a schema's type; KeyError for one that nothing is made up for."""
    import torch

    def tensor() -> Any:
        return torch.rand(shape) if dtype.is_floating_point else torch.ones(shape, dtype=dtype)

    if kind.startswith("Optional["):
        return None
    makers: dict[str, Callable[[], Any]] = {
        "Tensor": tensor,
        "List[Tensor]": lambda: [tensor(), tensor()],
        "List[Optional[Tensor]]": lambda: [torch.zeros(1, dtype=torch.int64)],
        "int": lambda: 1,
        "float": lambda: 0.5,
        "bool": lambda: False,
        "number": lambda: 1,
        "List[int]": lambda: [1],
        "List[bool]": lambda: [False],
        "List[float]": lambda: [1.0],
        "List[number]": lambda: [1, 1],
        "str": lambda: "mean",
        "Device": lambda: torch.device("cpu"),
    }
    return makers[kind]()


def _composite_key(name: str) -> str | None:
    import torch

    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return next((key for key in COMPOSITE if has(name, key)), None)


def _parts(name: str) -> tuple[str, str]:
    base, _, which = name.partition(".")
    return base, which


def _overload(name: str) -> Any:
    import torch

    (namespace, _, packet), which = _parts(name)[0].partition("::"), _parts(name)[1]
    return getattr(getattr(getattr(torch.ops, namespace), packet), which or "default")
