"""The options of a run in a process of its own, and what looks into its failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from jumar.contracts.requests import GenerateRequest
    from jumar.engine.healing import Failed, Investigate
    from jumar.evidence import Evidence, Verdict

_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--isolate",
        type=click.Choice(["auto", "on", "off"]),
        default="auto",
        show_default=True,
        help="Run the model in a process of its own; auto: on all but the CPU.",
    ),
    click.option(
        "--heartbeat",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="Silence of an isolated model that is a hang.  [default 600]",
    ),
    click.option(
        "--load-heartbeat",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="The same while the model is loaded.  [default 1800]",
    ),
    click.option(
        "--heal",
        type=click.Choice(["on", "off"]),
        default="on",
        show_default=True,
        help="When an isolated model fails: find the guilty operator, and run again without it.",
    ),
)


def isolation_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What `generate` and `embed` share."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def investigator(heal: str) -> Investigate | None:
    """What the engine calls after a failure."""
    return _investigated if heal == "on" else None


def _investigated(failed: Failed, request: GenerateRequest) -> list[Evidence]:
    """Run the request again under the flight recorder, and name the operators that stop it.

    What it answers is not looked at, so that the CPU need not answer a large model's request.
    """
    from jumar.cli.bisect.model import PRELOAD, answering, plain
    from jumar.engine.stopping import when_cancelled
    from jumar.isolate import Zygote
    from jumar.lab.blame import investigate
    from jumar.lab.trials import Limits, Trials

    device = failed.placement.device.label
    again = plain(request.model_copy(update={"backend": device}))
    limits = Limits(failed.loading_s, failed.answering_s)
    with Zygote(PRELOAD) as zygote, when_cancelled(failed.cancel, lambda _: zygote.close()):
        trials = Trials(answering, [again], device, _came_to_its_end, limits, zygote)
        return investigate(trials, fingerprint=failed.fingerprint)


def _came_to_its_end(_answer: Any) -> Verdict:
    from jumar.evidence import Verdict

    return Verdict("correct", "It came to its end.")
