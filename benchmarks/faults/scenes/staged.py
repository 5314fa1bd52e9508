"""Scenes that are played in Python: a function, once with its fault and once without."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from benchmarks.faults.base import Measured
from benchmarks.faults.lab import Lab

Play = Callable[[bool], Measured]
"""Plays the scene; True: with the fault."""


def measured(play: Play, lab: Lab, faults: Any = ()) -> Measured:
    """What came out with the fault; what is said without it is a false alarm."""
    well: Measured = lab.within(play, False)
    begun = time.monotonic()
    ill: Measured = lab.within(play, True, faults=faults)
    alarms = (well.said or "said so",) if well.detected else ()
    return replace(ill, alarms=alarms, seconds=time.monotonic() - begun)


def scene(plays: Mapping[str, Play]) -> Callable[[Mapping[str, Any], Lab], Measured]:
    """A scene whose cases say under `play` what is played."""

    def measure(case: Mapping[str, Any], lab: Lab) -> Measured:
        return measured(plays[case["play"]], lab, case.get("faults", ()))

    return measure
