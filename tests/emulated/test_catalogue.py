"""The catalogue where torch_npu is loaded: here the emulated one, and it says so."""

from __future__ import annotations

import pytest
import torch

from jumar.contracts.errors import DeviceUnavailable
from jumar.operators.catalogue import live
from jumar.operators.catalogue.torch_npu import KEY
from jumar.operators.policy.explain import in_force


def test_kernels_of_the_loaded_torch_npu_are_its_implementations():
    catalogue = live()
    (add,) = catalogue.implementing(["aten::add.Tensor"], "torch_npu")
    registered = torch._C._dispatch_get_registrations_for_dispatch_key(KEY)
    own = {one.operator for one in catalogue.implementations if one.provider == "torch_npu"}
    assert add.key == KEY
    assert own == {name for name in registered if name.startswith(("aten::", "npu::", "atb::"))}


def test_an_emulated_torch_npu_is_never_taken_for_a_real_one():
    assert live().versions["torch_npu"].endswith("+emulated")


def test_operators_of_torch_npu_are_of_the_catalogue():
    assert live().operator("npu::npu_rms_norm").kind == "library"


def test_a_decision_is_asked_of_a_device_that_is_there():
    assert in_force("npu:1", live()).decide("aten::mm").implementation == "device"
    with pytest.raises(DeviceUnavailable, match="npu:7"):
        in_force("npu:7", live())
