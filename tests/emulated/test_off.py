"""Without the variable there is nothing."""

from __future__ import annotations

import pytest
from tests.emulated.conftest import ON
from tests.emulated.processes import python


@pytest.mark.skipif(ON, reason="is about processes without an emulated NPU")
def test_these_specifications_run_with_an_emulated_npu():
    pytest.skip("the rest of this folder runs with JUMAR_EMULATE_NPU=2")


@pytest.mark.parametrize("value", [None, "", "0"])
def test_off_means_that_torch_is_as_it_was(value):
    told = python(
        "import sys, torch;"
        "print(hasattr(torch, 'npu'), *(name in sys.modules for name in sys.argv[1:]))",
        "torch_npu",
        "jumar.emulator.start",
        JUMAR_EMULATE_NPU=value,
    )
    assert told.stdout.split() == ["False", "False", "False"]
    assert told.stderr == ""


def test_off_costs_less_than_a_millisecond():
    told = python(
        "import torch, time; from jumar.emulator import activate; a = time.process_time();"
        "[activate() for _ in range(100)]; print((time.process_time() - a) / 100)",
        JUMAR_EMULATE_NPU=None,
    )
    assert float(told.stdout) < 1e-3


def test_torchs_own_switch_keeps_it_out():
    told = python(
        "import torch; print(hasattr(torch, 'npu'))",
        JUMAR_EMULATE_NPU="2",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert told.stdout.split() == ["False"]
