"""Where a fault happens: each scene takes a case and the lab, and says what came out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.faults.base import Measured
from benchmarks.faults.lab import Lab
from benchmarks.faults.scenes import binding, device, ladder, lint, switch

SCENES: dict[str, Callable[[Mapping[str, Any], Lab], Measured]] = {
    "device": device.measure,
    "lint": lint.measure,
    "binding": binding.measure,
    "switch": switch.measure,
    "ladder": ladder.measure,
}
