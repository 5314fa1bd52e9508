"""One forward names every operator that computes wrong, and no other."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from jumar.emulator import fault, noise
from jumar.lab.shadow import Shadow

CULPRITS = (("gelu",), ("native_layer_norm", "addmm"), ("_softmax", "gelu", "index_select"))
THREE = CULPRITS[-1]
KINDS = {
    "scale": {"kind": "wrong", "how": "scale"},
    "nan": {"kind": "wrong", "how": "nan"},
    "zero": {"kind": "wrong", "how": "zero"},
    "lanes": {"kind": "wrong", "how": "lanes"},
    "nondeterministic": {"kind": "nondeterministic"},
}
TEXTS = ["A quick brown fox jumps over the lazy dog."]


@pytest.fixture(scope="module", params=["fp32", "fp16", "bf16"])
def minilm(request):
    import jumar

    with jumar.load(
        "all-minilm-l6-v2", backend="npu:0", compile="off", dtype=request.param
    ) as placed:
        yield lambda: placed.encode(TEXTS)


def named(shadow):
    return {one.operator for one in shadow.guilty}


@pytest.mark.models
@pytest.mark.parametrize(
    ("culprits", "kind"),
    [*((one, "scale") for one in CULPRITS), *((THREE, kind) for kind in KINDS if kind != "scale")],
    ids=lambda value: value if isinstance(value, str) else "+".join(value),
)
def test_all_culprits_are_named_in_one_forward_and_nobody_else(minilm, culprits, kind):
    with contextlib.ExitStack() as faults, noise("on", seed=1):
        for op in culprits:
            faults.enter_context(fault(op, **KINDS[kind]))
        with Shadow("npu:0") as shadow:
            minilm()
    assert named(shadow) == {f"aten::{op}" for op in culprits}
    assert {one.kind for one in shadow.guilty} == {KINDS[kind]["kind"]}


@pytest.mark.models
def test_legal_noise_is_no_alarm(minilm):
    with noise("on", seed=7), Shadow("npu:0") as shadow:
        minilm()
    assert shadow.guilty == []
    assert shadow.coverage.compared > 100


@pytest.mark.models
def test_a_pictures_whole_pipeline_is_no_alarm_and_a_fault_in_it_is(tmp_path):
    import jumar

    asked = {"prompt": "seven", "num_inference_steps": 1}
    with jumar.load("sdxl-digits", backend="npu:0", compile="off") as placed, noise("on", seed=2):
        with Shadow("npu:0") as clean:
            assert placed.generate(out=tmp_path / "a", **asked).ok
        with fault("convolution", "wrong"), Shadow("npu:0", every=4) as shadow:
            assert placed.generate(out=tmp_path / "b", **asked).ok
    assert clean.guilty == []
    assert clean.coverage.compared > 200
    assert named(shadow) == {"aten::convolution"}
    assert any("UNet" in (one.layer or "") for one in shadow.guilty)


X = torch.randn(4, 16, generator=torch.Generator().manual_seed(3))


@pytest.fixture
def x():
    return X.to("npu:0")


def test_a_guilty_part_clears_the_composite(x):
    """`embedding` is computed by `index_select`, `_safe_softmax` by `_softmax`."""
    places = torch.tensor([0, 2], device="npu:0")
    with fault("index_select", "wrong"), Shadow("npu:0") as shadow:
        F.embedding(places, x)
    assert named(shadow) == {"aten::index_select"}


def test_a_composite_that_is_guilty_itself_is_named(x):
    with fault("layer_norm", "wrong"), Shadow("npu:0") as shadow:
        F.layer_norm(x, (16,))
    assert named(shadow) == {"aten::layer_norm"}


@pytest.mark.parametrize("kind", ["raise", "deferred"])
def test_an_error_falls_on_its_own_operator_and_the_forward_goes_on(x, kind):
    with fault("mul", kind), Shadow("npu:0") as shadow:
        y = (x * 2 + 1).relu()
    torch.testing.assert_close(y.cpu(), (X * 2 + 1).relu())
    (guilty,) = shadow.guilty
    assert (guilty.operator, guilty.kind) == ("aten::mul.Tensor", "raises")
    assert "507015" in guilty.reason
    with fault("mul", kind), pytest.raises(RuntimeError):  # without the shadow it ends there
        (x * 2).cpu()


def test_out_of_memory_is_no_defect(x):
    with fault("mul", "oom"), Shadow("npu:0") as shadow, pytest.raises(torch.OutOfMemoryError):
        x * 2
    assert shadow.guilty == []


def test_what_the_cpu_refuses_too_is_the_callers_error(x):
    with Shadow("npu:0") as shadow, pytest.raises(RuntimeError):
        torch.ops.aten.mm(x, x)
    assert shadow.guilty == []


def test_in_place_operators_are_judged_by_what_they_wrote(x):
    with fault("add_", "wrong", how="lanes"), Shadow("npu:0") as shadow:
        x.add_(1)
        torch.mul(x, 2, out=torch.empty_like(x))
    assert named(shadow) == {"aten::add_.Tensor"}
    torch.testing.assert_close(x.cpu(), X + 1)  # and the right numbers stand there now


def test_a_shadow_that_does_not_heal_leaves_the_devices_numbers(x):
    with fault("mul", "wrong", how="zero"), Shadow("npu:0", heal=False) as shadow:
        y = x * 2
    assert named(shadow) == {"aten::mul.Tensor"}
    assert not y.any()


def test_random_numbers_views_and_fresh_memory_are_left_out_and_counted(x):
    with Shadow("npu:0") as shadow:
        torch.randn(3, device="npu:0")
        F.dropout(x, 0.5, training=True)
        x.t()
        torch.empty(3, device="npu:0")
        F.scaled_dot_product_attention(*[x[None, None]] * 3)
    assert shadow.guilty == []
    left = {reason.split()[0]: set(ops) for reason, ops in shadow.coverage.left_out.items()}
    assert "aten::t" in left["moves"] or "aten::transpose.int" in left["moves"]
    assert "aten::empty.memory_format" in left["gives"]
    assert left["draws"]
    assert "aten::bmm" not in left["draws"]


def test_a_wrong_index_is_told_from_a_tie(x):
    with Shadow("npu:0") as shadow:
        x.argmax(-1)
        x.topk(3)
    assert shadow.guilty == []
    with fault("argmax", "wrong"), Shadow("npu:0") as shadow:
        x.argmax(-1)
    assert named(shadow) == {"aten::argmax"}


def test_numbers_that_are_read_from_the_device_are_compared(x):
    with fault("_local_scalar_dense", "wrong"), Shadow("npu:0") as shadow:
        x[0, 0].item()
    assert named(shadow) == {"aten::_local_scalar_dense"}


def test_a_wrong_copy_to_the_device_is_found_before_anything_is_judged():
    from jumar.contracts.errors import RunFailed

    with fault("_copy_from", "wrong"), pytest.raises(RunFailed, match="come back"):
        Shadow("npu:0").__enter__()


def test_a_weight_that_was_written_to_is_copied_anew(x):
    layer = torch.nn.Linear(16, 16).to("npu:0")
    with torch.no_grad(), Shadow("npu:0") as shadow:
        layer(x)
        layer.weight.add_(1)
        layer(x)
    assert shadow.guilty == []


def test_repeat_shows_what_one_look_does_not(x):
    """Wrong at every second call: the first look meets the right answers only."""
    with fault("mul", "wrong", calls="2"), Shadow("npu:0") as shadow:
        x * 2
    assert shadow.guilty == []
    with fault("mul", "wrong", calls="2"), Shadow("npu:0", repeat=True) as shadow:
        x * 2
    assert {(one.operator, one.kind) for one in shadow.guilty} == {
        ("aten::mul.Tensor", "nondeterministic")
    }


def test_sampling_looks_at_some_calls_and_counts_the_others(x):
    with Shadow("npu:0", every=5) as shadow:
        for _ in range(200):
            x * 2
    assert 20 < shadow.coverage.compared < 80
    assert sum(shadow.coverage.left_out["not drawn"].values()) + shadow.coverage.compared == 200


def test_a_budget_bounds_the_time(x):
    with Shadow("npu:0", budget=1e-6) as shadow:
        for _ in range(50):
            x * 2
    assert shadow.coverage.compared < 5


def test_the_script_shows_the_fault_and_is_quiet_without_it(tmp_path, x):
    faults = "[{op: gelu, kind: wrong, shape: [4, 16]}]"
    with fault("gelu", "wrong", shape=[4, 16]), Shadow("npu:0", reproducers=tmp_path) as shadow:
        F.gelu(x)
    script = tmp_path / "shows.py"
    script.write_text(shadow.guilty[0].reproducer)
    assert "jumar" not in script.read_text().split('"""', 2)[2]
    for environment, code in ((faults, 1), ("", 0)):
        assert _ended(script, environment) == code


def test_inputs_that_no_seed_makes_are_kept_beside(tmp_path, x):
    with (
        fault("gelu", "wrong", when=lambda given: torch.equal(given, X)),
        Shadow("npu:0", reproducers=tmp_path) as shadow,
    ):
        F.gelu(x)
    (kept,) = tmp_path.glob("*.pt")
    assert torch.equal(torch.load(kept, weights_only=True)[0], X)
    assert str(kept) in shadow.guilty[0].reproducer


def _ended(script, faults):
    environment = {**os.environ, "JUMAR_EMULATE_FAULTS": faults}
    return subprocess.run(
        [sys.executable, "-W", "ignore", script], env=environment, check=False, capture_output=True
    ).returncode


@pytest.mark.models
def test_the_command_puts_the_guilty_in_quarantine_and_the_next_run_goes_without_it(tmp_path):
    environment = {
        **os.environ,
        "JUMAR_EMULATE_FAULTS": "[{op: gelu, kind: wrong}]",
        "JUMAR_EVIDENCE": str(tmp_path),
    }
    command = [sys.executable, "-W", "ignore", "-m", "jumar", "shadow", "--json"]
    runs = [
        subprocess.run(
            [*command, "--model", "all-minilm-l6-v2", "--device", "npu:0"],
            env=environment,
            check=False,
            capture_output=True,
        )
        for _ in range(2)
    ]
    assert [run.returncode for run in runs] == [1, 0], runs[0].stderr
    first, second = (json.loads(run.stdout) for run in runs)
    assert [one["subject"]["operator"] for one in first["guilty"]] == ["aten::gelu"]
    assert first["fingerprint"]["device_class"] == "npu-emulated"
    assert second["guilty"] == []
    replaced = second["coverage"]["left_out"]["computed by the reference, in place of the device"]
    assert list(replaced) == ["aten::gelu"]
