"""torch's operators, held against torch's own answers to other questions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
import torchgen
from hypothesis import assume, given
from hypothesis import strategies as st

from jumar.operators.catalogue import Catalogue, live

NATIVE = Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
CATALOGUE = live()
NAMES = sorted(name for name, one in CATALOGUE.operators.items() if one.kind == "aten")

names = st.sampled_from(NAMES)


def overload(name: str) -> torch._ops.OpOverload:
    packet, _, which = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, packet), which or "default")


def test_every_name_is_an_operator_that_torch_can_call():
    missing = []
    for name in NAMES:
        try:
            found = overload(name)
        except AttributeError:
            missing.append(name)
        else:
            assert str(found._schema) == CATALOGUE.operators[name].schema
    assert missing == []


def test_every_function_of_torchs_own_list_is_there():
    listed = re.findall(r"^- func: ([\w.]+)\(", NATIVE.read_text(), re.MULTILINE)
    assert len(listed) > 2000
    assert {f"aten::{name}" for name in listed} <= set(NAMES)


@given(names, st.sampled_from(["CPU", "Meta", "CompositeImplicitAutograd", "SparseCPU"]))
def test_keys_are_those_that_the_dispatcher_says_it_has(name, key):
    has = torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
    assert (key in CATALOGUE.operators[name].keys) == has


@given(names, st.sampled_from(["CPU", "XPU"]))
def test_a_backend_has_a_kernel_where_the_dispatcher_computes_one(name, key):
    computed = torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, key)
    assert (CATALOGUE.operators[name].kernel_for(key) is not None) == computed


@given(names)
def test_an_operator_is_composite_where_torch_can_decompose_it(name):
    """Where torch's compiler, once it is loaded, adds a way in Python (`py_kernels`), its answer
    is about that way, and not about what a backend runs.
    """
    assume(torch._C.DispatchKey.CompositeImplicitAutograd not in overload(name).py_kernels)
    assert CATALOGUE.operators[name].composite == overload(name)._can_decompose()


def test_a_kernel_that_delegates_is_of_the_family_of_the_one_it_delegates_to():
    text = NATIVE.read_text()
    pairs = re.findall(
        r"^- func: ([\w.]+)\((?:(?!^- func:).)*?^  structured_delegate: ([\w.]+)",
        text,
        re.MULTILINE | re.DOTALL,
    )
    assert len(pairs) > 300
    family = {name.removeprefix("aten::"): CATALOGUE.operators[name].family for name in NAMES}
    assert [pair for pair in pairs if family[pair[0]] != family[pair[1]]] == []


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("mm", {"aten::mm", "aten::mm.out"}),
        (
            "aten::fill_.Scalar",
            {"aten::fill_.Scalar", "aten::fill.Tensor", "aten::fill.Scalar_out"},
        ),
        ("__ior__", {"aten::__or__.Tensor", "aten::__ior__.Scalar"}),
    ],
)
def test_in_place_out_and_scalar_variants_are_one_family(name, members):
    assert members <= {one.name for one in CATALOGUE.family(name)}


def test_names_are_found_by_overload_base_name_and_without_namespace():
    assert CATALOGUE.operator("add.Tensor").name == "aten::add.Tensor"
    assert CATALOGUE.operator("mm").name == "aten::mm"
    assert {one.name for one in CATALOGUE.named("mm").operators} >= {"aten::mm", "aten::mm.out"}
    assert [one.name for one in CATALOGUE.named("aten::mm").operators] == ["aten::mm"]
    assert not CATALOGUE.named("no_such_thing")


def test_a_version_of_torch_is_told():
    assert CATALOGUE.versions["torch"] == torch.__version__
    assert isinstance(CATALOGUE, Catalogue)
    assert CATALOGUE.live
