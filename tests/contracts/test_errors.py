"""The error tree: stable codes, one envelope, hints that name the nearest valid choice."""

from __future__ import annotations

import re

import pytest

from jumar.contracts import errors
from jumar.contracts.errors import JumarError, did_you_mean, nearest


def tree(base: type[JumarError] = JumarError) -> list[type[JumarError]]:
    return [base, *(leaf for child in base.__subclasses__() for leaf in tree(child))]


def test_the_tree_at_the_top_of_the_file_is_the_tree_in_the_code() -> None:
    rows = re.findall(
        r"^[│├└─ ]*(\w+) {2,}(\w+) +(?:HTTP )?(\d+) +(?:exit )?(\d+)$", errors.__doc__ or "", re.M
    )
    drawn = {(name, code, int(status), int(exit_)) for name, code, status, exit_ in rows}
    written = {
        (e.__name__, e.code, e.http_status, e.exit_code)
        for e in tree()
        if e.__module__ == errors.__name__
    }
    assert drawn == written


def test_every_code_is_used_once() -> None:
    codes = [error.code for error in tree() if error.__module__ == errors.__name__]
    assert len(codes) == len(set(codes))


def test_the_envelope_has_exactly_the_five_fields_of_every_http_face() -> None:
    error = errors.UnknownKey("No key 'stpes'.", hint="Did you mean 'steps'?", param="config.stpes")
    assert error.envelope() == {
        "error": {
            "code": "unknown_key",
            "message": "No key 'stpes'.",
            "type": "invalid_request_error",
            "param": "config.stpes",
            "hint": "Did you mean 'steps'?",
        }
    }


def test_the_cause_is_told_through_the_whole_chain() -> None:
    try:
        try:
            try:
                raise OSError("no space")
            except OSError as inner:
                raise ValueError("cannot save") from inner
        except ValueError as outer:
            raise errors.RunFailed("The model failed.") from outer
    except errors.RunFailed as error:
        assert error.detail()["cause"] == "ValueError: cannot save <- OSError: no space"


@pytest.mark.parametrize(
    ("error", "type_"),
    [
        (errors.Overloaded("full"), "rate_limit_error"),
        (errors.InvalidValue("bad"), "invalid_request_error"),
        (errors.RunFailed("broke"), "server_error"),
    ],
)
def test_the_type_says_who_has_to_change_something(error: JumarError, type_: str) -> None:
    assert error.type == type_


def test_a_near_name_is_found_by_spelling_case_and_part() -> None:
    names = ["all-minilm-l6-v2", "hibari", "sdxl-digits"]
    assert nearest("hibary", names) == ["hibari"]
    assert nearest("HIBARI", names) == ["hibari"]
    assert nearest("minilm", names) == ["all-minilm-l6-v2"]


def test_where_nothing_is_near_all_valid_names_are_listed() -> None:
    assert did_you_mean("zzz", ["b", "a"]) == "Valid: a, b."
