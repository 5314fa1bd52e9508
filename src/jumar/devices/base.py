"""What a device is, and what an accelerator has to offer to be one of Jumar's.

An accelerator is a class under the entry point group `jumar.accelerators`; its module may import
torch only inside functions. `index` always counts among the *visible* devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from jumar.devices.graphs import Graph


@dataclass(frozen=True)
class Device:
    """One device that this process can see. Memory in bytes; None where nobody can tell.

    `on_host` is what the host calls it, where only some of its devices are visible: `card 3`.
    """

    kind: str
    index: int
    name: str
    total_bytes: int | None = None
    free_bytes: int | None = None
    on_host: str | None = None

    @property
    def label(self) -> str:
        """`cpu`, `remote`, or kind and index as torch writes them: `cuda:0`."""
        return self.kind if self.kind in ("cpu", "remote") else f"{self.kind}:{self.index}"

    @property
    def shown(self) -> str:
        """The label, and the host's own number beside it: `npu:0 (host card 3)`."""
        return self.label if self.on_host is None else f"{self.label} (host {self.on_host})"


@dataclass(frozen=True)
class Placement:
    """Where a model runs, and why there.

    `device` is torch's name; `device_class` keys references and evidence (`npu-emulated` never
    shares any with `npu`); `backend` is the name callers know (`ascend` for `npu`); `dtypes` are
    those that the device computes in, its own default first.
    """

    device: Device
    device_class: str
    backend: str
    requested: str
    reason: str
    dtypes: tuple[str, ...] = ("fp32", "bf16", "fp16")

    @property
    def torch_device(self) -> str:
        """The string for `torch.device`."""
        return self.device.label


class Accelerator(Protocol):
    """One kind of device."""

    kind: str
    backend: str

    def unavailable(self) -> str | None:
        """Why this kind cannot be used here, in one sentence; None where it can."""
        ...

    def device_class(self) -> str:
        """`cpu`, `cuda`, `npu` or `npu-emulated`."""
        ...

    def devices(self) -> list[Device]:
        """The visible devices; raises DeviceUnavailable where `unavailable` has a reason."""
        ...

    def dtypes(self, index: int) -> tuple[str, ...]:
        """What the device computes in (`fp32`, `bf16`, `fp16`), its own default first."""
        ...

    def configure(self, config: Mapping[str, Any]) -> list[str]:
        """Set what load-time keys say of this kind of device; told is what could not be set."""
        ...

    def synchronize(self, index: int) -> None:
        """Wait until everything queued on the device is done."""
        ...

    def reset_peak(self, index: int) -> None:
        """Begin a new measurement of peak memory."""
        ...

    def peak_mb(self, index: int) -> float | None:
        """Peak memory since `reset_peak`, in MB (10**6 bytes); None where nobody can tell."""
        ...

    def empty_cache(self, index: int) -> None:
        """Give cached device memory back."""
        ...

    def graphs(self) -> Sequence[Graph]:
        """The ways of making graphs that this installation has, best first."""
        ...

    def compiles_unasked(self) -> bool:
        """Whether `compile: auto` means yes on this kind of device."""
        ...

    def fingerprint(self) -> dict[str, str]:
        """What results depend on: chip, driver, library versions."""
        ...
