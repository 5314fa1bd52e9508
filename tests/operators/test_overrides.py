"""Names, keys and proofs of overrides, where no accelerator is needed (tests/emulated has more)."""

from __future__ import annotations

import pytest
import torch

from jumar.contracts.errors import InvalidValue
from jumar.operators.base import Override
from jumar.operators.dispatcher import device_key, is_composite, is_view, overload, probe
from jumar.operators.overrides import active, install, installed, live
from jumar.operators.reference import CARRIERS, reference

TANH = Override("aten::tanh", "mine")


def zeros(override):
    return lambda x, *rest, **named: torch.zeros_like(x)


def test_operators_are_named_as_torch_names_them():
    assert overload("aten::mm") is torch.ops.aten.mm.default
    assert overload("aten::add.Tensor") is torch.ops.aten.add.Tensor


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("aten::add", "aten::add.Tensor"),
        ("aten::mm.default", "aten::mm"),
        ("aten::mm.outt", "aten::mm.out"),
        ("aten::sofmax", "aten::_softmax"),
        ("mm", "aten::mm"),
    ],
)
def test_a_wrong_name_gets_the_valid_ones(name, hint):
    with pytest.raises(InvalidValue, match=f"{name!r}") as raised:
        overload(name)
    assert hint in raised.value.hint


def test_a_device_has_the_key_of_its_kind():
    assert (device_key("cpu"), device_key("cuda:1")) == ("CPU", "CUDA")
    with pytest.raises(InvalidValue, match="no device 'npv'"):
        device_key("npv")


def test_views_and_composites_are_known_from_their_schemas():
    aten = torch.ops.aten
    assert is_view(aten.view.default) and is_view(aten.chunk.default)
    assert not is_view(aten.add_.Tensor) and not is_view(aten.mm.out)
    assert is_composite(aten.linear.default) and not is_composite(aten.mm.default)


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("aten::mm", 2, set()),
        ("aten::mm.out", 2, {"out"}),
        ("aten::arange", 1, {"device"}),
        ("aten::layer_norm", 2, set()),
        ("aten::cat", 1, set()),
    ],
)
def test_a_probe_holds_what_the_schema_asks_for_and_no_more(name, args, kwargs):
    found = probe(overload(name), "cpu")
    assert (len(found[0]), set(found[1])) == (args, kwargs)


def test_the_carriers_of_the_reference_are_operators():
    assert all(overload(name) for name in CARRIERS)


def test_an_override_on_the_cpu_is_in_force_for_the_block():
    with installed({TANH}, device="cpu", lookup=zeros):
        assert torch.ones(2).tanh().tolist() == [0, 0]
        assert live(TANH, device="cpu") and active("cpu") == {TANH}
    assert torch.ones(2).tanh().min() > 0
    assert not live(TANH, device="cpu") and not active("cpu")


def test_an_operator_has_one_override_at_a_time():
    both = {TANH, Override("aten::tanh", "theirs")}
    with pytest.raises(InvalidValue, match="by mine and aten::tanh by theirs cannot both be on"):
        install(both, device="cpu", lookup=zeros)
    assert not active("cpu")


def test_an_exception_in_the_block_takes_it_away_too():
    with pytest.raises(KeyError), installed({TANH}, device="cpu", lookup=zeros):
        raise KeyError
    assert torch.ones(2).tanh().min() > 0


def test_a_kernel_that_raises_keeps_its_own_error():
    def kernel(x):
        raise ZeroDivisionError("grid of 0")

    with installed({TANH}, device="cpu", lookup=lambda _: kernel):
        with pytest.raises(ZeroDivisionError, match="grid of 0"):
            torch.ones(2).tanh()
        assert live(TANH, device="cpu")


def test_the_reference_may_widen_and_rounds_once_at_the_end():
    half = torch.full((1, 4096), 0.1).half()
    narrow = torch.ops.aten.cumsum.default
    wide = reference(narrow, precision="float64")(half, 1)
    assert torch.equal(wide, half.double().cumsum(1).half())
