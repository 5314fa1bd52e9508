"""Work for a watched shadow: an operator that ends as it is told."""

from __future__ import annotations

import os
import time


def work(ends):
    import torch

    library = torch.library.Library("jumar_shadowed", "DEF")
    library.define("ends(Tensor x) -> Tensor")

    def kernel(x):
        if ends == "abort":
            os.abort()
        if ends == "hang":
            time.sleep(600)
        return x + 1

    library.impl("ends", kernel, "CPU")

    def run(kept=library):
        torch.ops.jumar_shadowed.ends(torch.ones(3) * 2)

    return run
