"""A model in trials: the one place that knows both the lab, which knows no model, and the engine.

The lab takes `answering` as a function to call in the child, and what judges an answer as another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jumar.contracts.errors import InvalidRequest

if TYPE_CHECKING:
    from jumar.contracts.requests import GenerateRequest
    from jumar.evidence import Verdict
    from jumar.lab.trials import Trials
    from jumar.parity.answers import Answer

PRELOAD = ("torch", "torch._dynamo", "transformers")
"""The modes of torch that see operators import the second, which takes seconds."""


@dataclass(frozen=True)
class Told:
    """What a model answered, and the number format that it computed in."""

    answers: dict[str, Answer]
    dtype: str


def answering(request: GenerateRequest) -> Callable[[], Told]:
    """In the child: load the model of a request; what is returned asks it."""
    from jumar import catalog, engine
    from jumar.engine.answers import answers

    params = catalog.get(request.model).tasks[request.task].config
    loading = {key: value for key, value in request.config.items() if params[key].load}
    asking = {key: value for key, value in request.config.items() if key not in loading}
    placed = engine.load(request.model, task=request.task, backend=request.backend, **loading)
    return lambda: Told(answers(placed, request.inputs, asking), placed.dtype)


def plain(request: GenerateRequest) -> GenerateRequest:
    """The request as trials run it: with inputs, and without graphs, unless it says otherwise.

    In a graph operators are fused, and an override of one reaches nothing.

    Raises:
        InvalidRequest: it has no inputs, and nobody wrote a usual request for its task.
    """
    from jumar import catalog
    from jumar.lab.golden import Facts, usual_requests
    from jumar.lab.golden.places import SPEECH

    params = catalog.get(request.model).tasks[request.task].config
    inputs, config = request.inputs, dict(request.config)
    if "compile" in params:
        config.setdefault("compile", "off")
    if not inputs:
        try:
            usual = usual_requests(request.task, Facts(None, frozenset(params), str(SPEECH)))[0]
        except InvalidRequest as none:
            raise InvalidRequest(
                f"There is no usual request for {request.task}.",
                hint=f"Give its inputs: jumar generate --model {request.model} --help",
                param="inputs",
            ) from none
        inputs, config = dict(usual.inputs), {**usual.config, **config}
    return request.model_copy(update={"inputs": inputs, "config": config})


@contextmanager
def trials(request: GenerateRequest, *, work_limit: float | None = None) -> Iterator[Trials]:
    """Trials of a request, judged by the CPU's answer; `work_limit` in seconds.

    Raises:
        JumarError: the device is not there, or the CPU does not answer either.
    """
    from jumar.devices import place
    from jumar.isolate import Zygote
    from jumar.lab.trials import Trials, reference

    device = place(request.backend).device.label
    here = request.model_copy(update={"backend": device})
    with Zygote(PRELOAD) as zygote:
        wanted, limits = reference(answering, [_on_cpu(request)], zygote)
        if work_limit is not None:
            limits = replace(limits, work=work_limit)
        yield Trials(answering, [here], device, _judge(wanted), limits, zygote)


def fingerprint(device: str) -> dict[str, str]:
    """What evidence about a device belongs to."""
    from jumar.devices import accelerators

    accelerator = accelerators()[device.partition(":")[0]]
    return {"device_class": accelerator.device_class(), **accelerator.fingerprint()}


def _on_cpu(request: GenerateRequest) -> GenerateRequest:
    return request.model_copy(update={"backend": "cpu"})


def _judge(wanted: Told) -> Callable[[Told], Verdict]:
    from jumar.evidence import Verdict
    from jumar.parity.answers import apart

    def judge(got: Told) -> Verdict:
        if missing := wanted.answers.keys() - got.answers.keys():
            return Verdict("wrong", f"It gave no {', '.join(sorted(missing))}.")
        for name, answer in wanted.answers.items():
            if far := apart(answer, got.answers[name], rounding=got.dtype):
                return Verdict("wrong", f"{name}: {far.reason}.", {"limit": far.limit})
        return Verdict("correct", "It answered as the CPU does.")

    return judge
