"""A layer holds the function that a decision bound it to: limits are enforced, nothing is added."""

from __future__ import annotations

import dis
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from jumar.contracts.errors import InvalidValue, OperatorUnavailable
from jumar.operators.base import Override
from jumar.operators.binding import Bindings
from jumar.operators.overrides import installed
from jumar.operators.providers import Implementation, provider
from jumar.plugins import PluginFailed


def silu_and_mul(x):
    a, b = x.chunk(2, -1)
    return torch.nn.functional.silu(a) * b


def wrong_arguments(x, y):
    return x


class Theirs:
    """A provider of somebody else, with limits of every kind."""

    name = "theirs"
    why = None
    needs = {"chip": ("Ascend910B*", "Ascend910_93*")}  # noqa: RUF012

    def version(self):
        return "1.0"

    def unavailable(self):
        return self.why

    def layers(self):
        limits = {"dtypes": ("float16",), "devices": ("cpu", "npu"), "needs": self.needs}
        return {
            "silu_and_mul": Implementation(lambda: silu_and_mul, **limits),
            "moe_sum": Implementation(lambda: wrong_arguments, **limits),
            "gelu_and_mul": Implementation(lambda: torch.relu, **limits),
        }

    def functions(self):
        return {}


THEIRS = Theirs()
NPU = {"chip": "Ascend910B3"}


def bindings(order, device="npu:0", fingerprint=NPU, **others):
    def find(name):
        return THEIRS if name == "theirs" else provider(name)

    decisions = dict.fromkeys(("silu_and_mul", "moe_sum", "gelu_and_mul"), order)
    return Bindings(decisions, device, fingerprint, find, **others)


def test_what_is_bound_is_the_provider_s_own_function():
    function = bindings("theirs").bind("silu_and_mul", "float16")
    assert function is silu_and_mul


def test_a_decision_may_be_asked_for():
    asked = []
    made = Bindings(lambda name: asked.append(name) or "reference", "cpu")
    made.bind("rms_norm", "float32")
    assert asked == ["rms_norm"] and made.bound == {"rms_norm": "reference"}


@pytest.mark.parametrize(
    ("device", "dtype", "fingerprint", "why"),
    [
        ("cuda:0", "float16", NPU, "theirs is for cpu and npu"),
        ("npu:0", "bfloat16", NPU, "theirs computes float16"),
        ("npu:0", "float16", {"chip": "Ascend310P3"}, "needs chip Ascend910B.* it is Ascend310P3"),
        ("npu:0", "float16", {}, "needs chip .* nobody can tell"),
    ],
)
def test_declared_limits_are_enforced(device, dtype, fingerprint, why):
    with pytest.raises(OperatorUnavailable, match=why):
        bindings("theirs", device, fingerprint).bind("silu_and_mul", dtype)
    made = bindings(("theirs", "reference"), device, fingerprint)
    made.bind("silu_and_mul", dtype)
    assert made.bound == {"silu_and_mul": "reference"}
    assert made.made[0].passed_over[0][0] == "theirs"


def test_a_provider_that_cannot_be_used_says_why(monkeypatch):
    monkeypatch.setattr(Theirs, "why", "its driver is too old")
    with pytest.raises(OperatorUnavailable, match="its driver is too old"):
        bindings("theirs").bind("silu_and_mul", "float16")


def test_two_dtypes_may_be_bound_to_two_providers():
    made = bindings(("theirs", "reference"))
    made.bind("silu_and_mul", "float16")
    made.bind("silu_and_mul", "float32")
    assert made.bound == {"silu_and_mul": "theirs, reference"}


def test_a_function_with_other_arguments_is_refused():
    with pytest.raises(InvalidValue, match="wrong_arguments does not take"):
        bindings("theirs").bind("moe_sum", "float16")


def test_a_function_without_a_frame_is_refused():
    with pytest.raises(InvalidValue, match="only the frame of a Python function"):
        bindings("theirs").bind("gelu_and_mul", "float16")


def test_what_was_not_decided_is_an_error():
    with pytest.raises(InvalidValue, match="Nothing was decided about rms_norm"):
        bindings("reference").bind("rms_norm", "float32")
    with pytest.raises(InvalidValue, match="no provider 'referense'"):
        bindings("referense").bind("silu_and_mul", "float32")


class Layer(torch.nn.Module):
    def __init__(self, made):
        super().__init__()
        self.activate = made.bind("silu_and_mul", "float32")
        self.norm = made.bind("rms_norm", "float32")
        self.weight = torch.nn.Parameter(torch.ones(8))

    def forward(self, x):
        normalised, total = self.norm(self.activate(x), self.weight, 1e-6, x[..., :8])
        return normalised + total


def test_a_graph_of_bound_layers_has_no_break():
    layer = Layer(Bindings({"silu_and_mul": "reference", "rms_norm": "reference"}, "cpu"))
    x = torch.randn(3, 16)
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), layer(x))
    assert torch._dynamo.explain(layer)(x).graph_break_count == 0


def test_built_in_functions_have_no_lookup_on_the_way_to_the_kernel():
    """Of torch_npu's activation nothing is left but the call of the kernel it holds."""
    from jumar.operators.providers import torch_npu

    code = next(c for c in torch_npu._silu_and_mul.__code__.co_consts if hasattr(c, "co_code"))
    assert not [one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"]


# ---- third parties -------------------------------------------------------------------------------


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    info = tmp_path / "other_ops-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-ops\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(
        "[jumar.operator_providers]\nother = other_ops:Other\nbroken = other_broken:Other\n"
    )
    (tmp_path / "other_ops.py").write_text(
        """
import torch
from jumar.operators.providers import Implementation

class Other:
    name = "other"
    def version(self): return "1.2"
    def unavailable(self): return None
    def layers(self): return {"moe_sum": Implementation(lambda: moe_sum)}
    def functions(self): return {"aten::tanh": Implementation(lambda: tanh)}

def moe_sum(x): return x.sum(1)
def tanh(x): return torch.full_like(x, 7)
"""
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_provider_of_another_distribution_is_found_by_its_entry_point(other):
    made = Bindings({"moe_sum": ("other", "reference")}, "cpu")
    total = made.bind("moe_sum", "float32")(torch.ones(2, 3, 4))
    assert torch.equal(total, torch.full((2, 4), 3.0))
    assert made.bound == {"moe_sum": "other"}


def test_its_functions_override_torch_s_operators(other):
    with installed({Override("aten::tanh", "other")}, device="cpu"):
        assert torch.zeros(1).tanh().item() == 7
    assert torch.zeros(1).tanh().item() == 0


def test_one_that_cannot_be_imported_says_so_when_it_is_asked_for(other):
    assert Bindings({"moe_sum": "reference"}, "cpu").bind("moe_sum", "float32")
    with pytest.raises(PluginFailed, match="'broken'.*other-ops 1.2"):
        Bindings({"moe_sum": "broken"}, "cpu").bind("moe_sum", "float32")


def test_naming_operators_and_providers_loads_no_torch():
    code = """
import json, sys
from jumar.operators.layers import layer_operators
from jumar.operators.providers import provider, providers
from jumar.operators.binding import Bindings
for name in ("reference", "torch_npu"):
    provider(name).layers()
layer_operators()["rms_norm"].signature
print(json.dumps([sorted(providers()), "torch" in sys.modules]))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == [["flag_gems", "reference", "torch_npu"], False]


def test_a_policy_decides_and_its_quarantine_counts():
    from jumar.evidence import Evidence, Subject, quarantine
    from jumar.operators.catalogue.base import Catalogue
    from jumar.operators.policy.base import Policy
    from jumar.operators.policy.decide import resolve
    from jumar.operators.policy.layers import with_layers

    bad = Evidence(
        subject=Subject(operator="rms_norm", implementation="reference"),
        fingerprint={},
        verdict="wrong",
        found_by="check",
        at=1.0,
    )
    catalogue = with_layers(Catalogue({}, {}), usable_only=True)
    free = resolve(Policy(), catalogue, {}, quarantine([], {}))
    made = Bindings(free.order, "cpu")
    made.bind("rms_norm", "float32")
    assert made.bound == {"rms_norm": "reference"}
    held = resolve(Policy(), catalogue, {}, quarantine([bad], {}))
    with pytest.raises(OperatorUnavailable, match="in quarantine: wrong"):
        Bindings(held.order, "cpu").bind("rms_norm", "float32")
