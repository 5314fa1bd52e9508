"""Small programs for trials: what a child is told to make, and to run.

They order the faults of their card themselves, so that all can come from one zygote.
"""

from __future__ import annotations

import torch


def order(faults):
    """Set faults for the life of this process; they meet the card only."""
    from jumar.emulator.faults import acting, make_rule

    for fault in faults:
        acting.add(make_rule(fault))


def perceptron(device: str, faults, doubled: bool = False):
    """Two layers with fixed weights: a list of numbers."""
    order(faults)
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 4), torch.nn.Softmax(-1)
    )
    model, x = model.to(device), torch.ones(2, 8).to(device)
    if doubled:
        x.mul_(2)  # prepares with an operator that can be switched

    def work():
        with torch.inference_mode():
            return (model(x) + torch.tanh(x[:, :4])).cpu().tolist()

    return work


def accomplices(device: str, faults):
    """The card's softmax is wrong once the card's gelu has run."""
    ran = []
    gelu = {"op": "gelu", "kind": "wrong", "change": lambda output: ran.append(True)}
    softmax = {"op": "_softmax", "kind": "wrong", "when": lambda *inputs: bool(ran)}
    work = perceptron(device, [gelu, softmax])

    def anew():
        ran.clear()
        return work()

    return anew


def raising(device: str, faults):
    """Raises, whatever computes."""

    def work():
        torch.ones(2, device=device).exp()
        raise ValueError("not an operator's fault")

    return work
