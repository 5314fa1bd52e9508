"""Graphs through `torch.compile`: `torch_npu.dynamo.torchair`, which is `torchair` too."""

import sys

from . import torchair

sys.modules["torchair"] = torchair

__all__ = ["torchair"]
