"""Graphs can be made, and can be told to fail with a real text that names the operator."""

from __future__ import annotations

import pytest
import torch
from tests.emulated.processes import python

from jumar.emulator import fault


def module():
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.SiLU()).to("npu:0").eval()


@pytest.fixture
def compiled():
    import torch._dynamo
    from torch_npu.dynamo import torchair

    torch._dynamo.reset()
    return lambda net: torch.compile(net, backend=torchair.get_npu_backend(), dynamic=False)


def test_a_compiled_module_answers_as_the_eager_one(compiled):
    net, x = module(), torch.randn(2, 4, device="npu:0")
    with torch.no_grad():
        assert torch.equal(compiled(net)(x), net(x))


def test_an_operator_that_cannot_be_compiled_is_named(compiled):
    net, x = module(), torch.randn(2, 4, device="npu:0")
    with (
        torch.no_grad(),
        fault("silu", "compile") as set_fault,
        pytest.raises(Exception, match="Unsupported torch op silu by ge"),
    ):
        compiled(net)(x)
    assert set_fault.hits == 1
    torch._dynamo.reset()
    with torch.no_grad(), fault("bmm", "compile"):
        compiled(net)(x)


def test_torchair_can_be_imported_by_its_own_name():
    import torchair
    from torchair.configs.compiler_config import CompilerConfig

    config = CompilerConfig()
    config.mode = "reduce-overhead"
    assert callable(torchair.get_npu_backend(compiler_config=config))


def test_a_captured_graph_runs_again_on_the_memory_of_its_inputs():
    net, x = module(), torch.randn(2, 4, device="npu:0")
    graph = torch.npu.NPUGraph()
    with torch.no_grad():
        with torch.npu.graph(graph):
            assert torch.npu.is_current_stream_capturing()
            y = net(x)
            y.add_(1)
        assert not torch.npu.is_current_stream_capturing()
        x.copy_(torch.randn(2, 4))
        graph.replay()
        assert torch.equal(y, net(x) + 1)


def test_a_captured_convolution_and_copy_run_again():
    conv, x = torch.nn.Conv1d(3, 4, 3).to("npu:0"), torch.randn(1, 3, 8, device="npu:0")
    z, graph = torch.empty(1, 4, 6, device="npu:0"), torch.npu.NPUGraph()
    with torch.no_grad():
        with torch.npu.graph(graph):
            z.copy_(conv(x))
        x.mul_(2)
        graph.replay()
        assert torch.equal(z, conv(x))


def test_what_waits_for_the_device_cannot_be_captured():
    x, graph = torch.ones(2, device="npu:0"), torch.npu.NPUGraph()
    for wait in (lambda: x.sum().item(), lambda: x.cpu()):
        refused = pytest.raises(RuntimeError, match="not permitted while a stream is capturing")
        with refused, torch.npu.graph(graph):
            wait()
        with pytest.raises(RuntimeError, match="without a preceding successful capture"):
            graph.replay()


def test_an_operator_that_cannot_be_captured_is_named():
    net, x, graph = module(), torch.randn(2, 4, device="npu:0"), torch.npu.NPUGraph()
    with fault("silu", "compile"), torch.no_grad():
        net(x)
        refused = pytest.raises(RuntimeError, match="Cannot run aclop operators.*Silu")
        with refused, torch.npu.graph(graph):
            net(x)


def test_a_forgotten_graph_gives_its_memory_back():
    import gc

    gc.collect()
    before = torch.npu.memory_allocated(0)
    graph = torch.npu.NPUGraph()
    x = torch.ones(1 << 18, device="npu:0")
    with torch.npu.graph(graph):
        y = x + 1
    del x, y
    assert torch.npu.memory_allocated(0) == before + (2 << 20)
    del graph
    gc.collect()
    assert torch.npu.memory_allocated(0) == before


GRAPH_MODE = (
    "import torch, torch_npu\n"
    "x = torch.ones(2, device='npu')\n"
    "with torch_npu.npu.graph_mode():\n"
    "    torch.nn.functional.silu(x)\n"
)


def test_the_pages_graph_mode_fails_with_the_pages_words():
    told = python(GRAPH_MODE, JUMAR_EMULATE_NPU="1,profile=2.1,graph=fail")
    assert "RuntimeError: graph mode init failed" in told.stderr
    named = python(
        GRAPH_MODE,
        JUMAR_EMULATE_NPU="1,profile=2.1",
        JUMAR_EMULATE_FAULTS="[{op: silu, kind: compile}]",
    )
    assert "graph mode init failed: operator silu" in named.stderr
    assert python(GRAPH_MODE, JUMAR_EMULATE_NPU="1,profile=2.1").returncode == 0
