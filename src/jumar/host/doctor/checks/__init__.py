"""The conditions of the rules: small functions from `HostFacts` to evidence, one module per topic.

Importing this package fills `CHECKS`.
"""

from __future__ import annotations

from jumar.host.doctor.checks import (
    chips,
    container,
    devices,
    environment,
    memory,
    network,
    python,
    versions,
    visibility,
)
from jumar.host.doctor.checks.common import CHECKS

__all__ = [
    "CHECKS",
    "chips",
    "container",
    "devices",
    "environment",
    "memory",
    "network",
    "python",
    "versions",
    "visibility",
]
