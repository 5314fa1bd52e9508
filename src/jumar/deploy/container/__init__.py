"""Containers that start: what a host must hand over, as a plan with the reason of each line.

>>> from jumar.host import open_host
>>> from jumar.deploy.container import docker, plan
>>> made = plan(open_host("host.tar.gz"), "quay.io/ascend/vllm-ascend:v0.13.0", devices=["0", "1"])
>>> print(docker(made))

`needs.yaml` says what each product needs; a plan takes of it what the host's facts show to exist,
so no mount has a missing source. `check` asks the same rows from inside a running container.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumar.deploy.container.base import Plan
    from jumar.deploy.container.checking import check
    from jumar.deploy.container.formats import compose, docker, kubernetes
    from jumar.deploy.container.planning import plan

__all__ = ["Plan", "check", "compose", "docker", "kubernetes", "plan"]

_HOMES = {
    "Plan": "base",
    "check": "checking",
    "compose": "formats",
    "docker": "formats",
    "kubernetes": "formats",
    "plan": "planning",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
