"""From culprits, and from the calls that a program stopped in, to evidence with a reproducer."""

from __future__ import annotations

import time
from collections.abc import Mapping

from jumar.evidence.records import Evidence, Number, Subject
from jumar.lab.base import Override, Verdict
from jumar.lab.bisect import Culprit, Culprits
from jumar.lab.recording import Call
from jumar.lab.trials import STOPS, Trials, switchable

_SCRIPT = '''\
"""{reason}

Makes the model's call{s} on {device} and on the CPU: with its shapes and dtypes, on drawn numbers.
"""

import faulthandler

import torch
{imports}from torch.utils._pytree import tree_leaves


def calls(device):
    def tensor(shape, dtype, place=device):
        drawn = torch.rand(shape) if dtype.is_floating_point else torch.zeros(shape)
        return drawn.to(dtype).to(place)

    torch.manual_seed(0)
    return [
{calls}
    ]


wanted = tree_leaves(calls("cpu"))
faulthandler.dump_traceback_later({limit:g}, exit=True)  # what hangs is ended, with its stack
for right, got in zip(wanted, tree_leaves(calls("{device}"))):
    if isinstance(right, torch.Tensor) and right.numel():
        off = (got.cpu().double() - right.double()).abs().max().item()
        print(f"{{list(right.shape)}}: off by at most {{off:.3g}}")
'''


def evidence(
    found: Culprits, calls: Mapping[str, Call], *, device: str, fingerprint: Mapping[str, str]
) -> list[Evidence]:
    """A record for each guilty operator; one that fails only with others names them.

    `calls` are those known of the program, by operator.
    """
    sure = {} if found.confidence is None else {"confidence": round(found.confidence, 4)}
    numbers: dict[str, Number] = {"trials": found.trials, **sure}
    return [
        _record(
            member,
            _seen(member, culprit, numbers),
            [calls[one.operator] for one in culprit.overrides if one.operator in calls],
            "bisect",
            device=device,
            fingerprint=fingerprint,
        )
        for culprit in found.culprits
        for member in culprit.overrides
    ]


def _seen(member: Override, culprit: Culprit, numbers: Mapping[str, Number]) -> Verdict:
    verdict, numbers = culprit.verdict, {**culprit.verdict.numbers, **numbers}
    others = [str(one) for one in culprit.overrides if one != member]
    if not others:
        return Verdict(verdict.kind, verdict.reason, dict(numbers))
    reason = f"Only together with {' and '.join(others)}: {verdict.reason}"
    return Verdict(verdict.kind, reason, {**numbers, "together_with": ", ".join(others)})


def investigate(trials: Trials, *, fingerprint: Mapping[str, str]) -> list[Evidence]:
    """Name what stops a program: run it again under the flight recorder, watched.

    Each operator that it raised, died or hung in is computed by the reference from then on, until
    the program comes to its end. That is the control: where it never does, and where it comes to
    its end at once, nobody is named.
    """
    off: dict[Override, tuple[Verdict, Call]] = {}
    while True:
        seen = trials.recorded(off)
        if seen.verdict.kind not in STOPS:
            break
        if seen.stop is None:
            return []
        guilty = Override(seen.stop.operator, "device")
        if guilty in off or not switchable(guilty.operator):
            return []
        off[guilty] = seen.verdict, seen.stop
    return [
        _record(guilty, verdict, [call], "recorder", device=trials.device, fingerprint=fingerprint)
        for guilty, (verdict, call) in off.items()
    ]


def _record(
    guilty: Override,
    verdict: Verdict,
    calls: list[Call],
    found_by: str,
    *,
    device: str,
    fingerprint: Mapping[str, str],
) -> Evidence:
    own = next((call for call in calls if call.operator == guilty.operator), None)
    return Evidence(
        subject=Subject(operator=guilty.operator, implementation=guilty.implementation),
        fingerprint=dict(fingerprint),
        verdict=verdict.kind,
        reason=verdict.reason,
        numbers=verdict.numbers,
        layer=own.layer if own else None,
        shapes=[list(shape) for shape in own.shapes] if own else [],
        found_by=found_by,
        reproducer=script(verdict.reason, calls, device),
        at=time.time(),
    )


def script(reason: str, calls: list[Call], device: str, *, limit: float = 30.0) -> str | None:
    """A Python script that makes these calls and needs no Jumar; None where one is not known."""
    sources = [call.source for call in calls]
    if not sources or None in sources:
        return None
    npu = device.startswith("npu")
    return _SCRIPT.format(
        reason=reason.replace("\\", "/").replace('"""', "'''"),
        device=device,
        s="s" if len(sources) > 1 else "",
        imports="import torch_npu  # noqa: F401\n" if npu else "",
        limit=limit,
        calls="\n".join(f"        {source}," for source in sources),
    )
