"""The one function in which a request becomes what will run. (Under construction: see tests.)"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jumar.catalog.manifest import Manifest, TaskSpec
from jumar.contracts.requests import AdapterRef


@dataclass(frozen=True)
class ResolvedRequest:
    """A request with every key decided.

    `config` has every key of the task's spec (None where nobody set one); `origins` says where
    each value comes from: `default`, `preset fast`, `model preset fast` or `caller`.
    """

    manifest: Manifest
    task: str
    backend: str
    inputs: dict[str, Any]
    config: dict[str, Any]
    origins: dict[str, str] = field(default_factory=dict)
    adapters: tuple[AdapterRef, ...] = ()

    @property
    def spec(self) -> TaskSpec:
        """Inputs and config of the task that was asked for."""
        return self.manifest.tasks[self.task]  # type: ignore[index]

    @property
    def load_config(self) -> dict[str, Any]:
        """The part of `config` that decides what is loaded."""
        return {key: value for key, value in self.config.items() if self.spec.config[key].load}
