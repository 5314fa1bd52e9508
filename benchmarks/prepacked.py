"""Products on the CPU with a matrix of weights: oneDNN's prepacked weights beside torch's own.

    python -m benchmarks prepacked

float32, one thread and all; the layers of all-minilm-l6-v2, and of SmolLM2-135M with its head.
Milliseconds of the fastest of six rounds, both in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

MODELS = {
    "all-minilm-l6-v2": ([(384, 384)] * 4 + [(1536, 384), (384, 1536)]) * 6,
    "SmolLM2-135M": [(960, 576), (576, 576), (3072, 576), (576, 1536)] * 30 + [(49152, 576)],
}
ROWS = (1, 2, 4, 8, 14, 32, 64, 256)


def main() -> None:
    """Print a line for each model and number of rows."""
    import torch

    from jumar.devices import prepacking

    if not prepacking.available():
        print("oneDNN is not here, or this processor is none of x86's.")
        return
    for threads in sorted({1, torch.get_num_threads()}):
        torch.set_num_threads(threads)
        print(f"{f'prepacked, {threads} threads (ms)':<44}{'oneDNN':>10}{'torch':>10}{'ratio':>9}")
        for name, shapes in MODELS.items():
            plain = [torch.randn(shape) for shape in shapes]
            blocks = [prepacking.prepacked(one) for one in plain]
            for rows in ROWS:
                given = {width: torch.randn(rows, width) for _, width in shapes}
                with torch.inference_mode():
                    ours, theirs = _beside(
                        partial(_all, prepacking.product, given, blocks),
                        partial(_all, torch.nn.functional.linear, given, plain),
                    )
                told = f"{name}, {rows} rows"
                print(f"{told:<44}{ours:>10.2f}{theirs:>10.2f}{ours / theirs:>9.3f}", flush=True)


def _beside(*works: Callable[[], None]) -> list[float]:
    best = [float("inf")] * len(works)
    for _ in range(6):
        for place, work in enumerate(works):
            begun = time.perf_counter()
            work()
            best[place] = min(best[place], (time.perf_counter() - begun) * 1e3)
    return best


def _all(product: Callable[..., Any], given: dict[int, Any], weights: list[Any]) -> None:
    for weight in weights:
        product(given[weight.shape[1]], weight)
