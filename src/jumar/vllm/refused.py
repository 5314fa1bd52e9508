"""The platform that vLLM gets where somebody asked Jumar for a device that cannot be had."""

from __future__ import annotations

from jumar.vllm.activation import current


class RefusedPlatform:
    """Raises when vLLM makes it: inside the plugin an error would go unheard."""

    def __init__(self) -> None:
        error = current().error
        assert error is not None
        raise error
