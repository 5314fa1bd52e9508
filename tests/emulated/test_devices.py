"""Cards, memory, streams: what a program asks a device for."""

from __future__ import annotations

import threading

import pytest
import torch
from tests.emulated.comparing import CARD

CORE = torch.ops.jumar_emulator


def test_it_shows_as_emulated_everywhere():
    import importlib.metadata

    import torch_npu

    assert torch.npu.device_class == "npu-emulated"
    assert torch.npu.get_device_name(0).endswith("(emulated)")
    assert torch.npu.get_device_properties(0).name.endswith("(emulated)")
    assert torch_npu.__version__.endswith("+emulated")
    assert importlib.metadata.version("torch_npu") == torch_npu.__version__


def test_the_current_card_is_what_npu_means():
    assert torch.npu.is_available() and torch.npu.device_count() >= 2
    torch.npu.set_device(1)
    assert torch.empty(1, device="npu").device.index == 1
    assert torch.ones(1).npu().device.index == torch.ones(1).to("npu").device.index == 1
    with torch.npu.device(0):
        assert torch.empty(1, device="npu").device.index == 0
    assert torch.npu.current_device() == 1


def test_a_card_that_is_not_there_is_an_error_with_the_runtimes_number():
    with pytest.raises(RuntimeError, match="107001"):
        torch.npu.set_device(63)
    with pytest.raises(RuntimeError, match="107001"):
        torch.empty(1, device="npu:63")


def test_the_current_card_is_the_threads_own():
    seen = []

    def work():
        torch.npu.set_device(1)
        seen.append(torch.npu.current_device())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [1] and torch.npu.current_device() == 0


def test_memory_is_counted_to_the_byte(small_card):
    device = f"npu:{small_card}"
    before = torch.npu.memory_allocated(device)
    x = torch.empty(1 << 20, device=device)
    assert torch.npu.memory_allocated(device) - before == 4 << 20
    view = x[10:]
    del x
    assert torch.npu.memory_allocated(device) - before == 4 << 20
    y = view + 1
    assert torch.npu.memory_allocated(device) - before == 8 << 20
    del view, y
    assert torch.npu.memory_allocated(device) == before
    assert torch.npu.max_memory_allocated(device) >= before + (8 << 20)


def test_a_cache_keeps_memory_until_it_is_emptied(small_card):
    before = torch.npu.memory_allocated(small_card)
    x = torch.empty(4 << 20, device=f"npu:{small_card}")
    del x
    assert torch.npu.memory_reserved(small_card) >= 16 << 20
    free = torch.npu.mem_get_info(small_card)[0]
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved(small_card) <= before + (2 << 20)
    assert torch.npu.mem_get_info(small_card)[0] > free
    torch.npu.reset_peak_memory_stats(small_card)
    assert torch.npu.max_memory_allocated(small_card) == before


def test_a_full_card_says_so_in_torch_npus_words(small_card):
    device = f"npu:{small_card}"
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(1 << 29, device=device)
    assert isinstance(caught.value, RuntimeError)
    assert str(caught.value).startswith(
        "NPU out of memory. Tried to allocate 2.00 GiB (NPU 1; 1.00 GiB total capacity; "
    )
    held = [torch.empty(100 << 20, dtype=torch.uint8, device=device) for _ in range(10)]
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(100 << 20, dtype=torch.uint8, device=device)
    torch.empty(100 << 20, dtype=torch.uint8, device=CARD)
    del held
    torch.empty(100 << 20, dtype=torch.uint8, device=device)
    assert torch.npu.memory_stats(small_card)["num_ooms"] >= 2


def test_a_result_that_does_not_fit_is_refused_too(small_card):
    x = torch.empty(150 << 20, device=f"npu:{small_card}")
    with pytest.raises(torch.OutOfMemoryError):
        x + 1


def test_streams_and_events():
    stream = torch.npu.Stream()
    first, last = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    with torch.npu.stream(stream):
        first.record()
        torch.randn(10, device=CARD).record_stream(stream)
        last.record()
        assert torch.npu.current_stream() == stream
    assert torch.npu.current_stream() == torch.npu.default_stream()
    stream.synchronize()
    torch.npu.current_stream().wait_stream(stream)
    assert first.elapsed_time(last) >= 0


def test_torch_accelerator_is_the_npu():
    assert torch.accelerator.current_accelerator().type == "npu"
    assert torch.accelerator.device_count() == torch.npu.device_count()
    torch.accelerator.set_device_index(1)
    assert torch.npu.current_device() == 1
    event, stream = torch.Event(device="npu:1"), torch.Stream(device="npu:1")
    event.record(stream)
    event.synchronize()
    torch.accelerator.synchronize()
    torch.accelerator.empty_cache()
    torch.accelerator.empty_host_cache()


def test_an_operator_that_npus_lack_runs_on_the_cpu_with_a_caution():
    from jumar.emulator.start import _native_operators

    assert "aten::lgamma" not in _native_operators()
    with pytest.warns(UserWarning, match="CAUTION: The operator 'aten::lgamma"):
        torch.ones(3, device=CARD).lgamma()
