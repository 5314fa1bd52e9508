"""Who computes the operators of a model in vLLM: decided once in each process, held by the layers.

register()      before models are built: layers hold what the policy in force says
bind(device)    in a worker, once its device is set: torch's own operators, each proven live
bound()         what was bound: operator, implementation, and the line that decided
"""

from __future__ import annotations

from typing import Any


def register() -> None:
    """Decide about the layer operators, and put the implementations into vLLM's layers."""


def bind(device: Any) -> None:
    """Put the policy's overrides of torch's operators in force on `device`, each proven live."""


def bound() -> list[tuple[str, str, str]]:
    """Operator, implementation and the line that decided, for what is bound in this process."""
    return []
