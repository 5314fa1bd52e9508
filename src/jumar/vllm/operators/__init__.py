"""Who computes the operators of a model in vLLM: decided once in each process, held by the layers.

| when | what |
|---|---|
| `register()`, in every process | the policy's files are read: a line that means nothing ends the start there |
| `bind(device)`, in a worker whose device is set | all is decided; layers built from then on hold what was decided, torch's own operators are overridden and proven live |
| `settle()`, once the model is loaded | all ranks hold the same; one line in the log |
| `bound()`, `report()` | what is bound in this process: the log, and `GET /jumar/operators` |

Nothing is looked up while the model computes, and nothing falls back there.
"""  # noqa: E501 - a table

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jumar.vllm.operators.process import Bound

MIDDLEWARE = "jumar.vllm.operators.endpoint.Endpoint"
"""What answers `GET /jumar/operators` in vLLM's API server (`--middleware`)."""

IR_PROVIDER = "jumar"
"""The provider of `vllm.ir` that computes what was decided in its process."""


def register() -> None:
    """Read the policy in force, so that what is wrong in it is told by the process that starts.

    The layers are replaced in `bind`: importing them takes a second that only workers have to pay.

    Raises:
        InvalidRequest: a file or a variable means nothing; says which line.
    """
    from jumar.operators.policy import effective
    from jumar.vllm.activation import current

    if (device := current().device) is not None:
        effective(device)


def bind(device: Any) -> None:
    """Decide for `device`, put the decisions into vLLM's layers, and override torch's operators.

    A second engine of the same process decides anew: layers of the first keep what they hold, and
    overrides are those of the second.

    Raises:
        InvalidRequest: the policy, or a record of evidence, cannot be read.
        OperatorUnavailable: nothing that can be used here may compute an operator, or an override
            that was decided on is not reached by a call of its operator.
    """
    from jumar.vllm.operators import aten, process

    here = process.start(device)
    aten.install(here)
    from jumar.vllm.operators import attention, experts, ir, layers

    layers.register()
    experts.register()
    attention.register(here)
    ir.hold(here)
    if here.has_experts:
        experts.fill(here)


def settle() -> None:
    """See that all ranks hold the same and all overrides are live, and say so in the log, once.

    Raises:
        RunFailed: ranks decided differently, or something took an override's place.
    """
    from jumar.vllm.operators import process, shown

    process.here().settle()
    shown.log(process.here())


def bound() -> list[Bound]:
    """Operator, implementation and the line that decided, for what is bound in this process."""
    from jumar.vllm.operators import process

    return process.here().bound() if process.started() else []


def report() -> dict[str, Any]:
    """What is bound in this process and why, what is in quarantine, and how much evidence there is;
    plain JSON.
    """
    from jumar.vllm.operators import process, shown

    return shown.as_dict(process.here())
