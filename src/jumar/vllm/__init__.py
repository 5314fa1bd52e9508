"""vLLM on Jumar's platform: an out-of-tree plugin that shows which implementation ran, and heals.

vLLM finds two entry points: the platform, asked once in each of its processes, and what is
registered in every process before a model is built. Neither imports torch or vLLM by itself.
"""

from __future__ import annotations

import gc
import sys
from pathlib import PurePath

from jumar.vllm.activation import LOGGER, Activation, current

PLATFORMS = {"cpu": "jumar.vllm.platform.CPUPlatform", "npu": "jumar.vllm.platform.NPUPlatform"}
REFUSED = "jumar.vllm.refused.RefusedPlatform"

_told = False


def platform_plugin() -> str | None:
    """The class path of the platform (`vllm.platform_plugins`); None where it stands aside.

    vLLM runs another platform, without a word, where this raises. So whoever asked for a device
    that cannot be had gets a class that raises when vLLM makes it.
    """
    activation = current()
    tell(activation)
    if activation.error is not None:
        return REFUSED
    if activation.device and _is_vllms_own():
        gc.freeze()  # what is imported by now stays: collections during all other imports skip it
    return PLATFORMS[activation.device] if activation.device else None


def register() -> None:
    """What every process of the engine registers before it builds a model."""
    activation = current()
    tell(activation)
    device = activation.device
    if device is None:
        return
    from jumar.vllm import operators, patches

    patches.apply(device, "process")
    operators.register()


def tell(activation: Activation) -> None:
    """Say once what was decided: as soon as there is a log, which vLLM 0.33 sets up only after it
    has asked for the platform (then it has the platform speak: `log_warnings`).
    """
    global _told
    if _told or not LOGGER.hasHandlers():
        return
    _told = True
    what = f"active on {activation.device}" if activation.device else "not active"
    LOGGER.info("Jumar's platform is %s: %s", what, activation.reason)


def _is_vllms_own() -> bool:
    """Whether this process is a command or a child of vLLM's: what a user's program has left to be
    collected must not be kept for ever.
    """
    from multiprocessing import parent_process

    command = PurePath(sys.argv[0] if sys.argv else "")
    module = command.parts[-4:] == ("vllm", "entrypoints", "cli", "main.py")
    return parent_process() is not None or command.name == "vllm" or module
