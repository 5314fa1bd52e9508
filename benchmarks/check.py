"""What a check costs: 100 operators of 8 shape classes and more, on an emulated NPU.

    JUMAR_EMULATE_NPU=1 python -m benchmarks check

The bar is 60 s of wall time on 2 idle cores. CPU time is printed beside it, because it hardly
depends on what else the machine does.
"""

from __future__ import annotations

import os
import resource
import time

OPERATORS, SHAPE_CLASSES = 100, 8


def main() -> None:
    """Print one row; without an emulated NPU there is nothing to check."""
    if not os.environ.get("JUMAR_EMULATE_NPU"):
        print("\ncheck: left out, set JUMAR_EMULATE_NPU=1")
        return
    from jumar.isolate import Zygote
    from jumar.lab.check import Target
    from jumar.lab.check.running import PRELOAD, Done, Laboratory
    from jumar.lab.check.session import tasks

    ended: list[Done] = []
    began = time.perf_counter()
    with Zygote(PRELOAD) as zygote:
        laboratory = Laboratory(Target("device", "npu:0"), zygote)
        index = laboratory.index()
        ready = time.perf_counter() - began
        operators = [name for name in sorted(index) if name.startswith("aten::")]
        work = tasks(operators, ["float32"], index)
        wide: list[Done] = []

        def take(done: Done) -> None:
            ended.append(done)
            classes = {one.case.shape_class for one in done.findings.values()}
            if len(classes) >= SHAPE_CLASSES:
                wide.append(done)

        step = max(len(work) // (2 * OPERATORS), 1)
        spread = work[::step]
        while spread and len(wide) < OPERATORS:
            chunk, spread = spread[: OPERATORS - len(wide)], spread[OPERATORS - len(wide) :]
            laboratory.run(chunk, workers=2, ended=take)
    wall = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cases = sum(len(done.findings) for done in ended)
    bad = sum(not one.verdict.ok for done in ended for one in done.findings.values())
    print(
        f"\ncheck: {len(wide)} operators with {SHAPE_CLASSES} shape classes or more"
        f" ({len(ended)} operators, {cases} cases): {wall:.1f} s wall,"
        f" {used.ru_utime + used.ru_stime:.1f} s CPU, of which ready after {ready:.1f} s;"
        f" {bad} false alarms"
    )
