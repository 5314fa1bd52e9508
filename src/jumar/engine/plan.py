"""How the operator has one model served, where that differs from all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jumar.catalog.manifest import Manifest
from jumar.catalog.values import accepted
from jumar.contracts.errors import InvalidValue
from jumar.contracts.requests import GenerateRequest
from jumar.engine.service import Service


@dataclass(frozen=True)
class Plan:
    """One model's own way.

    Args:
        config: Load-time keys, in their own types. They are the operator's: a caller who names
            another value is refused, since obeying would load the model a second time.
        device, service: None: as all models of the house.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    device: str | None = None
    service: Service | None = None

    def applied(self, request: GenerateRequest, manifest: Manifest) -> GenerateRequest:
        """A caller's request with the operator's keys, as far as its task has them.

        Raises:
            InvalidValue: the caller asks for another value of one.
        """
        known = manifest.tasks[request.task].config
        ours = {key: value for key, value in self.config.items() if key in known}
        if not ours:
            return request
        for key, value in ours.items():
            given = request.config.get(key)
            if given is not None and accepted(known[key], given, f"config.{key}") != value:
                raise InvalidValue(
                    f"{manifest.id} is served with {key}={value!r}, not {given!r}.",
                    hint="Leave it out.",
                    param=f"config.{key}",
                )
        return request.model_copy(update={"config": {**request.config, **ours}})
