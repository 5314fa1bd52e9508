"""Specifications of layers beside their formulas: whoever computes one, wrong numbers are named."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")
import torch
from torch.nn.functional import silu

from jumar.contracts.errors import OutputFailed, ParityFailed
from jumar.evidence import Store
from jumar.operators.binding import Binding
from jumar.vllm.healing.layers import Layers
from jumar.vllm.healing.steps import SHADOW, Steps, found_by_shadow
from jumar.vllm.operators import process
from jumar.vllm.operators.layers import Holder


class Activation(Holder):
    operator = "silu_and_mul"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.implementation(x)


def right(x: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return silu(a) * b


def swapped(x: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return a * silu(b)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> torch.nn.Module:
    """Two layers; a provider of somebody else's computes them."""
    made = [Binding("silu_and_mul", "somebody", "float32")]
    here = SimpleNamespace(bindings=SimpleNamespace(made=made))
    monkeypatch.setattr(process, "_here", here)
    layers = torch.nn.Sequential(Activation(), torch.nn.Linear(8, 16), Activation())
    for one in layers:
        one.implementation = right
    return layers


def test_a_layer_that_computes_as_its_formula_says_is_not_named(model: torch.nn.Module) -> None:
    with Layers(model) as layers:
        model(torch.randn(3, 16))
    assert layers.guilty == []


def test_a_layer_that_computes_something_else_is_named_with_who_computes_it(
    model: torch.nn.Module,
) -> None:
    model[2].implementation = swapped
    with Layers(model) as layers:
        model(torch.randn(3, 16))
    (guilty,) = layers.guilty
    assert (guilty.operator, guilty.implementation, guilty.layer, guilty.kind) == (
        "silu_and_mul",
        "somebody",
        "2",
        "wrong",
    )


def test_afterwards_the_layers_hold_what_they_held(model: torch.nn.Module) -> None:
    with Layers(model):
        assert model[0].implementation is not right
    assert model[0].implementation is right


def test_inputs_that_the_layer_writes_over_are_judged_as_they_were(model: torch.nn.Module) -> None:
    def in_place(x: torch.Tensor) -> torch.Tensor:
        result = right(x)
        x.zero_()
        return result

    model[0].implementation = in_place
    with Layers(model) as layers:
        model(torch.randn(3, 16))
    assert layers.guilty == []


def test_a_judged_step_with_such_a_layer_ends_the_engine_and_leaves_evidence(
    model: torch.nn.Module, tmp_path: Path
) -> None:
    model[0].implementation = swapped
    steps = Steps("cpu", every=2, state=tmp_path)
    steps.watch(model)
    with steps.forward():
        model(torch.randn(3, 16))  # the first of two is not judged
    before = {one.id for one in Store()}
    with pytest.raises(ParityFailed, match="silu_and_mul by somebody"), steps.forward():
        model(torch.randn(3, 16))
    (fresh,) = [one for one in Store() if one.id not in before]
    assert (fresh.subject.operator, fresh.subject.implementation) == ("silu_and_mul", "somebody")
    assert found_by_shadow(tmp_path) == [fresh]


def test_who_it_was_is_heard_where_no_evidence_can_be_written(
    model: torch.nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model[0].implementation = swapped
    steps = Steps("cpu", every=1)
    steps.watch(model)
    (tmp_path / "file").touch()
    monkeypatch.setenv("JUMAR_EVIDENCE", str(tmp_path / "file" / "evidence"))
    heard = "silu_and_mul by somebody.*cannot be written"
    with pytest.raises(ParityFailed, match=heard), steps.forward():
        model(torch.randn(3, 16))
    monkeypatch.setenv(SHADOW, "1")
    with pytest.raises(OutputFailed, match="cannot be written"):  # and the next does not start
        Steps.from_environment("cpu")
