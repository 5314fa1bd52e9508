"""`JUMAR_EMULATE_NPU` says how many cards, and of what kind; a bad value says what is valid."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.contracts.errors import InvalidValue, JumarError, UnknownKey
from jumar.emulator.chips import CHIPS, GIB, find_chip
from jumar.emulator.settings import KEYS, read_settings


def read(value, **environ):
    return read_settings({"JUMAR_EMULATE_NPU": value, **environ})


def test_a_number_is_that_many_of_the_default_chip():
    settings = read("8")
    assert (settings.count, settings.visible) == (8, tuple(range(8)))
    assert settings.chip is CHIPS["Ascend910B1"] and settings.memory == 64 * GIB
    assert settings.device_name == "Ascend910B1 (emulated)"
    assert settings.profile == "2.13" and settings.graph and settings.noise == "on"


def test_settings_follow_the_number():
    settings = read("2,chip=Ascend310P3,memory=24GiB,profile=2.1,graph=fail,noise=off,seed=7")
    assert settings.chip.name == "Ascend310P3" and not settings.chip.bf16
    assert settings.memory == 24 * GIB and settings.profile == "2.1"
    assert not settings.graph and settings.noise == "off" and settings.seed == 7


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        ("910B4", "Ascend910B4"),
        ("ascend910b4", "Ascend910B4"),
        ("310P", "Ascend310P3"),
        ("A3", "Ascend910_9391"),
        ("950", "Ascend950PR"),
    ],
)
def test_a_chip_has_several_names(name, chip):
    assert find_chip(name).name == chip


def test_chips_carry_the_memory_of_their_kind():
    assert read("1,chip=910B4").memory == 32 * GIB
    assert {name: chip.bf16 for name, chip in CHIPS.items()} == {
        "Ascend910B1": True,
        "Ascend910B2": True,
        "Ascend910B3": True,
        "Ascend910B4": True,
        "Ascend910A": False,
        "Ascend310P3": False,
        "Ascend310B4": False,
        "Ascend910_9391": True,
        "Ascend950PR": True,
    }


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("eight", "A number from 1 to 64"),
        ("65", "A number from 1 to 64"),
        ("-1", "A number from 1 to 64"),
        ("2,chip", "key=value"),
        ("2,chip=910B9", "'Ascend910B"),
        ("2,chip=910B", "'Ascend910B"),
        ("2,memory=much", "memory=24GiB"),
        ("2,memory=3", "memory=24GiB"),
        ("2,profile=2.12", "2.1"),
        ("2,graph=maybe", "Valid: fail, ok."),
        ("2,noise=loud", "Valid: off, on, repeatable."),
        ("2,seed=x", "seed=7"),
    ],
)
def test_a_bad_value_names_what_is_valid(value, hint):
    with pytest.raises(InvalidValue) as caught:
        read(value)
    assert hint in str(caught.value.hint)


def test_an_unknown_setting_names_the_nearest():
    with pytest.raises(UnknownKey) as caught:
        read("2,memroy=3GiB")
    assert caught.value.hint == "Did you mean 'memory'?"


@given(st.text(alphabet="0123456789,=abcdefgmi. ", max_size=20))
def test_any_value_is_read_or_refused_with_a_hint(value):
    try:
        settings = read(value)
    except JumarError as error:
        assert error.hint and error.param
    else:
        assert 1 <= settings.count <= 64 and settings.memory >= 1 << 20


@pytest.mark.parametrize(
    ("visible", "ids"),
    [
        (None, (0, 1, 2, 3)),
        ("2,3", (2, 3)),
        ("1, 2", (1,)),
        ("7,0", (0,)),
        ("", ()),
        ("x", ()),
    ],
)
def test_visibility_is_what_the_runtime_makes_of_it(visible, ids):
    environ = {} if visible is None else {"ASCEND_RT_VISIBLE_DEVICES": visible}
    assert read("4", **environ).visible == ids


def test_the_help_of_an_error_lists_real_keys():
    with pytest.raises(InvalidValue) as caught:
        read("2,x")
    assert all(key in str(caught.value.hint) for key in KEYS)


def test_the_page_lists_every_setting_and_chip():
    page = Path("docs/emulator.md").read_text(encoding="utf-8")
    named = [*KEYS, *(name.removeprefix("Ascend") for name in CHIPS)]
    assert [name for name in named if f"`{name}`" not in page] == []
