"""Weights of linear layers as oneDNN wants them, for products on the CPU.

    told = prepack(model)      # float32 Linear layers compute by oneDNN from now on
    told.layers, told.refused  # how many do, and why others do not

torch multiplies float32 by MKL, which on AMD's processors takes two to three times as long
(`python -m benchmarks prepacked`). oneDNN comes with torch, and needs weights that lie in blocks of
its own. They replace the plain ones, so that no memory is spent twice; a model that reads such a
weight itself gets a plain copy (`Blocks`).
"""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Linear, Module

LEAST = 1 << 17
"""Numbers in a weight from which on it pays: a call takes some 8 µs more than one of torch's."""

_ROWS = 64
"""Rows that the blocks are chosen for. From 2 on all get the same; those for 1 are slower for 2."""

_PROBES = 4
"""Rows that each product is tried on before it is taken."""


@dataclass
class Prepacked:
    """What became of a model's linear layers. `refused` has a sentence for each that stayed."""

    layers: int = 0
    refused: list[str] = field(default_factory=list)

    def refuse(self, name: str) -> None:
        """The layer of this name stays as it was: `prepacked` had no blocks for it."""
        self.refused.append(f"{name or 'the module itself'}: oneDNN's product is not torch's")

    def __str__(self) -> str:
        return "; ".join([f"oneDNN multiplies in {self.layers} linear layers", *self.refused])


def available() -> bool:
    """Whether oneDNN is here and faster: measured on x86 only."""
    import torch

    if platform.machine() not in ("x86_64", "AMD64") or not torch.backends.mkldnn.is_available():
        return False
    return all(hasattr(torch.ops.mkldnn, name) for name in ("_reorder_linear_weight", _PRODUCT))


def prepack(model: Module) -> Prepacked:
    """Give the weight of each large float32 Linear of its own to oneDNN; nothing where that is not
    `available`. One that another module shares is left alone, for that reads it in its own way.
    """
    told = Prepacked()
    if not available():
        return told
    for name, layer in _linear(model):
        blocks = prepacked(layer.weight)
        if blocks is None:
            told.refuse(name)
            continue
        _give(layer, blocks)
        told.layers += 1
    return told


def worth_it(weight: Tensor) -> bool:
    """Whether it is a weight [out, in] on the CPU, float32 and large enough."""
    import torch

    dense = weight.layout == torch.strided and weight.device.type == "cpu" and weight.dim() == 2
    return bool(dense and weight.dtype == torch.float32 and weight.numel() >= LEAST)


def prepacked(weight: Tensor) -> Tensor | None:
    """float32 [out, in] in oneDNN's blocks; None where products with it are not what torch's are.

    Two ways to add up n products may differ by n eps Σ|x||w| (Higham, Accuracy and Stability of
    Numerical Algorithms, 3.1): more is a fault.
    """
    import torch

    with torch.no_grad():
        blocks: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _ROWS)
        probe = torch.randn(_PROBES, weight.shape[1], generator=torch.Generator().manual_seed(0))
        wanted = torch.nn.functional.linear(probe, weight)
        most = torch.nn.functional.linear(probe.abs(), weight.abs())
        most *= weight.shape[1] * torch.finfo(torch.float32).eps
        same = bool(((product(probe, blocks) - wanted).abs() <= most).all())
    return blocks if same else None


def product(given: Tensor, blocks: Tensor, bias: Tensor | None = None) -> Tensor:
    """[..., in] x [out, in]ᵀ + [out] → [..., out], float32; `blocks` are from `prepacked`."""
    import torch

    found: Tensor = torch.ops.mkldnn._linear_pointwise(given, blocks, bias, "none", [], "")
    return found


_PRODUCT = "_linear_pointwise"


def _linear(model: Module) -> list[tuple[str, Linear]]:
    import torch

    owners: dict[int, int] = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            owners[id(parameter)] = owners.get(id(parameter), 0) + 1
    return [
        (name, layer)
        for name, layer in model.named_modules()
        if type(layer) is torch.nn.Linear
        and worth_it(layer.weight)
        and owners.get(id(layer.weight)) == 1  # else computed from others: weight_norm, pruning
    ]


def _give(layer: Linear, blocks: Tensor) -> None:
    from jumar.devices.blocks import Blocks

    layer.weight = Blocks(blocks, requires_grad=False)
    layer.forward = lambda given: product(given, blocks, layer.bias)
