"""The emulated torch_npu has no name, signature or schema that the real one has not."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest
import torch
import torch_npu
from tests.emulated.processes import python

REAL = json.loads(Path(__file__).with_name("torch_npu-2.13.0.json").read_text(encoding="utf-8"))
"""Dumped from the real torch_npu 2.13.0 by `tools/check_torch_npu.py`."""
OURS_ALONE = {"device_class"}


def public(module):
    return set(module.__all__)


def parameters(signature):
    """Names, kinds and defaults: annotations are written differently by versions of Python."""
    return [(one.name, one.kind, one.default) for one in signature.parameters.values()]


def recorded(text):
    """The signature that `text` ("(device=None) -> float") writes."""
    bare = text.replace("torch_npu.npu.", "").replace("torch_npu._C.", "")
    names = {"torch": torch}
    code = f"def real{bare.split(' -> ')[0]}: ..."
    exec(f"from __future__ import annotations\n{code}", names)
    return inspect.signature(names["real"])


def test_every_name_of_torch_npu_is_a_real_one():
    assert public(torch.npu) - set(REAL["torch.npu"]) == OURS_ALONE
    assert public(torch_npu) - {"__version__"} <= set(REAL["torch_npu"])


@pytest.mark.parametrize("name", sorted(public(torch.npu) - OURS_ALONE))
def test_a_signature_is_the_real_one(name):
    text = REAL["torch.npu"][name]
    if text is None:
        assert not callable(getattr(torch.npu, name))
        return
    assert parameters(inspect.signature(getattr(torch.npu, name))) == parameters(recorded(text))


def test_schemas_are_the_real_ones_to_the_letter():
    ours = {str(one) for one in torch._C._jit_get_all_schemas() if one.name.startswith("npu::")}
    assert ours <= set(REAL["schemas"]) and len(ours) >= 20


def test_autocast_touches_only_what_the_real_one_does():
    ours = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastPrivateUse1")
    assert set(ours) <= set(REAL["autocast"])


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (torch_npu, "empty_cache"),
        (torch_npu, "profiler"),
        (torch.npu, "graph_mode"),
        (torch.npu, "OutOfMemoryError"),
        (torch.npu, "memory_snapshot"),
    ],
)
def test_a_name_that_is_not_here_is_an_attribute_error(module, name):
    with pytest.raises(AttributeError):
        getattr(module, name)


def test_the_profile_of_the_page_has_the_pages_names():
    told = python(
        "import torch, torch_npu\n"
        "with torch_npu.npu.graph_mode():\n"
        "    x = torch.ones(2, device='npu') + 1\n"
        "torch_npu.empty_cache()\n"
        "print(torch_npu.__version__, torch_npu.npu.is_available(), torch.npu.device_count())",
        JUMAR_EMULATE_NPU="3,profile=2.1",
    )
    assert told.stdout.split() == ["2.1.0.post6+emulated", "True", "3"], told.stderr


def test_libraries_find_it():
    from importlib.util import find_spec

    from transformers.utils import is_torch_npu_available

    assert find_spec("torch_npu").name == "torch_npu"
    assert is_torch_npu_available(check_device=True)


# ---- what the operators compute ------------------------------------------------------------------

X, GAMMA = torch.randn(2, 3, 8), torch.randn(8)


@pytest.mark.parametrize(
    ("compute", "expected"),
    [
        (
            lambda x, g: torch_npu.npu_rms_norm(x, g)[0],
            lambda x, g: torch.nn.functional.rms_norm(x, (8,), g, 1e-6),
        ),
        (
            lambda x, g: torch_npu.npu_add_rms_norm(x, x, g)[0],
            lambda x, g: torch.nn.functional.rms_norm(2 * x, (8,), g, 1e-6),
        ),
        (
            lambda x, g: torch_npu.npu_swiglu(x),
            lambda x, g: torch.nn.functional.silu(x[..., :4]) * x[..., 4:],
        ),
        (
            lambda x, g: torch_npu.npu_geglu(x, dim=-1, approximate=0)[0],
            lambda x, g: x[..., :4] * torch.nn.functional.gelu(x[..., 4:]),
        ),
        (lambda x, g: torch_npu.npu_silu(x), lambda x, g: torch.nn.functional.silu(x)),
        (
            lambda x, g: torch_npu.npu_layer_norm_eval(x, [8], g),
            lambda x, g: torch.nn.functional.layer_norm(x, (8,), g),
        ),
        (
            lambda x, g: torch_npu.npu_linear(x, g[None].repeat(3, 1)),
            lambda x, g: torch.nn.functional.linear(x, g[None].repeat(3, 1)),
        ),
        (
            lambda x, g: torch_npu.npu_rotary_mul(
                x[None], g.cos()[None, None], g.sin()[None, None]
            ),
            lambda x, g: (x * g.cos() + torch.cat((-x[..., 4:], x[..., :4]), -1) * g.sin())[None],
        ),
        (
            lambda x, g: torch_npu.npu_group_norm_silu(x, g[:3], g[3:6], 1)[0],
            lambda x, g: torch.nn.functional.silu(
                torch.nn.functional.group_norm(x, 1, g[:3], g[3:6])
            ),
        ),
    ],
)
def test_an_npu_operator_computes_what_its_name_says(compute, expected):
    got = compute(X.to("npu:0"), GAMMA.to("npu:0"))
    assert got.device == torch.device("npu:0")
    torch.testing.assert_close(got.cpu(), expected(X, GAMMA), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
def test_attention_in_every_layout_is_torchs(layout):
    q, k, v = (torch.randn(2, 4, 5, 8) for _ in range(3))
    mask = torch.rand(2, 1, 5, 5) > 0.7
    mask[..., 0] = False

    def lay(t):
        if layout == "BNSD":
            return t
        t = t.transpose(1, 2)
        return {"BSND": t, "BSH": t.flatten(2), "SBH": t.flatten(2).transpose(0, 1)}[layout]

    card = [lay(one).contiguous().to("npu:0") for one in (q, k, v)]
    got = torch_npu.npu_fusion_attention(
        *card, 4, layout, atten_mask=mask.to("npu:0"), scale=8**-0.5
    )[0]
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=~mask)
    torch.testing.assert_close(got.cpu(), lay(expected), atol=1e-5, rtol=1e-5)


def test_inference_attention_shares_keys_among_heads():
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8)
    got = torch_npu.npu_fused_infer_attention_score(
        *[one.to("npu:0") for one in (q, k, v)],
        num_heads=4,
        num_key_value_heads=2,
        input_layout="BNSD",
        scale=8**-0.5,
    )[0]
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    torch.testing.assert_close(got.cpu(), expected, atol=1e-5, rtol=1e-5)


def test_what_an_operator_does_not_do_here_is_said():
    q = torch.randn(1, 1, 2, 4, device="npu:0")
    with pytest.raises(RuntimeError, match="layout 'TND' is not emulated"):
        torch_npu.npu_fusion_attention(q, q, q, 1, "TND")


def test_shapes_are_known_on_meta():
    y, scale = torch_npu.npu_rms_norm(X.to("meta"), GAMMA.to("meta"))
    assert y.shape == (2, 3, 8) and scale.shape == (2, 3, 1)
    assert torch_npu.npu_swiglu(X.to("meta")).shape == (2, 3, 4)
