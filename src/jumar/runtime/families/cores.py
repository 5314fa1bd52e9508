"""On how many cores a batch is computed.

cores = Cores(model)
with cores.for_tokens(12):
    model(...)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import mean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.nn import Module

WORTH_WAKING = 1 << 25
"""Multiplications of a linear layer from which on it pays to wake a sleeping thread for its part.
Measured for all-minilm-l6-v2: one core and two take equally long at 96 to 128 tokens, and one
takes half as long at 10."""


class Cores:
    """One core for small batches, where torch's threads sleep between two operators.

    Only there: threads that spin until they are wanted (OpenMP's own way) cost others their cores,
    but are there at once. And only in a process of its own: torch gives each thread that begins
    meanwhile as many as there are then, for ever.
    """

    def __init__(self, model: Module) -> None:
        import torch

        asleep = os.environ.get("OMP_WAIT_POLICY", "").upper() == "PASSIVE"
        layers = [one for one in model.modules() if isinstance(one, torch.nn.Linear)]
        on_cpu = all(one.weight.device.type == "cpu" for one in layers)
        sizes = [one.weight.numel() for one in layers] if asleep and on_cpu else []
        self._few = WORTH_WAKING // mean(sizes) if sizes else 0.0

    @contextmanager
    def for_tokens(self, count: int) -> Iterator[None]:
        """Compute so many tokens, then let others have the cores that they had."""
        import torch

        alone = threading.current_thread() is threading.main_thread()
        usual = torch.get_num_threads()
        if usual == 1 or count >= self._few or not alone:
            yield
            return
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(usual)
