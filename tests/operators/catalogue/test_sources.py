"""A live catalogue joins what is installed."""

from __future__ import annotations

import sys

import pytest
import torch
from tests.operators.catalogue import peers

from jumar.contracts.errors import InvalidValue
from jumar.operators.catalogue import live, opened
from jumar.operators.catalogue.describe import describe, exclusion
from jumar.operators.catalogue.record import CALLS


@pytest.fixture(autouse=True)
def nobody_has_imported_it(monkeypatch):
    """Specifications of providers import a stand-in of that name."""
    monkeypatch.delitem(sys.modules, "flag_gems", raising=False)


def test_a_package_is_read_from_its_folder_without_being_imported(tmp_path):
    catalogue = live([peers.as_released(tmp_path)])
    assert catalogue.versions["flag_gems"] == "9.9"
    assert "flag_gems" not in sys.modules
    assert [one.function for one in catalogue.implementing(["aten::mm"])] == ["mm"]


def test_an_installed_package_is_found_without_being_asked_for(tmp_path, monkeypatch):
    peers.as_released(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert live().providers == ("flag_gems",)
    assert "flag_gems" not in sys.modules


def test_a_folder_of_something_else_is_refused(tmp_path):
    with pytest.raises(InvalidValue, match="no package to read"):
        live([tmp_path / "flaggems"])


def test_a_name_of_an_operator_and_one_of_a_function_are_told_apart(tmp_path):
    """`pow` in an exclude list matches no function: the functions have other names."""
    catalogue = live([peers.as_released(tmp_path)])
    power = catalogue.named("pow")
    assert power.operators
    assert power.functions == ()
    of_power = {one.function for one in catalogue.implementing([o.name for o in power.operators])}
    assert of_power == {"pow_scalar", "pow_tensor_scalar", "pow_tensor_tensor"}
    assert "pow_scalar" in catalogue.nearest("pow_scalr", provider="flag_gems")
    assert "pow_scalar" in str(catalogue.unknown("pow_scalr", "flag_gems").hint)


def test_an_entry_covers_what_its_function_implements_and_no_more(tmp_path):
    catalogue = live([peers.as_released(tmp_path)])
    told = describe(catalogue, catalogue.operator("aten::mm"))
    (one,) = told.exclusions
    assert (one.provider, one.functions) == ("flag_gems", ("mm",))
    assert [(left.operator, left.function) for left in one.left] == [("aten::mm.out", "mm_out")]


def test_what_a_provider_leaves_out_by_itself_is_told(tmp_path):
    catalogue = live([peers.as_released(tmp_path)])
    copied = exclusion(catalogue, [catalogue.operator("aten::copy_")], "flag_gems")
    assert copied.unused == ("ascend",)


def test_callers_are_known_where_just_this_torch_was_recorded():
    version = torch.__version__.partition("+")[0]
    catalogue = live()
    if not (CALLS / f"torch-{version}.json").is_file():
        assert catalogue.callers("aten::addmm") == ()
        return
    assert "aten::linear" in catalogue.callers("aten::addmm")
    assert "aten::exponential_" in catalogue.callers("aten::log")
    assert {one.operator for one in catalogue.reenters("softmax.int")} == {"aten::_softmax"}


def test_registrations_that_torch_never_calls_are_told():
    """FlagGems 5.0.2 registers names without overload that torch has with overloads only."""
    catalogue = opened(["live", "flag_gems-5.0.2"])
    dangling = {one.operator for one in catalogue.dangling}
    assert "aten::copysign" in dangling
    assert {one.name for one in catalogue.named("copysign").operators} >= {"aten::copysign.Tensor"}
    known = set(torch._C._dispatch_get_all_op_names())
    assert dangling == {one.operator for one in catalogue.implementations} - known
