"""Jumar runs AI models on Ascend NPUs, NVIDIA GPUs and CPUs, and keeps wrong answers out.

Everything public is named here and loaded on first use, so that ``import jumar`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_WHERE = {
    "Artifact": "jumar.contracts",
    "GenerateRequest": "jumar.contracts",
    "GenerateResult": "jumar.contracts",
    "JumarError": "jumar.contracts",
    "RunReport": "jumar.contracts",
    "StageEventRecord": "jumar.contracts",
    "embed": "jumar.engine",
    "generate": "jumar.engine",
    "load": "jumar.engine",
    "requests": "jumar.contracts",
    "validate": "jumar.engine",
    "watch": "jumar.engine",
}

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'jumar' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
