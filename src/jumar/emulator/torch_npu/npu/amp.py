"""Automatic mixed precision, by its older names."""

from typing import Any

import torch

__all__ = ["autocast"]


class autocast(torch.amp.autocast_mode.autocast):  # type: ignore[misc]  # noqa: N801
    """`torch.autocast("npu")`."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: torch.dtype = torch.float16,
        cache_enabled: bool = True,
    ) -> None:
        super().__init__("npu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)

    def __call__(self, func: Any) -> Any:
        return super().__call__(func)
