"""Policies as they are written: keys, lines, and the three places that they come from."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.operators.policy.toy import file, policy, written

from jumar.contracts.errors import InvalidInput, InvalidValue, JumarError, UnknownKey
from jumar.operators.policy import files
from jumar.operators.policy.files import INLINE, USER_FILE, effective, platform_file

DENY = """
    strict: true
    order:
      - providers: [device, reference]
    deny:
      - operators: [aten::mm, aten::mm.out]
        providers: flag_gems
        when: {cann: 8.5, compiler: triton-ascend==3.2.0}
        because: it
          hangs
        source: https://example.org/1
"""


def test_each_rule_knows_what_it_says_and_where_it_stands() -> None:
    layer = written(DENY)
    order, deny = layer.rules
    assert str(order.origin) == "policy.yaml:4"
    assert str(deny.origin) == "policy.yaml:6"
    assert deny.operators == ("aten::mm", "aten::mm.out")
    assert [str(one) for one in deny.when] == ["cann 8.5", "compiler triton-ascend==3.2.0"]
    assert deny.because == "it hangs"
    assert deny.sources == ("https://example.org/1",)
    assert layer.strict is not None
    assert str(layer.strict.origin) == "policy.yaml:2"


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("denied: []", UnknownKey, "policy.yaml:1: there is no key 'denied'"),
        ("deny:\n  - provider: a", UnknownKey, "policy.yaml:2: there is no key 'provider'"),
        ("deny:\n  - operators: [a]", InvalidInput, "policy.yaml:2: no providers"),
        ("deny: [a]", InvalidInput, "deny is a list of entries"),
        ("strict: 1", InvalidValue, "policy.yaml:1: strict is true or false"),
        ("deny: []\ndeny: []", InvalidInput, "policy.yaml:2: the key 'deny' stands twice"),
        ("- a", InvalidInput, "no mapping"),
        ("a: [", InvalidInput, "policy.yaml:1: "),
        ("deny:\n  - {providers: a, when: {cannn: '8'}}", InvalidValue, "policy.yaml:2: "),
        ("deny:\n  - {providers: a, when: [cann]}", InvalidInput, "when is a mapping"),
        ("require:\n  - {families: a, providers: [b, c]}", InvalidValue, "one provider"),
    ],
)
def test_a_line_that_means_nothing_is_refused_by_its_number(
    text: str, kind: type[JumarError], words: str
) -> None:
    with pytest.raises(kind) as refused:
        written(text)
    assert words in refused.value.message


def test_platform_user_and_environment_are_stacked_in_this_order(tmp_path: Path) -> None:
    user = file(tmp_path, "mine.yaml", "order: [{providers: [flag_gems, reference]}]")
    environ = {USER_FILE: str(user), INLINE: "{strict: true, order: [{providers: device}]}"}
    stacked = effective("npu", environ)
    assert [one.name for one in stacked.layers] == [
        "ascend.yaml",
        "mine.yaml",
        f"environment {INLINE}",
    ]
    assert stacked.strict.on
    assert str(stacked.strict.origin) == f"environment {INLINE}:1"


def test_a_user_file_that_is_named_and_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        effective("cpu", {USER_FILE: str(tmp_path / "none.yaml")})


def test_kinds_of_devices_without_a_file_of_their_own_have_no_layer() -> None:
    assert platform_file("cpu") is None
    assert platform_file("npu") is not None


def test_the_last_layer_that_speaks_of_strictness_decides() -> None:
    assert policy("strict: true", "strict: false", "deny: []").strict.on is False
    assert policy("deny: []").strict.on is False


def test_a_list_of_names_in_the_environment_denies_the_devices_own_kernels() -> None:
    policy = effective("cpu", {files.DENY: "aten::gelu, aten::mm,"})
    (rule,) = [rule for _, rule in policy.rules("deny")]
    assert (rule.operators, rule.providers) == (("aten::gelu", "aten::mm"), ("device",))
    assert str(rule.origin) == f"environment {files.DENY}:1"
