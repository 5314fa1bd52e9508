"""Who was it: the lab's questions to an engine that died, hung, or answered wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from jumar.contracts.errors import JumarError
from jumar.evidence import Evidence, Verdict
from jumar.lab.check.implementations import fingerprint
from jumar.vllm.healing.program import PRELOAD, Asked, engine, judged
from jumar.vllm.healing.steps import found_by_shadow


@dataclass(frozen=True)
class Case:
    """What is looked into: the flags of the server, what was being asked, and on which device.

    `loading_s` and `silence_s`: how long the engine may load, and an operator may take.
    """

    flags: Sequence[str]
    asked: Sequence[Asked]
    device: str
    loading_s: float
    silence_s: float


def stopped(case: Case) -> list[Evidence]:
    """Run the requests again under the flight recorder, and name what the engine stops in.

    Raises:
        JumarError: the engine could not be run again for a reason that is no operator's.
    """
    from jumar.isolate import Zygote
    from jumar.lab.blame import investigate
    from jumar.lab.trials import Limits, Trials

    with Zygote(PRELOAD) as zygote:
        trials = Trials(
            engine,
            (tuple(case.flags), tuple(case.asked)),
            case.device,
            lambda _: Verdict("correct"),
            Limits(prepare=case.loading_s, work=case.silence_s),
            zygote,
        )
        return investigate(trials, fingerprint=fingerprint(case.device))


def wrong(case: Case) -> list[Evidence]:
    """Run the requests again with each step judged, and name the operators with wrong numbers.

    Raises:
        JumarError: the engine could not be run again.
    """
    from jumar.isolate import Zygote

    with TemporaryDirectory(prefix="jumar-vllm-") as state, Zygote(PRELOAD) as zygote:
        child = zygote.spawn(judged, tuple(case.flags), tuple(case.asked), state)
        with child:
            child.ready(deadline=case.loading_s).result()
            outcome = child.call(None, deadline=case.loading_s)
        if found := found_by_shadow(Path(state)):
            return found
    outcome.result()
    return []


def looked_into(case: Case, *, answers_wrong: bool) -> tuple[list[Evidence], str]:
    """What was found, and what went wrong in looking."""
    try:
        found = wrong(case) if answers_wrong else stopped(case)
    except JumarError as error:
        return [], f"{error.code}: {error.message}"
    return [one for one in found if one.bad], ""
