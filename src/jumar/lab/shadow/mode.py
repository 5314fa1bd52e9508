"""The shadow itself: a mode of torch's dispatcher that judges each operator by itself."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from jumar.contracts.errors import InvalidValue, RunFailed
from jumar.evidence import Subject
from jumar.lab.shadow import facts
from jumar.lab.shadow.calls import Call, Copies, Place
from jumar.lab.shadow.findings import Coverage, Guilty
from jumar.lab.shadow.judging import Reference, as_exact, as_tensor, mismatch, reference
from jumar.lab.shadow.layers import Layers
from jumar.lab.shadow.reproducer import reproducer
from jumar.operators.dispatcher import device_key, has_kernel
from jumar.operators.overrides import active

REASON = 400
"""Characters of an error that are kept."""

OnCall = Callable[[Place], object]
OnGuilty = Callable[[Guilty], object]


class Shadow:
    """Judges every operator that works on a kind of device, in this thread, while it is entered.

    Args:
        device: whose operators are judged: `npu:0`, or `cpu` for the CPU's own.
        every: judge one in so many calls, drawn; 1 judges all.
        budget: the largest part of the time that judging may take; more calls are left out then.
        repeat: compute every operator twice and say which do not answer the same.
        heal: go on with the right numbers after a guilty operator, so that the next one's inputs
            are those that a healthy device would see, and an error does not end the forward.
        reproducers: the folder for scripts' inputs that no seed makes; None for no scripts.
        on_call, on_guilty: told of each call before it is made, and of each that is guilty.

    `guilty` and `coverage` can be read at any time.

    Raises (on entering):
        InvalidValue: torch has no such device, or `every` or `budget` is out of range.
        RunFailed: numbers do not come back from the device as they went: nothing can be judged.
    """

    def __init__(
        self,
        device: str,
        *,
        every: int = 1,
        budget: float = 1.0,
        repeat: bool = False,
        heal: bool = True,
        reproducers: str | Path | None = None,
        on_call: OnCall = lambda _: None,
        on_guilty: OnGuilty = lambda _: None,
    ) -> None:
        if every < 1 or not 0 < budget <= 1:
            raise InvalidValue(
                f"every={every}, budget={budget}: at least 1, and a part of 1.", param="every"
            )
        self.coverage = Coverage()
        self._device, self._key = device, device_key(device)
        self._kind = device.split(":")[0]
        self._every, self._budget, self._draw = every, budget, random.Random(0)
        self._repeat, self._heal = repeat, heal
        self._on_call, self._on_guilty = on_call, on_guilty
        self._folder = None if reproducers is None else Path(reproducers)
        self._copies = Copies()
        self._layers = Layers(self._add_weights)
        self._found: dict[Subject, Guilty] = {}
        self._overrides: dict[str, str] = {}
        self._inside = 0
        self._begun = self._spent = 0.0
        self._mode = _mode(self._called)

    @property
    def guilty(self) -> list[Guilty]:
        """Each operator, class of shapes and dtype once, in the order in which they were met."""
        return list(self._found.values())

    def __enter__(self) -> Shadow:
        _check_copies(self._device)
        self._overrides = dict(active(self._device))
        self._begun = time.perf_counter()
        self._layers.__enter__()
        self._mode.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._mode.__exit__(*raised)
        self._layers.__exit__()

    def _add_weights(self, module: Any) -> None:
        for one in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            self._copies.add_weight(one)

    # ---- one call --------------------------------------------------------------------------------

    def _called(self, op: Any, args: Any, kwargs: Any) -> Any:
        from torch.utils._pytree import tree_leaves

        leaves = tree_leaves((args, kwargs))
        if not any(_is_on(leaf, self._kind) for leaf in leaves):
            self.coverage.host += 1
            return op(*args, **kwargs)
        if op._can_decompose() and not has_kernel(op, self._key):
            with self._mode:  # torch takes it apart: its parts are the device's operators
                return op.decompose(*args, **kwargs)
        if not self._inside:
            self.coverage.seen += 1
            self._on_call(Place.of(op, leaves, self._layers.current))
        if reason := self._not_compared(op, leaves):
            if not self._inside:
                self.coverage.leave_out(reason, op.name())
            result = op(*args, **kwargs)
            self._forget(op, args, kwargs)
            return result
        begun = time.perf_counter()
        try:
            return self._judged(op, args, kwargs)
        finally:
            self._forget(op, args, kwargs)
            if not self._inside:
                self._spent += time.perf_counter() - begun

    def _not_compared(self, op: Any, leaves: list[Any]) -> str | None:
        if self._overrides.get(op.name()) == "reference":
            return "computed by the reference, in place of the device"
        return facts.not_compared(op, leaves) or (None if self._inside else self._not_drawn())

    def _not_drawn(self) -> str | None:
        if self._every > 1 and self._draw.randrange(self._every):
            return "not drawn"
        over = self._spent > self._budget * (time.perf_counter() - self._begun)
        return "over the budget of time" if self._budget < 1 and over else None

    def _forget(self, op: Any, args: Any, kwargs: Any) -> None:
        """What the call has written to is no longer what a kept copy says."""
        for tensor in facts.written(op, args, kwargs):
            self._copies.forget(tensor)

    def _judged(self, op: Any, args: Any, kwargs: Any) -> Any:
        call = Call(op, args, kwargs, self._layers.current, self._copies)
        try:
            result = op(*args, **kwargs)
            self._synchronize()
        except _out_of_memory():
            raise
        except Exception as error:  # noqa: BLE001  (whatever a kernel raises: that is a verdict)
            return self._raised(call, error)
        known = reference(call)
        if isinstance(known, str):
            if not self._inside:
                self.coverage.leave_out(known, op.name())
            return result
        self.coverage.compared += not self._inside
        self._compared(call, result, known)
        return result

    def _compared(self, call: Call, result: Any, known: Reference) -> None:
        made = call.outputs(result)
        found = mismatch(call, made, known, self._kind)
        if found is None:
            if self._repeat and self._again(call, made):
                self._add(call, "nondeterministic", "another answer to equal inputs", {})
            return
        if not self._part_is_guilty(call):
            kind = "nondeterministic" if self._again(call, made) else "wrong"
            self._add(call, kind, found.reason, found.numbers())
        if self._heal:
            known.write_to(made)
            self._synchronize()

    # ---- what is done on suspicion only ----------------------------------------------------------

    def _part_is_guilty(self, call: Call) -> bool:
        """Whether an operator that this one is made of is guilty: then this one is not named."""
        import torch

        op = call.op
        if has_kernel(op, self._key) or not has_kernel(op, "CompositeExplicitAutograd"):
            return False
        keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, self._key))
        before = sum(one.calls for one in self.guilty)
        self._inside += 1
        # What it raised as a whole it raises here as well, unless its part is found and healed.
        with self._mode, suppress(Exception):
            call.on_device(lambda *args, **kwargs: op.redispatch(keys, *args, **kwargs))
        self._inside -= 1
        return sum(one.calls for one in self.guilty) > before

    def _again(self, call: Call, made: list[Any]) -> bool:
        """Whether the device answers something else on equal inputs."""
        from jumar.parity import compare

        second = call.on_device()
        self._synchronize()
        terms = call.terms(made)
        pairs = zip(map(as_tensor, made), map(as_tensor, second), strict=True)
        differs = [compare(as_exact(one), other, terms=terms) for one, other in pairs]
        return any(found is not None and found.wrong for found in differs)

    def _raised(self, call: Call, error: Exception) -> Any:
        """An operator raised: guilty where the CPU has an answer, and then that is the answer."""
        known = reference(call, narrow=True)
        if isinstance(known, str):
            raise error  # the CPU does not take these inputs either, or nobody can tell
        if not self._part_is_guilty(call):
            self._add(call, "raises", " ".join(str(error).split())[:REASON], {})
        if not self._heal:
            raise error
        return known.in_place_of(call, self._device)

    def _add(self, call: Call, kind: Any, reason: str, numbers: dict[str, Any]) -> None:
        guilty = Guilty(
            operator=call.place.operator,
            implementation=self._overrides.get(call.place.operator, "device"),
            kind=kind,
            reason=reason,
            shapes=call.place.shapes,
            dtype=call.place.dtype,
            layer=call.place.layer,
            numbers=numbers,
        )
        before = self._found.get(guilty.subject)
        if before is not None:
            guilty = before.worse(guilty)
        elif self._folder is not None:
            script = reproducer(guilty, call, self._device, self._folder)
            guilty = replace(guilty, reproducer=script)
        self._found[guilty.subject] = guilty
        self._on_guilty(guilty)

    def _synchronize(self) -> None:
        """Wait, so that an error that the device tells late falls on the operator that made it."""
        import torch

        if self._kind != "cpu":
            getattr(torch, self._kind).synchronize()


def _mode(called: Callable[[Any, Any, Any], Any]) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return called(op, args, kwargs or {})

    return Mode()


def _is_on(leaf: Any, kind: str) -> bool:
    import torch

    if isinstance(leaf, torch.Tensor):
        return bool(leaf.device.type == kind)
    return isinstance(leaf, torch.device) and leaf.type == kind


def _out_of_memory() -> Any:
    import torch

    return torch.OutOfMemoryError


def _check_copies(device: str) -> None:
    """Judging needs numbers to travel unchanged."""
    import torch

    for dtype in (torch.float32, torch.float16, torch.int64, torch.uint8):
        sent = torch.arange(256).to(dtype)
        if not torch.equal(sent.to(device).cpu(), sent):
            raise RunFailed(
                f"Numbers of {dtype} do not come back from {device} as they went there: no operator"
                " can be judged.",
                hint="Copies between host and device are at fault: run `jumar doctor`.",
            )
