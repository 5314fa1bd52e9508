"""Products of few rows with a matrix of weights on the CPU: laid out by columns beside by rows.

    python -m benchmarks.vllm_columns

The shapes are those of a decode step of SmolLM2-135M: 30 layers and the head, float32, one thread.
Milliseconds of the fastest of six rounds, both layouts in turn.
"""

from __future__ import annotations

import time

SHAPES = [(960, 576), (576, 576), (3072, 576), (576, 1536)]
LAYERS = 30
HEAD = (49152, 576)


def main() -> None:
    """Print a line for each number of rows."""
    import torch

    torch.set_num_threads(1)
    rows = [torch.randn(shape) for _ in range(LAYERS) for shape in SHAPES] + [torch.randn(HEAD)]
    columns = [one.t().contiguous().t() for one in rows]
    print("rows of input   by rows, ms   by columns, ms   ratio")
    for count in (1, 2, 4, 8, 12, 14, 16, 24, 32, 64):
        given = {width: torch.randn(count, width) for width in (576, 1536)}
        best = [float("inf")] * 2
        for _ in range(6):
            for index, weights in enumerate((rows, columns)):
                begun = time.perf_counter()
                for weight in weights:
                    torch.nn.functional.linear(given[weight.shape[1]], weight)
                best[index] = min(best[index], time.perf_counter() - begun)
        by_rows, by_columns = (1e3 * one for one in best)
        print(
            f"{count:>13}{by_rows:>14.1f}{by_columns:>17.1f}{by_columns / by_rows:>8.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
