"""From a body of OpenAI's to a request of Jumar's, and its result."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from jumar.catalog.manifest import Manifest, TaskSpec
from jumar.contracts.errors import InvalidValue, JumarError, UnknownKey, did_you_mean
from jumar.contracts.results import GenerateResult
from jumar.runtime.run import Listener
from jumar.server import outward, runs
from jumar.server.contracts import GenerateBody
from jumar.server.desk import Desk
from jumar.server.wire import checked

B = TypeVar("B", bound=BaseModel)


@dataclass
class Asked(Generic[B]):
    """A body, the model and the task it is for, and what has become of it so far.

    `inputs` and `config` begin with the keys of the manifest that stood in the body; `fields` are
    the names there of those that have another.
    """

    body: B
    manifest: Manifest
    task: str
    inputs: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def spec(self) -> TaskSpec:
        """Inputs and config of the task."""
        return self.manifest.tasks[self.task]

    def carry(self, name: str, key: str, value: Any, *, neutral: Collection[Any] = ()) -> None:
        """Let a field of OpenAI's set a key of the model.

        None and `neutral` values ask for nothing, and pass where the model has no such key.

        Raises:
            InvalidValue: the model has no such key.
        """
        if value is None:
            return
        self.fields[key] = name
        if key in self.spec.inputs:
            self.inputs[key] = value
        elif key in self.spec.config:
            self.config[key] = value
        elif value not in neutral:
            ways = ["Leave it out", *(f"give {one!r}" for one in neutral)]
            raise InvalidValue(
                f"{self.manifest.id} has no {name} to set.",
                hint=f"{', or '.join(ways)}.",
                param=name,
            )

    def carry_size(self, size: str | None) -> None:
        """Set `width` and `height`."""
        if size is not None and size != "auto":
            for key, side in zip(("width", "height"), size.split("x"), strict=True):
                self.carry("size", key, int(side))


def asked(desk: Desk, kind: type[B], payload: Mapping[str, Any], tasks: Sequence[str]) -> Asked[B]:
    """The payload, checked; the task is the first of `tasks` that the model does.

    Raises:
        UnknownModel, UnsupportedTask: naming what there is.
        UnknownKey, InvalidRequest: a field that neither OpenAI nor the model has, or a wrong value.
    """
    name = payload.get("model")
    if not isinstance(name, str):
        checked(kind, dict(payload))  # says what is wrong with it
    manifest = desk.manifest(str(name))
    task = next((task for task in tasks if task in manifest.tasks), None)
    if task is None:
        with outward.as_written({}):
            raise desk.unsupported(manifest, tasks[0])
    spec, fields = manifest.tasks[task], kind.model_fields
    own = {key: value for key, value in payload.items() if key not in fields}
    for key in own:
        if key not in spec.inputs and key not in spec.config:
            known = {*fields, *spec.inputs, *spec.config} - _operators(spec)
            raise UnknownKey(
                f"There is no field {key[:100]!r}.",
                hint=did_you_mean(key[:100], known),
                param=key[:100],
            )
    body = checked(kind, {key: value for key, value in payload.items() if key in fields})
    inputs = {key: own[key] for key in own if key in spec.inputs}
    config = {key: own[key] for key in own if key not in inputs}
    return Asked(body, manifest, task, inputs, config)


async def result_of(
    request: Request, one: Asked[Any], listener: Listener | None = None
) -> GenerateResult:
    """Run it, for as long as the caller is there. `listener` is called in a thread of the engine's.

    Raises:
        JumarError: it was refused, or has failed.
    """
    desk: Desk = request.app.state.desk
    body = GenerateBody(model=one.manifest.id, task=one.task, inputs=one.inputs, config=one.config)
    with outward.as_written(one.fields):
        try:
            admitted = await run_in_threadpool(desk.request, body, request.state.request_id)
        except JumarError:
            await run_in_threadpool(desk.inbox.discard, one.inputs)
            raise
        result = await runs.result_of(request, admitted, listener)
    if error := runs.error_of(result):
        raise error
    return result


def headers_of(result: GenerateResult) -> dict[str, str]:
    """What bodies of OpenAI's have no place for: where it ran, and whether that was proven."""
    report = result.metadata
    parity = report.parity
    return {
        "X-Jumar-Device": report.where,
        "X-Jumar-Golden": parity.status if parity else "unverified",
    }


def _operators(spec: TaskSpec) -> set[str]:
    """Keys that no caller is told of."""
    return {key for key, param in spec.config.items() if param.operator}
