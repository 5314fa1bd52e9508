"""Graphs that cannot be made: what a module is bound to, and what the report says."""

from __future__ import annotations

from benchmarks.faults.base import Measured
from benchmarks.faults.scenes.staged import scene


def graph(ill: bool) -> Measured:
    """A module climbs; its graph cannot be compiled or captured because of one operator."""
    import torch

    from jumar.devices import accelerators
    from jumar.runtime.ladder import BackendRuntime

    npu = accelerators()["npu"]
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.SiLU()).eval()
    x = torch.randn(2, 8)
    with torch.inference_mode():
        wanted = model(x)
        model = model.to("npu:0")
        runtime = BackendRuntime(
            graphs=npu.graphs(), compile="on", synchronize=lambda: npu.synchronize(0)
        )
        runtime.wrap_module(model, "model")
        got = model(x.to("npu:0")).cpu()
    attempts = runtime.timeline()[0].attempts
    failed = [one.reason or "" for one in attempts if one.level == "compile" and not one.ok]
    if not failed:
        return Measured("raises", None, named=False)
    served = attempts[-1].level == "eager" and torch.allclose(got, wanted, atol=1e-5)
    return Measured(
        "raises", "ladder", all("ilu" in one for one in failed), served=served, said=failed[0]
    )


measure = scene({"graph": graph})
