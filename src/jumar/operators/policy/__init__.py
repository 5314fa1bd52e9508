"""Who may compute which operator: written down with reasons, looked up once when a model is loaded.

policy = effective("npu")                          # platform < user < environment
decisions = resolve(policy, catalogue, fingerprint, quarantine)
decisions.decide("aten::linear").implementation    # 'device'
decisions.decide("aten::linear").steps             # every line that had a say
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumar.operators.policy.base import Policy, Rule
    from jumar.operators.policy.decide import Decision, Decisions, resolve
    from jumar.operators.policy.explain import in_force
    from jumar.operators.policy.files import effective, read_file

_HOMES = {
    "Policy": "base",
    "Rule": "base",
    "Decision": "decide",
    "Decisions": "decide",
    "resolve": "decide",
    "in_force": "explain",
    "effective": "files",
    "read_file": "files",
}

__all__ = [
    "Decision",
    "Decisions",
    "Policy",
    "Rule",
    "effective",
    "in_force",
    "read_file",
    "resolve",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
