"""An explicit device is honoured or refused; `auto` says why it chose what it chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.contracts.errors import DeviceUnavailable, InsufficientMemory, InvalidValue
from jumar.devices import Accelerator, Device, place
from jumar.devices.graphs import Graph

GIB = 2**30


class Fake:
    """An accelerator with as many devices as it is told, with so much free memory each."""

    def __init__(
        self, kind: str, backend: str, free_gib: tuple[float, ...], reason: str = ""
    ) -> None:
        self.kind, self.backend, self._free, self._reason = kind, backend, free_gib, reason

    def unavailable(self) -> str | None:
        return self._reason or None

    def device_class(self) -> str:
        return self.kind

    def devices(self) -> list[Device]:
        return [
            Device(self.kind, index, "fake", 64 * GIB, int(free * GIB))
            for index, free in enumerate(self._free)
        ]

    def dtypes(self, index: int) -> tuple[str, ...]:
        return ("fp16", "fp32")

    def configure(self, config: Mapping[str, Any]) -> list[str]:
        return []

    def synchronize(self, index: int) -> None: ...

    def reset_peak(self, index: int) -> None: ...

    def peak_mb(self, index: int) -> float | None: ...

    def empty_cache(self, index: int) -> None: ...

    def graphs(self) -> Sequence[Graph]:
        return ()

    def compiles_unasked(self) -> bool:
        return False

    def fingerprint(self) -> dict[str, str]:
        return {}


def machine(
    cuda: tuple[float, ...] = (), npu: tuple[float, ...] = (), npu_reason: str = ""
) -> dict[str, Accelerator]:
    return {
        "cpu": Fake("cpu", "cpu", (8.0,), ""),
        "cuda": Fake("cuda", "cuda", cuda, "" if cuda else "no NVIDIA driver"),
        "npu": Fake("npu", "ascend", npu, npu_reason or ("" if npu else "no torch_npu")),
    }


@pytest.mark.parametrize(
    ("asked", "given_", "backend"),
    [
        ("cpu", "cpu", "cpu"),
        ("cpu-stub", "cpu", "cpu"),
        ("cuda", "cuda:0", "cuda"),
        ("cuda:1", "cuda:1", "cuda"),
        ("npu", "npu:0", "ascend"),
        ("ascend", "npu:0", "ascend"),
        ("ascend:1", "npu:1", "ascend"),
        ("npu:free", "npu:1", "ascend"),
    ],
)
def test_a_named_device_is_honoured(asked: str, given_: str, backend: str) -> None:
    placement = place(asked, kinds=machine(cuda=(1, 2), npu=(3, 9)))
    assert (placement.torch_device, placement.backend) == (given_, backend)
    assert placement.requested == asked


@pytest.mark.parametrize("asked", ["npu", "npu:0", "ascend", "npu:free", "cuda", "cuda:0"])
def test_a_named_device_that_is_not_there_is_refused_never_replaced(asked: str) -> None:
    with pytest.raises(DeviceUnavailable) as refused:
        place(asked, kinds=machine())
    assert refused.value.hint == "Here there is: cpu."


def test_the_refusal_carries_the_accelerators_own_reason() -> None:
    reason = "torch_npu does not load: OSError: libhccl.so: cannot open shared object file"
    with pytest.raises(DeviceUnavailable, match="libhccl"):
        place("npu:0", kinds=machine(npu=(9,), npu_reason=reason))


def test_an_index_past_the_visible_devices_is_refused_with_their_number() -> None:
    with pytest.raises(DeviceUnavailable, match="no cuda:2: 2 visible, indices 0 to 1"):
        place("cuda:2", kinds=machine(cuda=(1, 1)))


def test_auto_takes_cuda_with_room_and_never_an_npu() -> None:
    kinds = machine(cuda=(1, 20), npu=(60,))
    assert place("auto", kinds=kinds, need_bytes=8 * GIB).torch_device == "cuda:1"
    full = place("auto", kinds=kinds, need_bytes=40 * GIB)
    assert full.torch_device == "cpu"
    assert "no device has 40.0 GiB free" in full.reason


def test_auto_on_a_machine_without_accelerators_says_why_it_is_the_cpu() -> None:
    placement = place("auto", kinds=machine())
    assert placement.reason == "auto: cuda: no NVIDIA driver; so the CPU"


def test_a_named_device_without_room_is_refused_with_both_numbers() -> None:
    with pytest.raises(InsufficientMemory, match="1.0 GiB free; this model needs about 8.0 GiB"):
        place("cuda:0", kinds=machine(cuda=(1, 20)), need_bytes=8 * GIB)


def test_npu_free_says_which_it_took() -> None:
    assert (
        "npu:1 has the most free memory (9.0 GiB)"
        in place("npu:free", kinds=machine(npu=(3, 9))).reason
    )


@pytest.mark.parametrize(
    "asked", ["gpu", "cuda0", "cuda:", "cuda:-1", "npu:x", "", "auto:1", "cpu:3"]
)
def test_a_text_that_names_no_device_is_an_invalid_value(asked: str) -> None:
    with pytest.raises(InvalidValue):
        place(asked, kinds=machine(cuda=(1,), npu=(1,)))


@given(st.text(max_size=12))
def test_any_text_gives_a_device_or_a_typed_error(asked: str) -> None:
    try:
        place(asked, kinds=machine(cuda=(1,), npu=(1,)))
    except (InvalidValue, DeviceUnavailable) as error:
        assert error.message


def test_this_machines_cpu_has_memory_and_a_fingerprint() -> None:
    placement = place("cpu")
    assert placement.device.total_bytes and placement.device.free_bytes
    assert placement.device.free_bytes <= placement.device.total_bytes
