"""Large buffers of a server go back to the kernel, however many there were before."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, sys
from jumar.server.heap import keep_small

class Info(ctypes.Structure):  # mallinfo(3)
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info
if sys.argv[1:]:
    keep_small()
for _ in range(3):
    bytearray(8 << 20)                # freed at once: glibc takes its size as the new threshold
before = libc.mallinfo2().hblks       # blocks that the kernel gave, one by one
held = bytearray(1 << 20)
print(libc.mallinfo2().hblks - before)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallinfo2"),
    reason="glibc from 2.33 on tells where its blocks are",
)
@pytest.mark.parametrize(("told", "own"), [([], "0"), (["keep small"], "1")], ids=["usual", "told"])
def test_a_large_block_is_the_kernels_also_after_larger_ones_were_freed(told, own):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *told], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == own
