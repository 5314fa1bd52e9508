"""What the check found in FlagGems 5.0.2, shown by its own functions and nothing of the check.

    TRITON_INTERPRET=1 JUMAR_EMULATE_NPU=1 .venv-gems/bin/python tools/flag_gems/defects.py

Each line: the call, what the CPU says, what FlagGems' function for Ascend says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flag_gems
import torch

WHOLE = torch.tensor([[3.0, 1.0, 9.0, 4.0], [5.0, 8.0, 0.0, 2.0], [7.0, 6.0, 10.0, 11.0]])
TURNED = WHOLE.t()
PICKED = torch.tensor([2, 0])
CHOSEN = torch.tensor([True, False, True])
ACROSS = torch.tensor([[0, 1, 2], [1, 2, 0]]).t()
NOTHING = torch.empty(0, 5)
LEFT, RIGHT = torch.empty(5, 0), torch.empty(0, 4)
SCALAR = torch.tensor(1.0)

CALLS: tuple[tuple[str, Callable[[], Any], Callable[[], Any]], ...] = (
    (
        "TURNED[PICKED].sum(1)",
        lambda: TURNED[PICKED].sum(1),
        lambda: flag_gems.index(TURNED.npu(), [PICKED.npu()]).cpu().sum(1),
    ),
    (
        "WHOLE[CHOSEN].shape",
        lambda: WHOLE[CHOSEN].shape,
        lambda: flag_gems.index(WHOLE.npu(), [CHOSEN.npu()]).shape,
    ),
    (
        "WHOLE[:, PICKED].shape",
        lambda: WHOLE[:, PICKED].shape,
        lambda: flag_gems.index(WHOLE.npu(), [None, PICKED.npu()]).shape,
    ),
    (
        "WHOLE.gather(0, ACROSS)[1]",
        lambda: WHOLE.gather(0, ACROSS)[1],
        lambda: flag_gems.gather(WHOLE.npu(), 0, ACROSS.npu()).cpu()[1],
    ),
    ("TURNED.argmin()", TURNED.argmin, lambda: flag_gems.argmin(TURNED.npu()).cpu()),
    ("SCALAR.argmax(0)", lambda: SCALAR.argmax(0), lambda: flag_gems.argmax(SCALAR.npu(), 0)),
    (
        "NOTHING.softmax(1).shape",
        lambda: NOTHING.softmax(1).shape,
        lambda: flag_gems.softmax(NOTHING.npu(), 1).shape,
    ),
    (
        "NOTHING.t().softmax(0).shape",
        lambda: NOTHING.t().softmax(0).shape,
        lambda: flag_gems.softmax(NOTHING.t().npu(), 0).shape,
    ),
    (
        "NOTHING.cumsum(1).shape",
        lambda: NOTHING.cumsum(1).shape,
        lambda: flag_gems.cumsum(NOTHING.npu(), 1).shape,
    ),
    ("NOTHING.all()", NOTHING.all, lambda: flag_gems.all(NOTHING.npu())),
    (
        "NOTHING.fill(1).shape",
        lambda: torch.fill(NOTHING, 1.0).shape,
        lambda: flag_gems.fill_scalar(NOTHING.npu(), 1.0).shape,
    ),
    (
        "torch.mm(LEFT, RIGHT, out=…)[0]",
        lambda: torch.mm(LEFT, RIGHT)[0],
        lambda: flag_gems.mm_out(LEFT.npu(), RIGHT.npu(), out=torch.empty(5, 4).npu()).cpu()[0],
    ),
)


def main() -> None:
    for call, right, got in CALLS:
        print(f"{call}: {shown(right)}; FlagGems: {shown(got)}")


def shown(ask: Callable[[], Any]) -> str:
    """The answer, or what was raised."""
    try:
        answer = ask()
    except Exception as error:  # noqa: BLE001  (which one it is, is what is shown)
        return f"{type(error).__name__}: {error}"
    return str(answer.tolist() if isinstance(answer, torch.Tensor) else tuple(answer))


if __name__ == "__main__":
    main()
