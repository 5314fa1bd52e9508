"""Where the calls of an operator come from, and which of them the CPU accepts."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jumar.lab.check import adversarial, captured, schema
from jumar.lab.check.adversarial import VOCABULARY
from jumar.lab.check.base import Task
from jumar.lab.check.calls import Call, answered, plain, signature
from jumar.lab.check.judging import Planned
from jumar.lab.check.siblings import with_outputs
from jumar.lab.shadow import facts
from jumar.operators.dispatcher import overload

SAMPLES = 12
"""Calls that are taken from OpInfo samples, per operator and dtype."""
INFOS = 3
"""OpInfos whose samples are looked at for one overload."""
WIDEST_S = 0.5
"""Seconds that the CPU's answer at vocabulary scale may take."""

NOT_UNIQUE = (
    "its answer is one of many (signs, order or basis are free): no element has a reference"
)
RANDOM = "it draws random numbers: no element has a reference"
ANYTHING = "the CPU takes calls of it that are not legal, so nobody says which are"
PRIVATE = "it hands out or takes internals of a library, not numbers"
_REFUSED = {
    NOT_UNIQUE: "_linalg_eigh _linalg_eigvals _linalg_svd geqrf linalg_eig linalg_eigvals"
    " linalg_householder_product linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq linalg_lu"
    " linalg_lu_factor_ex linalg_lu_solve linalg_qr lu_unpack ormqr",
    ANYTHING: "_local_scalar_dense",
    PRIVATE: "_nested_tensor_from_mask _pin_memory data_ptr is_pinned record_stream set_",
}
REFUSED = {name: why for why, names in _REFUSED.items() for name in names.split()}
"""Operators without an element-wise reference, by base name, and why."""


def refusal(op: Any) -> str | None:
    """Why no verdict on this operator can be had; None where one can."""
    return REFUSED.get(op.name().partition("::")[2].partition(".")[0])


def without_inputs(op: Any, dtype: str) -> str:
    """Why an operator has no cases in this dtype."""
    return RANDOM if facts.may_draw(op) else f"no call of it is known that the CPU takes in {dtype}"


def plan(op: Any, task: Task, trying: Callable[[int], object]) -> Iterator[Planned]:
    """The calls of a task, always the same ones in the same order, with the CPU's own answers.

    A call that the CPU refuses, or that gives nothing that can be compared, is left out. The CPU
    dies of some: `trying` hears the number of each before it is tried, and those in `task.avoid`
    are not.
    """
    import torch

    torch.manual_seed(0)
    numbers = itertools.count()
    seen: set[str] = set()
    known = task.done | (task.only or set()) | (task.scripts_of or set())

    def accepted(calls: Iterable[tuple[str, Call]]) -> Iterator[Planned]:
        for number, (source, call) in zip(numbers, calls, strict=False):
            if number in task.avoid or not plain(call) or (mark := signature(call)) in seen:
                continue
            seen.add(mark)
            trying(number)
            affordable = number in known or source != "vocabulary" or _affordable(op, call)
            if affordable and (native := _accepted(op, call)) is not None:
                yield Planned(number, source, call, native)

    ordinary = list(accepted(_ordinary(op, task)))
    yield from ordinary
    calls = [one.call for one in ordinary]
    widest = task.dtype == "float32"
    yield from accepted(adversarial.hardened(op, calls, vocabulary=widest))


def _ordinary(op: Any, task: Task) -> Iterator[tuple[str, Call]]:
    """Captured calls; samples of OpInfos, or where there are none what the schema allows."""
    import torch

    from jumar.lab.check import samples

    dtype = getattr(torch, task.dtype)
    called = overload(task.sibling) if task.sibling else op
    for number, given in enumerate(task.captured):
        yield f"captured call {number}", captured.rebuilt(given)
    left = SAMPLES
    for name in task.names[:INFOS]:
        for call in samples.calls(called.name(), dtype, name, left):
            left -= 1
            yield f"sample of {name}", call if called is op else with_outputs(op, called, call)
    if not task.names:
        for call in schema.made_up(op, dtype):
            yield "made of the schema", call


def _accepted(op: Any, call: Call) -> Any:
    """The CPU's answer; None where it refuses the call or the answer is nothing to compare."""
    import torch

    if not _fits(op, call):
        return None
    state = torch.get_rng_state() if facts.may_draw(op) else None
    try:
        answer = answered(op, call.cloned())
    except Exception:  # noqa: BLE001  (this is the question: does the CPU take these arguments?)
        return None
    if state is not None and not torch.equal(state, torch.get_rng_state()):
        return None  # it has drawn: dropout does, attention without it does not
    comparable = (torch.Tensor, int, float, bool, type(None))
    if not all(isinstance(one, comparable) for one in answer.results):
        return None
    tensors = [one for one in answer.results if isinstance(one, torch.Tensor)]
    strided = all(one.layout == torch.strided and not one.is_quantized for one in tensors)
    return answer if strided else None


def _fits(op: Any, call: Call) -> bool:
    """Whether the results are of a size that can be held; asked of the meta kernel."""
    import torch
    from torch.utils._pytree import tree_leaves, tree_map

    if sum(one.numel() for one in call.tensors()) < 1 << 16:
        return True

    def shape_only(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device="meta")
        return torch.device("meta") if isinstance(leaf, torch.device) else leaf

    args, kwargs = tree_map(shape_only, (call.args, call.kwargs))
    try:
        results = tree_leaves(op(*args, **kwargs))
    except Exception:  # noqa: BLE001  (no meta kernel, or no legal call: not at this size then)
        return False
    count = sum(int(one.numel()) for one in results if isinstance(one, torch.Tensor))
    return count <= adversarial.LARGEST


def _affordable(op: Any, call: Call) -> bool:
    """Whether the CPU answers soon: what grows with the square of the size is not tried whole."""
    for part in (128, 16):
        small = next(adversarial.with_sizes(call, {VOCABULARY: VOCABULARY // part}), None)
        begun = time.thread_time()
        if small is None or _accepted(op, small) is None:
            return False
        if (time.thread_time() - begun) * part**2 > WIDEST_S * 64:
            return False
    return True
