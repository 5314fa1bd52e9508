"""The same memory as CPU tensor and as npu tensor, and what each card counts of it."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

CPU, EXTENSION = 1, 12
"""DLDeviceType of dlpack.h; torch maps the second to PrivateUse1."""
BLOCK, SEGMENT = 512, 2 << 20


class _Tensor(ctypes.Structure):
    """The head of dlpack.h's DLTensor."""

    _fields_ = (("data", ctypes.c_void_p), ("type", ctypes.c_int32), ("index", ctypes.c_int32))


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
lock = threading.RLock()


class Card:
    """Counts by weak references to the CPU storages.

    A deleter in Python would run inside destructors of C++, also while an error is on its way,
    which callbacks of ctypes do not survive.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.allocations = self.frees = self.ooms = 0
        self.peak = self.reserved = self.peak_reserved = 0
        self._live: list[tuple[Any, int]] = []

    @property
    def allocated(self) -> int:
        """Bytes of the storages that live."""
        import torch

        storage = torch.UntypedStorage
        with lock:
            gone = [one for one in self._live if storage._expired(one[0])]
            self._live = [one for one in self._live if not storage._expired(one[0])]
            for reference, _ in gone:
                storage._free_weak_ref(reference)
            self.frees += len(gone)
            return sum(size for _, size in self._live)

    def room_for(self, storage: Any, index: int) -> tuple[int, int]:
        """What a storage takes, and what is taken with it. Raises torch.OutOfMemoryError."""
        import torch

        size = -(-storage.nbytes() // BLOCK) * BLOCK
        taken = self.allocated + size
        if taken > self.total:
            self.ooms += 1
            raise torch.OutOfMemoryError(self.oom_text(index, size))
        return size, taken

    def charge(self, storage: Any, index: int) -> None:
        """Count a storage. Raises torch.OutOfMemoryError where it does not fit."""
        with lock:
            size, taken = self.room_for(storage, index)
            self._live.append((storage._weak_ref(), size))
            self.allocations += 1
            self.peak = max(self.peak, taken)
            self.reserved = max(self.reserved, min(-(-taken // SEGMENT) * SEGMENT, self.total))
            self.peak_reserved = max(self.peak_reserved, self.reserved)

    def trim(self) -> None:
        """Give the cache back."""
        self.reserved = min(-(-self.allocated // SEGMENT) * SEGMENT, self.total)

    def reset_peak(self) -> None:
        """Begin to look for a new peak."""
        self.peak, self.peak_reserved = self.allocated, self.reserved

    def oom_text(self, index: int, wanted: int) -> str:
        """torch_npu's words."""
        free = max(self.total - self.reserved, 0)
        taken = in_words(self.allocated)
        return (
            f"NPU out of memory. Tried to allocate {in_words(wanted)} (NPU {index}; "
            f"{in_words(self.total)} total capacity; {taken} already allocated; {taken} current "
            f"active; {in_words(free)} free; {in_words(self.reserved)} reserved in total by "
            "PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to "
            "avoid fragmentation."
        )


cards: list[Card] = []


def in_words(size: int) -> str:
    """Bytes as torch writes them: 1.50 GiB."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{size} bytes"


def to_npu(tensor: Any, index: int) -> Any:
    """A CPU tensor's memory as npu:`index`."""
    import torch

    cards[index].charge(tensor.untyped_storage(), index)
    return torch._C._from_dlpack(_retag(torch._C._to_dlpack(tensor), EXTENSION, index))


def to_cpu(tensor: Any) -> Any:
    """An npu tensor's memory as CPU tensor, which keeps it alive."""
    import torch

    if tensor.is_conj():
        return to_cpu(tensor.conj()).conj()
    if tensor.is_neg():
        return to_cpu(tensor._neg_view())._neg_view()
    return torch._C._from_dlpack(_retag(torch._C._to_dlpack(tensor), CPU, 0))


def _retag(capsule: Any, kind: int, index: int) -> Any:
    head = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    head.type, head.index = kind, index
    return capsule
