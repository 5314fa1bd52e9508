"""The emulated `torch.npu`."""

from types import SimpleNamespace

from . import amp, devices, graphs, memory, random, streams
from .devices import *  # noqa: F403
from .graphs import *  # noqa: F403
from .memory import *  # noqa: F403
from .random import *  # noqa: F403
from .streams import *  # noqa: F403

device_class = "npu-emulated"
"""The one name that the real module has not: what an emulated device calls itself."""
config = SimpleNamespace(allow_internal_format=True)
"""Switches that programs set; nothing here depends on them."""

__all__ = [
    "amp",
    "config",
    "device_class",
    *devices.__all__,
    *graphs.__all__,
    *memory.__all__,
    *random.__all__,
    *streams.__all__,
]


# What torch itself asks a device module for.
def _is_in_bad_fork() -> bool:
    return devices.in_bad_fork()


def _lazy_init() -> None:
    devices.init()


def _get_device_index(device: object, optional: bool = False, allow_cpu: bool = False) -> int:
    return devices.index_of(device)
