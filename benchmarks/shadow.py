"""What a shadow costs: one MiniLM forward on an emulated NPU, judged and plain, in the same run.

    JUMAR_EMULATE_NPU=1 python -m benchmarks shadow

The bar is 15 times the plain forward; one in twenty calls is what a server can afford.
"""

from __future__ import annotations

import os

from benchmarks.measure import HEADER, in_turn

TEXTS = ["A quick brown fox jumps over the lazy dog.", "Nobody knows why the market fell."]


def main() -> None:
    """Print the table; without an emulated NPU there is nothing to judge."""
    print(f"\n{HEADER}")
    if not os.environ.get("JUMAR_EMULATE_NPU"):
        print("shadow: left out, set JUMAR_EMULATE_NPU=1")
        return
    import jumar
    from jumar.lab.shadow import Shadow

    with jumar.load("all-minilm-l6-v2", backend="npu:0", compile="off") as placed:
        for every in (1, 20):
            shadow = Shadow("npu:0", every=every)

            def judged(shadow: Shadow = shadow) -> None:
                with shadow:
                    placed.encode(TEXTS)

            name = f"MiniLM forward, one in {every} calls judged / plain"
            print(in_turn(name, judged, lambda: placed.encode(TEXTS), pairs=5).row())
            assert not shadow.guilty, shadow.guilty
