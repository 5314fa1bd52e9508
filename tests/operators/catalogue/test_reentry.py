"""What operators call, found out by running them."""

from __future__ import annotations

import pytest
import torch

from jumar.operators.catalogue import reentry


@pytest.fixture(scope="module")
def found():
    names = ["linear", "softmax.int", "exponential_", "mm", "_sobol_engine_initialize_state_", "t"]
    return reentry.find([f"aten::{name}" for name in names])


def called(found, name: str, known_by: str) -> set[str]:
    return {one.operator for one in found[f"aten::{name}"] if one.known_by == known_by}


def test_a_composite_is_seen_to_call_others_whatever_way_it_takes(found):
    assert {"aten::addmm", "aten::matmul", "aten::mm"} <= called(found, "linear", "run")
    assert called(found, "softmax.int", "run") == {"aten::_softmax"}


def test_a_decomposition_is_known_too_and_told_apart(found):
    assert {"aten::uniform_", "aten::log"} <= called(found, "exponential_", "decomposition")
    assert called(found, "exponential_", "run") == set()


def test_an_operator_with_a_kernel_of_its_own_calls_nothing(found):
    assert found["aten::mm"] == ()


def test_an_operator_that_ends_the_process_is_not_known_and_ends_nothing_else(found):
    assert found["aten::_sobol_engine_initialize_state_"] is None
    assert "aten::transpose.int" in called(found, "t", "run")


def test_a_recorder_sees_what_torch_itself_decomposes_to():
    """Against torch's own decomposition of a composite into one level."""
    weight = torch.rand(3, 4)
    assert reentry.recorded(torch.ops.aten.linear, torch.rand(2, 4), weight, torch.rand(3)) == {
        *("aten::linear", "aten::t", "aten::transpose.int", "aten::as_strided", "aten::addmm"),
    }


def test_only_what_an_operator_calls_is_counted_within_it():
    def both():
        torch.ops.aten.relu(torch.ops.aten.softmax.int(torch.rand(3), 0))

    assert "aten::relu" in reentry.recorded(both)
    assert reentry.recorded(both, within="aten::softmax.int") == {
        *("aten::softmax.int", "aten::_softmax"),
    }
