"""Where a model sits."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import InvalidValue
from jumar.contracts.results import Operators
from jumar.devices import Placement, accelerators, place
from jumar.runtime.families import Family


@dataclass
class Seat:
    """The device of a model, what results depend on there, and what computes its operators.

    `placement` is None as long as no device has been chosen; `worker` names the process that has
    the model, where it is not the caller's; `dtype` is the number format that it computes in.
    """

    placement: Placement | None = None
    fingerprint: dict[str, str] = field(default_factory=dict)
    operators: Operators = field(default_factory=Operators)
    worker: str | None = None
    dtype: str = "fp32"

    @property
    def identity(self) -> Hashable:
        """All that answers depend on here, beside what was loaded: two seats that are equal in it
        give equal answers.
        """
        label = None if self.placement is None else self.placement.device.label
        told = tuple(sorted(self.fingerprint.items()))
        return (label, self.dtype, told, self.operators.model_dump_json())

    def placed(self) -> Placement:
        """The device that has been chosen."""
        assert self.placement is not None
        return self.placement


def seat_for(resolved: ResolvedRequest, family: Family) -> Seat:
    """Choose the device of a request.

    Raises:
        DeviceUnavailable: the device that was asked for is not here, or has no room.
        InvalidValue: this family cannot run there, or the device does not compute in this dtype.
    """
    need = int(resolved.manifest.resources.memory_gb * 2**30)
    placement = place(resolved.backend, need_bytes=need)
    if reason := family.refuses(placement):
        raise InvalidValue(
            f"{resolved.manifest.id} cannot run on {placement.device.label}: {reason}.",
            param="backend",
        )
    dtype = resolved.config.get("dtype")
    if dtype is not None and dtype not in placement.dtypes:
        raise InvalidValue(
            f"{placement.device.label} ({placement.device.name}) does not compute in {dtype}"
            f" (dtype is from: {resolved.origins.get('dtype', 'caller')}).",
            hint=f"It computes in {', '.join(placement.dtypes)}.",
            param="config.dtype",
        )
    known = accelerators()[placement.device.kind].fingerprint()
    return Seat(placement, {"device_class": placement.device_class, **known})
