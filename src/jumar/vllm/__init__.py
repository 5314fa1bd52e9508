"""vLLM on Jumar's platform: an out-of-tree plugin that shows which implementation ran, and heals.

vLLM finds two entry points: the platform, asked once in each of its processes, and what is
registered in every process before a model is built. Neither imports torch or vLLM by itself.
"""

from __future__ import annotations


def platform_plugin() -> str | None:
    """The class path of the platform (`vllm.platform_plugins`); None where it stands aside."""
    return None


def register() -> None:
    """What every process of the engine registers before it builds a model."""
