"""Without a C++ compiler the emulated NPU runs in Python, and says what it lacks."""

from __future__ import annotations

import pytest
from tests.emulated.processes import python

MODEL = """
import copy, torch, torch_npu
from jumar import emulator
a = torch.randn(4, 5)
x = a.to("npu:1")
assert x.device == torch.device("npu:1") and torch.equal((x + 1).cpu(), a + 1)
view = x[1:]
view.fill_(3)
assert x[2, 2].item() == 3
net = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.LayerNorm(8), torch.nn.SiLU()).eval()
moved = copy.deepcopy(net).to("npu:0")
with torch.no_grad():
    torch.testing.assert_close(moved(a.to("npu:0")).cpu(), net(a))
moved(a.to("npu:0")).sum().backward()
before = torch.npu.memory_allocated(0)
held = torch.empty(1 << 18, device="npu:0")
assert torch.npu.memory_allocated(0) == before + (1 << 20)
try:
    torch.empty(1 << 40, device="npu:0")
except torch.OutOfMemoryError as error:
    print(str(error)[:43])
for op, call in (("mm", lambda: x @ x.t()), ("layer_norm", lambda: torch.layer_norm(x, (5,)))):
    with emulator.fault(op, text="coreDim"):
        try:
            call()
        except RuntimeError as error:
            print(str(error)[-50:])
    call()
with emulator.fault("mm", "wrong", how="zero"):
    assert (x @ x.t()).abs().sum().item() == 0
square = x @ x.t()
with emulator.fault("mm", "wrong", how="zero", when=lambda one, other: one.equal(other)):
    assert (square @ square).abs().sum().item() == 0
assert torch.equal(torch_npu.npu_silu(x).cpu(), torch_npu.npu_silu(x.cpu()))
try:
    x + a
except RuntimeError as error:
    print("same device" in str(error))
with torch.autocast("npu", dtype=torch.float16):
    assert moved[0](a.to("npu:0")).dtype == torch.float16
"""


@pytest.mark.parametrize(
    "environ",
    [
        {"JUMAR_EMULATE_NPU": "2,core=python"},
        {"JUMAR_EMULATE_NPU": "2", "CXX": "no-such-compiler"},
    ],
)
def test_it_computes_counts_and_fails_without_a_compiler(environ):
    told = python(MODEL, **environ)
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines() == [
        "NPU out of memory. Tried to allocate 4096.0",
        "is invalid. Expected value: less than or equal to 65535."[-50:],
        "is invalid. Expected value: less than or equal to 65535."[-50:],
        "True",
    ]
    assert "They lack: noise, NPUGraph" in told.stderr
