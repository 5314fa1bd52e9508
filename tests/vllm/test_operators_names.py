"""The names of vLLM's operators are read from its source as vLLM itself registers them."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

pytest.importorskip("vllm")

from vllm.ir.op import IrOp
from vllm.model_executor.custom_op import op_registry

import vllm as installed
from jumar.operators.catalogue import live, read, shipped
from jumar.operators.catalogue import vllm as names

FOLDER = Path(installed.__file__).parent


@pytest.fixture(scope="module")
def found():
    return names.read(FOLDER, version("vllm"))


def test_every_layer_that_vllm_registers_is_read_and_no_other(found):
    pytest.importorskip("torchvision")  # a module of one of them asks for it
    layers = {one.operator: one for one in found.implementations if one.key == "layer"}
    for one in layers.values():
        import_module(one.origin)
    assert {name: layer.function for name, layer in layers.items()} == {
        name: layer.__name__ for name, layer in op_registry.items()
    }


def test_every_provider_of_the_intermediate_representation_is_read(found):
    read_of = {(one.operator, one.provider) for one in found.implementations if one.key == "ir"}
    assert read_of == {
        (f"vllm_ir::{name}", "vllm" if provider == "native" else provider)
        for name, operator in IrOp.registry.items()
        for provider in operator.impls
        if provider != "jumar"
    }


@pytest.mark.skipif(
    f"vllm-{version('vllm')}" not in shipped(), reason="no record of this version is shipped"
)
def test_what_is_shipped_of_this_version_is_what_it_says(found):
    recorded = read(shipped()[f"vllm-{version('vllm')}"])
    assert recorded.operators == dict(sorted(found.operators.items()))
    assert set(recorded.implementations) == set(found.implementations)
    assert live().operators.keys() >= recorded.operators.keys()
