"""A shadow in a watched child: a hang or an abort names the operator that it happened in.

The work is a function of a module, as in `jumar.lab.trials`: called in the child with its arguments
it prepares (loads a model) and gives a function without arguments that is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jumar.isolate import Died, Hung, Outcome, Raised, Zygote, tell
from jumar.lab.shadow.calls import Place
from jumar.lab.shadow.findings import Coverage, Guilty

Make = Callable[..., Callable[[], Any]]


@dataclass
class Judged:
    """What a shadow found. `ended` is how the work ended where it did not come to its end."""

    guilty: list[Guilty] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)
    ended: Outcome | None = None


def judged(
    make: Make,
    arguments: Sequence[Any],
    device: str,
    zygote: Zygote,
    *,
    loading: float,
    silence: float,
    deadline: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> Judged:
    """Run work under a `Shadow` (with `options`) in a child.

    Args:
        loading: seconds that preparing may take.
        silence: seconds from one operator to the next; more is a hang.
        deadline: seconds for the work as a whole.

    Raises:
        JumarError: the work could not be prepared, or raised where no operator is to blame.
    """
    found: dict[Any, Guilty] = {}
    last: list[Place] = []

    def hear(told: Any) -> None:
        if isinstance(told, Place):
            last[:] = [told]
        else:
            found[told.subject] = told

    with zygote.spawn(_judging, make, tuple(arguments), device, dict(options or {})) as child:
        child.ready(deadline=loading).result()
        outcome = child.call(None, deadline=deadline, heartbeat=silence, on_told=hear)
    if isinstance(outcome, Died | Hung):
        for at in last:
            end = _ended_in(at, outcome)
            found[end.subject] = end
    elif not isinstance(outcome, Raised):
        guilty, coverage = outcome.result()
        return Judged(guilty, coverage)
    if not found:
        outcome.result()
    return Judged(list(found.values()), ended=outcome)


def _ended_in(at: Place, outcome: Died | Hung) -> Guilty:
    hung = isinstance(outcome, Hung)
    reason = f"no answer in {outcome.seconds:g} s" if isinstance(outcome, Hung) else outcome.reason
    return Guilty(
        operator=at.operator,
        kind="hangs" if hung else "aborts",
        reason=reason,
        shapes=at.shapes,
        dtype=at.dtype,
        layer=at.layer,
    )


def _judging(
    make: Make, arguments: tuple[Any, ...], device: str, options: dict[str, Any]
) -> Callable[[Any], tuple[list[Guilty], Coverage]]:
    """In the child: prepare; what is returned judges."""
    import torch.utils.flop_counter  # noqa: F401  (takes seconds, which would be silence later)

    from jumar.lab.shadow.mode import Shadow

    work = make(*arguments)
    shadow = Shadow(device, on_call=tell, on_guilty=tell, **options)

    def judge(_: Any) -> tuple[list[Guilty], Coverage]:
        with shadow:
            work()
        return shadow.guilty, shadow.coverage

    return judge
