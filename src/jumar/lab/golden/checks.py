"""Ask a model its golden requests, and hold the answers against references and each other.

outcome = verify(golden, key, ask, made_on=fingerprint)
outcome.status                       # matched, failed, unverified
reference = record(golden, key, ask, made_on=fingerprint, anchor=cpu_reference)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from jumar.contracts.errors import Cancelled, JumarError, ParityFailed
from jumar.lab.golden.base import Answers, Ask, Finding, Golden, Key, Outcome, Reference, Request
from jumar.parity.answers import Answer, apart

Progress = Callable[[int, int], object]

_VERSIONS = ("torch", "torch_npu", "transformers", "diffusers", "onnxruntime", "cann", "driver")


def verify(
    golden: Golden,
    key: Key,
    ask: Ask,
    *,
    made_on: Mapping[str, str],
    twice: bool = True,
    progress: Progress = lambda done, total: None,
) -> Outcome:
    """Ask each request twice; compare with the reference of `key`, the second time, and relations.

    A request that gives no answer, or too few, is a finding. On CPUs the second answer has to be
    the first to the bit; elsewhere within the format's rounding. Without `twice` no second answer
    is asked for, and all else is compared as ever.
    """
    reference = golden.reference(key)
    told, findings, checked, alike, repeated = {}, [], 0, 0, 0
    for number, request in enumerate(golden.requests):
        try:
            first = ask(request)
            second = ask(request) if twice else None
        except Cancelled:
            raise
        except JumarError as error:
            findings.append(Finding(request.name, "*", "answer", f"no answer: {error}"))
            checked += len(reference.answers.get(request.name, ())) if reference else 0
            continue
        told[request.name] = first
        if second is not None:
            repeated += len(first)
            findings += _repeat(request, first, second, key)
        alike += sum(1 for _ in request.same_as)
        findings += _alike(request, first, told, key)
        if reference is not None:
            wanted = reference.answers.get(request.name)
            checked += len(wanted or ())
            findings += _reference(request, first, wanted, key)
        progress(number + 1, len(golden.requests))
    findings += _left(golden, reference)
    if reference is not None and not checked:
        findings.append(Finding("*", "*", "reference", "the reference has no answer: none checked"))
    return Outcome(
        key=key,
        checked=checked,
        alike=alike,
        repeated=repeated,
        findings=tuple(findings),
        reference=reference,
        notes=_notes(reference, made_on),
        answers=told,
    )


def record(
    golden: Golden,
    key: Key,
    ask: Ask,
    *,
    made_on: Mapping[str, str],
    anchor: Reference | None = None,
    progress: Progress = lambda done, total: None,
) -> Reference:
    """The answers of this device as a new reference.

    Nothing wrong may become golden: the answers must be alike where they have to be, must repeat,
    and where there is an `anchor` (the same model on a CPU) be its answers but for this format's
    rounding.

    Raises:
        ParityFailed: they are not; all findings are named.
    """
    alone = Golden(golden.model, golden.digest, golden.task, golden.requests)
    outcome = verify(alone, key, ask, made_on=made_on, progress=progress)
    findings = list(outcome.findings)
    for request in golden.requests if anchor is not None else ():
        told = outcome.answers.get(request.name)
        if told is not None and anchor is not None:
            findings += _reference(request, told, anchor.answers.get(request.name), key)
    if findings:
        raise ParityFailed(
            f"{golden.model} on {key}: {len(findings)} answers are not fit to be golden."
            f" First: {sentence(findings[0])}",
            hint="Find the operator: jumar shadow --model … --device …",
        )
    held = f"within its rounding of {anchor.key}" if anchor is not None else "itself only"
    return Reference(key, dict(made_on), outcome.answers, held)


def sentence(finding: Finding) -> str:
    """A finding for people."""
    where = finding.request if finding.answer == "*" else f"{finding.request}, {finding.answer}"
    return f"{where}: {finding.reason}"


def covered(golden: Golden) -> list[str]:
    """What the requests of a set cover."""
    return list(dict.fromkeys(kind for r in golden.requests for kind in r.covers))


def _reference(
    request: Request, told: Answers, wanted: Answers | None, key: Key
) -> Iterator[Finding]:
    if wanted is None:
        yield Finding(request.name, "*", "reference", "the reference lacks this request")
        return
    for name in [*wanted, *(extra for extra in told if extra not in wanted)]:
        if name not in told or name not in wanted:
            what = "missing" if name in wanted else "not in the reference"
            yield Finding(request.name, name, "reference", what)
        elif off := apart(wanted[name], told[name], rounding=key.rounding):
            yield Finding(request.name, name, "reference", off.reason)


def _left(golden: Golden, reference: Reference | None) -> Iterator[Finding]:
    """What was recorded, and is not asked any more."""
    asked = {request.name for request in golden.requests}
    for name in reference.answers if reference is not None else ():
        if name not in asked:
            yield Finding(name, "*", "reference", "recorded, but the set has no such request")


def _alike(
    request: Request, told: Answers, earlier: Mapping[str, Answers], key: Key
) -> Iterator[Finding]:
    for name, other in request.same_as.items():
        base, _, answer = other.partition("/")
        wanted = earlier.get(base, {}).get(answer)
        if wanted is None or name not in told:
            yield Finding(request.name, name, "alike", f"{other} has no answer to compare with")
        elif off := apart(wanted, told[name], rounding=key.rounding):
            yield Finding(request.name, name, "alike", f"not as {other}: {off.reason}")


def _repeat(request: Request, first: Answers, second: Answers, key: Key) -> Iterator[Finding]:
    for name in dict.fromkeys([*first, *second]):
        if name not in first or name not in second:
            yield Finding(request.name, name, "repeat", "answered only one time of two")
        elif key.device_class == "cpu" and not _same_bits(first[name], second[name]):
            yield Finding(request.name, name, "repeat", "other bits the second time")
        elif off := apart(first[name], second[name], rounding=key.rounding):
            yield Finding(request.name, name, "repeat", f"the second time: {off.reason}")


def _same_bits(one: Answer, other: Answer) -> bool:
    import numpy as np

    return bool(np.array_equal(one.value, other.value))


def _notes(reference: Reference | None, here: Mapping[str, str]) -> tuple[str, ...]:
    """What was different when the reference was recorded."""
    if reference is None:
        return ()
    then = reference.made_on
    return tuple(
        f"recorded with {name} {then[name]}, here {here.get(name, 'none')}"
        for name in _VERSIONS
        if name in then and then[name] != here.get(name)
    )
