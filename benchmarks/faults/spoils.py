"""What a fault does to an operator where the emulator has no kind of its own for it.

`change` gets an output as a tensor on the CPU and spoils it in place; `when` gets the inputs;
`kernel` computes the operator in place of the device's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.faults.base import CARD

NAMED = ("change", "when", "kernel")
"""Keys of a fault that may name a function of this module."""


def log_again(output: Any) -> None:
    """An in-place kernel whose padded grid runs the first elements twice."""
    flat = output.view(-1)
    flat[:33] = flat[:33].log()


def flat_index(output: Any) -> None:
    """`argmin(dim=1)` of a (4, 16) tensor counts through the whole tensor."""
    output += 16 * _numbers(output)


def storage_order(output: Any) -> None:
    """Written in the order of the input's memory, into memory of another order."""
    output.copy_(output.t().clone().view(output.shape))


def beyond_the_end(output: Any) -> None:
    """Writes one element more than it was given, where there is memory behind it."""
    place = output.storage_offset() + output.numel()
    if output.untyped_storage().nbytes() > place * output.itemsize:
        output.as_strided((1,), (1,), place).fill_(7)


def imprecise(output: Any) -> None:
    """A table with 12 bits of precision in place of a float32 function."""
    output.mul_(1 + 2.0**-12)


def last_block(output: Any) -> None:
    """The lanes of the last, incomplete block of 16 columns were loaded without a fill value."""
    output[..., output.shape[-1] // 16 * 16 :] = float("nan")


def always_contiguous(x: Any, **options: Any) -> Any:
    """`empty_like` that does not keep the order of its argument's memory."""
    import torch

    asked = {key: value for key, value in options.items() if value is not None}
    if asked.get("memory_format") in (None, torch.preserve_format):
        asked["memory_format"] = torch.contiguous_format
    return torch.empty(x.shape, **{"dtype": x.dtype, "device": x.device, **asked})


def transposed_input(*inputs: Any) -> bool:
    """A tensor whose memory is in another order than its dimensions."""
    return any(one.ndim == 2 and not one.is_contiguous() for one in inputs)


_ran: list[bool] = []


def note(output: Any) -> None:
    """A kernel of the other library was queued, on a stream of its own."""
    _ran.append(True)


def waited(output: Any) -> None:
    """The device was waited for: nothing runs any more."""
    _ran.clear()


def unordered(*inputs: Any) -> bool:
    """Whether something is still running on the other stream."""
    return bool(_ran)


def order(faults: Iterable[Mapping[str, Any]]) -> None:
    """Set faults for the life of this process; they meet the card only."""
    from jumar.emulator.faults import acting, make_rule
    from jumar.operators.base import Override
    from jumar.operators.overrides import install

    for one in faults:
        told = {key: globals()[value] if key in NAMED else value for key, value in one.items()}
        if "kernel" in told:
            override = Override(told["op"], "faulty")
            install([override], device=CARD, lookup={override: told["kernel"]}.__getitem__)
        else:
            acting.add(make_rule(told))


def _numbers(output: Any) -> Any:
    import torch

    return torch.arange(output.numel(), dtype=output.dtype).view(output.shape)
