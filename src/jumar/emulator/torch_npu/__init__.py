"""The emulated `torch_npu`: names of torch_npu 2.13.0, as far as they are needed.

This package is executed under the name `torch_npu` (`jumar.emulator.finder`). A name that is not
here raises AttributeError, as any module's; `tests/emulated` holds names and signatures against
what the real module has. The profile 2.1 adds the names of OmniRT's deployment page.
"""

import torch

from jumar.emulator.operators import schemas
from jumar.emulator.start import current_settings

from . import dynamo, npu, version
from .version import __version__

_operators = [name for name in schemas() if name != "get_npu_format"]
globals().update({name: getattr(torch.ops.npu, name) for name in _operators})

__all__ = ["__version__", "dynamo", "get_npu_format", "npu", "version", *_operators]


def get_npu_format(tensor: torch.Tensor) -> int:
    """2: ACL_FORMAT_ND, the only format that the emulated NPU has."""
    return int(torch.ops.npu.get_npu_format(tensor))


if current_settings().profile == "2.1":
    from . import document

    empty_cache = document.empty_cache
    npu.graph_mode = document.graph_mode  # type: ignore[attr-defined]
