"""What vLLM would run on here, and why: what `jumar vllm status` shows."""

from __future__ import annotations

from typing import Any

from jumar.vllm.activation import Activation, current
from jumar.vllm.versions import TESTED, installed, untested


def status() -> dict[str, Any]:
    """Plain JSON. Where Jumar's platform is not active there is nothing below `reason`.

    `platform` is the class that vLLM takes when it is asked here and now: what a plugin says and
    what vLLM does with it are two things.
    """
    activation, version = current(), installed()
    known = {
        "active": activation.device is not None,
        "reason": activation.reason,
        "vllm": {
            "version": version,
            "tested": list(TESTED),
            "warning": "vLLM is not installed." if version is None else untested(version),
        },
    }
    if version is None or activation.error is not None:
        return known
    return {**known, "platform": _platform(), **(_active(activation) if activation.device else {})}


def _platform() -> str:
    from vllm.platforms import current_platform

    kind = type(current_platform)
    return f"{kind.__module__}.{kind.__qualname__}"


def _active(activation: Activation) -> dict[str, Any]:
    from jumar.devices import accelerators
    from jumar.operators.layers import layer_operators
    from jumar.vllm import patches
    from jumar.vllm.attention import backend_path
    from jumar.vllm.operators.process import decided

    kind = str(activation.device)
    accelerator = accelerators()[kind]
    decisions = decided(kind).decisions
    return {
        "device": {
            "class": accelerator.device_class(),
            "devices": [f"{one.shown}: {one.name}" for one in accelerator.devices()],
        },
        "attention_backend": backend_path(kind),
        "patches": [{"name": row.patch.name, "state": row.state} for row in patches.examine(kind)],
        "operators": {
            name: {"implementation": decision.implementation, "why": decision.line.origin}
            for name in sorted(layer_operators())
            for decision in [decisions.decide(name)]
        },
    }
