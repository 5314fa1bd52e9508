"""A model asked its golden requests in a watched child: what hangs or aborts is a finding too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jumar.contracts.errors import ParityFailed
from jumar.isolate import Died, Hung, Zygote, progress
from jumar.lab.golden import (
    Facts,
    Golden,
    Key,
    Outcome,
    Reference,
    Request,
    record,
    usual_requests,
    verify,
)
from jumar.lab.golden.places import SPEECH

HEARTBEAT = 600.0
"""Seconds for one request, asked twice; the first also loads the model."""


@dataclass(frozen=True)
class Job:
    """What the child is to do: `verify` a set, or `record` it, held against `anchor`.

    A set without requests gets the usual ones of its task.
    """

    what: str
    golden: Golden
    anchor: Reference | None = None


def ask(
    model: str,
    device: str,
    config: Mapping[str, Any],
    job: Job,
    on_progress: Callable[[int, int | None], object],
) -> tuple[Golden, Outcome | Reference]:
    """Load the model on the device in a child, and do the job there: the set as it was asked, and
    what came of it.

    Raises:
        JumarError: the model cannot be loaded, or its answers cannot be golden.
        ParityFailed: the child died or hung; said is where.
    """
    with Zygote() as zygote:
        child = zygote.spawn(_worker, model, device, dict(config))
        outcome = child.call(job, heartbeat=HEARTBEAT, on_progress=on_progress)
        child.close()
    if isinstance(outcome, (Died, Hung)):
        where = outcome.stacks.python.strip().splitlines()
        raise ParityFailed(
            f"{model} on {device} gave no answers: {outcome.reason}",
            hint=" ".join(line.strip() for line in where[:3]) or None,
        )
    done: tuple[Golden, Outcome | Reference] = outcome.result()
    return done


def _worker(model: str, device: str, config: dict[str, Any]) -> Callable[[Job], Any]:
    from jumar import engine
    from jumar.devices import accelerators
    from jumar.engine.answers import answers

    placed = engine.load(model, backend=device, **config)
    place = placed.placement
    made_on = accelerators()[place.device.kind].fingerprint()
    key = Key(place.device_class, placed.dtype, made_on.get("chip", ""))

    def one(request: Request) -> Any:
        return answers(placed, request.inputs, request.config)

    def work(job: Job) -> tuple[Golden, Outcome | Reference]:
        golden = job.golden
        if not golden.requests:
            golden = replace(golden, requests=_usual(placed, golden.task))
        if job.what == "verify":
            return golden, verify(golden, key, one, made_on=made_on, progress=progress)
        return golden, record(
            golden, key, one, made_on=made_on, anchor=job.anchor, progress=progress
        )

    return work


def _usual(placed: Any, task: str) -> tuple[Request, ...]:
    config = frozenset(placed.manifest.tasks[task].config)
    return usual_requests(task, Facts(placed.longest, config, str(SPEECH)))
