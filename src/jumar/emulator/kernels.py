"""Kernels that are written in Python: the npu:: operators, autocast, and two of torch's own."""

from __future__ import annotations

from typing import Any


def register() -> list[Any]:
    """Register all of them; the libraries have to be kept."""
    from jumar.emulator import autocast, operators

    return [_torchs_own(), operators.register(), autocast.register()]


def _torchs_own() -> Any:
    """What torch calls on accelerators, and the CPU has not, or draws with its own generator."""
    import torch

    library = torch.library.Library("aten", "IMPL")
    library.impl("_thnn_fused_lstm_cell", _lstm_cell, "PrivateUse1")
    library.impl("_thnn_fused_gru_cell", _gru_cell, "PrivateUse1")
    library.impl("native_dropout", _dropout, "PrivateUse1")
    return library


def _dropout(x: Any, p: float, train: bool | None) -> tuple[Any, Any]:
    """Drawn by the card's own generator: the CPU's kernel takes the CPU's."""
    import torch

    if train is False or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    kept = torch.empty_like(x, dtype=torch.bool).bernoulli_(1 - p)
    return x * kept / (1 - p) if p < 1 else torch.zeros_like(x), kept


def _lstm_cell(
    input_gates: Any, hidden_gates: Any, cell: Any, input_bias: Any = None, hidden_bias: Any = None
) -> tuple[Any, Any, Any]:
    """Gates (batch, 4 hidden) in torch's order i, f, g, o; returns hidden, cell, workspace."""
    gates = input_gates + hidden_gates
    if input_bias is not None:
        gates = gates + input_bias + hidden_bias
    i, f, g, o = gates.chunk(4, 1)
    new_cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * new_cell.tanh(), new_cell, gates


def _gru_cell(
    input_gates: Any,
    hidden_gates: Any,
    hidden: Any,
    input_bias: Any = None,
    hidden_bias: Any = None,
) -> tuple[Any, Any]:
    """Gates (batch, 3 hidden) in torch's order r, z, n; returns hidden, workspace."""
    import torch

    if input_bias is not None:
        input_gates, hidden_gates = input_gates + input_bias, hidden_gates + hidden_bias
    (ir, iz, i_n), (hr, hz, hn) = input_gates.chunk(3, 1), hidden_gates.chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (i_n + r * hn).tanh()
    return n + z * (hidden - n), torch.cat((r, z, n, hidden, hn), 1)
