"""Results held against the golden function of a layer operator."""

from __future__ import annotations

import torch


def agree(layer, function, case, dtype, device="cpu"):
    """`function` gives for this case what the golden function gives, within the tolerance."""

    def placed(value):
        return value.to(device) if isinstance(value, torch.Tensor) else value

    args = [placed(one) for one in case.args]
    got = function(*args, **case.kwargs)
    golden = layer.golden(*case.args, **case.kwargs)
    got, golden = (layer.comparable(one, case) for one in (got, golden))
    relative, absolute = layer.tolerances[dtype]
    for one, other in zip(_listed(got), _listed(golden), strict=True):
        assert one.shape == other.shape, case.label
        assert other.dtype.is_floating_point or not one.dtype.is_floating_point
        torch.testing.assert_close(
            one.cpu().double(), other.double(), rtol=relative, atol=absolute, msg=case.label
        )
    for before, after in zip(case.args, args, strict=True):  # arguments are kept
        assert not isinstance(before, torch.Tensor) or torch.equal(before, after.cpu()), case.label


def _listed(result):
    return result if isinstance(result, (tuple, list)) else [result]
