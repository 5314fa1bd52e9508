"""A value is taken in the key's own type, or refused with what would be right."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.catalog.manifest import Param
from jumar.catalog.values import accepted
from jumar.contracts.errors import InvalidInput, InvalidRequest, InvalidValue, RequestTooLarge

STEPS = Param(type="integer", help="", minimum=1, maximum=50)
WIDTH = Param(type="integer", help="", minimum=16, maximum=4096, step=8, unit="px")
FRAMES = Param(type="integer", help="", minimum=1, maximum=81, step=4)
SCALE = Param(type="number", help="", minimum=0, maximum=20)
SWITCH = Param(type="boolean", help="")
DTYPE = Param(type="choice", help="", choices=("fp16", "bf16", "fp32"))
PROMPT = Param(type="text", help="What to draw.", required=True, maximum=10)
TEXTS = Param(type="texts", help="Texts.", required=True, maximum=10, items=3)
IMAGE = Param(type="image", help="A picture.", required=True)
IMAGES = Param(type="image", help="Pictures.", items=2)
FOLDER = Param(type="path", help="A folder.")
EXTRA = Param(type="object", help="")
SEED = Param(type="integer", help="", minimum=0, maximum=2**63 - 1)
HERE = str(Path(__file__))


@pytest.mark.parametrize(
    ("param", "value", "taken"),
    [
        (STEPS, 20, 20),
        (STEPS, "20", 20),
        (STEPS, 20.0, 20),
        (SEED, str(2**63 - 1), 2**63 - 1),
        (SCALE, 7, 7.0),
        (SCALE, "7.5", 7.5),
        (SCALE, "1e1", 10.0),
        (SWITCH, True, True),
        (SWITCH, "false", False),
        (DTYPE, "fp16", "fp16"),
        (PROMPT, "红色的七 🎨", "红色的七 🎨"),
        (TEXTS, "one", ["one"]),
        (TEXTS, ("one", "two"), ["one", "two"]),
        (IMAGE, HERE, HERE),
        (IMAGE, Path(HERE), HERE),
        (IMAGE, "https://example.org/x.png", "https://example.org/x.png"),
        (IMAGE, "data:image/png;base64,AAAA", "data:image/png;base64,AAAA"),
        (IMAGES, [HERE, HERE], [HERE, HERE]),
        (FOLDER, Path("not/there/yet"), str(Path("not/there/yet"))),
        (EXTRA, '{"a": 1}', {"a": 1}),
    ],
)
def test_a_value_is_taken_in_the_type_of_the_key(param: Param, value: Any, taken: Any) -> None:
    result = accepted(param, value, "config.key")
    assert result == taken
    assert type(result) is type(taken)


@pytest.mark.parametrize(
    ("param", "value", "said", "hint"),
    [
        (STEPS, "20.5", "must be a whole number, not '20.5'", "Valid: 1 to 50."),
        (STEPS, 20.5, "must be a whole number, not 20.5", "Valid: 1 to 50."),
        (STEPS, " 20", "must be a whole number", None),
        (STEPS, "2_0", "must be a whole number", None),
        (STEPS, "٢٠", "must be a whole number", None),
        (STEPS, True, "must be a whole number, not True", None),
        (STEPS, -5, "is -5, below 1", "Valid: 1 to 50."),
        (STEPS, 10**400, "above 50", None),
        (STEPS, [20], "must be a whole number, not a list", None),
        (STEPS, math.inf, "must be a whole number, not inf", None),
        (SEED, -1, "is -1, below 0", "Valid: 0 to 9223372036854775807."),
        (SEED, 2**63, "above 9223372036854775807", None),
        (WIDTH, 513, "is 513, no multiple of 8 px", "Nearest: 512 or 520."),
        (WIDTH, 0, "is 0, below 16 px", "Valid: 16 to 4096 px in steps of 8."),
        (FRAMES, 16, "is 16, not 1 plus a multiple of 4", "Nearest: 13 or 17."),
        (SCALE, math.nan, "must be a finite number", None),
        (SCALE, "nan", "must be a number", None),
        (SCALE, 10**400, "must be a finite number", None),
        (SCALE, False, "must be a number, not False", None),
        (SWITCH, 1, "must be true or false, not 1", None),
        (SWITCH, "yes", "must be true or false", None),
        (DTYPE, "fp61", "has no choice 'fp61'", "Did you mean 'fp16'"),
        (DTYPE, ["fp16"], "has no choice", None),
        (FOLDER, "", "is an empty path", "A folder."),
        (FOLDER, "a\0b", "is no path", None),
        (FOLDER, "\ud800", "half a character", None),
        (FOLDER, 3, "must be a path, not 3", None),
        (EXTRA, "{", "is no JSON", None),
        (EXTRA, [1], "must be a mapping", None),
    ],
)
def test_a_wrong_config_value_is_named_with_what_is_right(
    param: Param, value: Any, said: str, hint: str | None
) -> None:
    with pytest.raises(InvalidValue) as error:
        accepted(param, value, "config.key")
    assert error.value.message.startswith("config.key ")
    assert said in error.value.message
    assert hint is None or hint in (error.value.hint or "")
    assert error.value.param == "config.key"


@pytest.mark.parametrize(
    ("param", "value", "said"),
    [
        (PROMPT, "", "is empty"),
        (PROMPT, " \n", "is empty"),
        (PROMPT, "x" * 100_000, "has 100,000 characters, more than 10"),
        (PROMPT, "\ud800", "half a character"),
        (PROMPT, 7, "must be text, not 7"),
        (TEXTS, [], "is an empty list"),
        (TEXTS, ["a", " "], "[1] is empty"),
        (TEXTS, ["a", None], "[1] must be text"),
        (TEXTS, {"a": 1}, "must be a text or a list of texts"),
        (IMAGE, "/not/there.png", "is '/not/there.png', which is not there"),
        (IMAGE, str(Path(HERE).parent), "a folder"),
        (IMAGE, "x" * 5000, "cannot be looked up"),
        (IMAGE, [HERE, HERE], "is one file, not a list of 2"),
        (IMAGES, [], "is an empty list"),
    ],
)
def test_an_input_that_cannot_be_used_is_named(param: Param, value: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as error:
        accepted(param, value, "inputs.key")
    assert said in error.value.message
    assert error.value.param == "inputs.key"


@pytest.mark.parametrize(("param", "value"), [(TEXTS, ["a"] * 4), (IMAGES, [HERE] * 3)])
def test_a_list_over_the_limit_is_too_large(param: Param, value: Any) -> None:
    with pytest.raises(RequestTooLarge, match="more than"):
        accepted(param, value, "inputs.key")


def test_numbers_of_numpy_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    assert type(accepted(STEPS, numpy.int64(20), "config.key")) is int
    assert type(accepted(SCALE, numpy.float32(7.5), "config.key")) is float
    with pytest.raises(InvalidValue):
        accepted(STEPS, numpy.bool_(True), "config.key")


def test_the_message_stays_short_whatever_the_value() -> None:
    with pytest.raises(InvalidValue) as error:
        accepted(STEPS, "9" * 1_000_000, "config.key")
    assert len(error.value.message) < 200
    with pytest.raises(InvalidValue, match="is a number of more than 38 digits, above 50"):
        accepted(STEPS, 10**5000, "config.key")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
PARAMS = st.sampled_from(
    [STEPS, WIDTH, FRAMES, SCALE, SWITCH, DTYPE, PROMPT, TEXTS, IMAGE, IMAGES, FOLDER, EXTRA, SEED]
)


@given(PARAMS, JSON)
def test_any_value_is_taken_or_refused_with_a_typed_error(param: Param, value: Any) -> None:
    try:
        taken = accepted(param, value, "config.key")
    except InvalidRequest as error:
        assert error.param == "config.key"
    else:
        assert accepted(param, taken, "config.key") == taken


@given(st.sampled_from([WIDTH, FRAMES]), st.integers(-100, 5000))
def test_both_neighbours_that_are_offered_are_valid(param: Param, value: int) -> None:
    try:
        accepted(param, value, "config.key")
    except InvalidValue as error:
        if error.hint and error.hint.startswith("Nearest: "):
            offered = [int(text) for text in error.hint[9:-1].split(" or ")]
            assert all(accepted(param, near, "config.key") == near for near in offered)
            assert all(abs(near - value) < (param.step or 0) for near in offered)
