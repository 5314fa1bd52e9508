"""A heap that does not grow with the number of requests: what glibc is told about it."""

from __future__ import annotations

import ctypes
import sys

# malloc.h
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8

LARGE = 128 << 10
"""glibc's own first threshold, in bytes."""
ARENAS = 2


def keep_small() -> None:
    """Give large buffers (bodies, artifacts, answers) back to the kernel when they are freed.

    glibc raises its threshold with each large block that is freed, up to 32 MiB. From then on such
    blocks come from heaps, of which each thread has its own: every one keeps holes of the sizes
    that it has seen. For a process of a server only: one that computes gets and frees tensors all
    the time, and would wait for the kernel at each. Where there is no glibc, nothing happens.
    """
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc is not None and hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, LARGE)
        libc.mallopt(_M_ARENA_MAX, ARENAS)
