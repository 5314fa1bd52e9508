"""Each format from the others, and what is said of what cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators.policy.toy import GEMS, bad, catalogue, file, policy, quarantine

from jumar.operators.policy.convert import Converted, Format, convert, deny_lists
from jumar.operators.policy.convert.writing import WRITERS
from jumar.operators.policy.decide import resolve
from jumar.operators.policy.files import read_file
from jumar.operators.policy.lint import lint

JUMAR = """
    strict: true
    order:
      - providers: [flag_gems, device, reference]
      - {operators: rms_norm, providers: [torch_npu, reference]}
    deny:
      - {families: [pow], providers: flag_gems, because: does not compile}
      - {operators: aten::linear, providers: flag_gems, when: {cann: "8.5.*"}, because: hangs}
      - {operators: silu_and_mul, providers: flag_gems, because: slow}
      - {operators: aten::gelu, providers: device, because: wrong}
    require:
      - {operators: aten::mm, providers: device, because: asked for}
"""


def converted(folder: Path, name: str, text: str, to: Format) -> Converted:
    return convert(file(folder, name, text), catalogue(), to=to)


def said(done: Converted, words: str) -> bool:
    """Whether something is told as lost, in the text as well."""
    commented = [line for line in done.text.splitlines() if line.startswith("# not said here: ")]
    assert len(commented) == len(done.lost)
    return any(words in one for one in done.lost)


def test_to_flag_gems_a_denial_becomes_the_names_of_functions(tmp_path: Path) -> None:
    done = converted(tmp_path, "policy.yaml", JUMAR, "flag-gems")
    for function in ("pow_scalar", "pow_tensor_scalar", "pow_tensor_scalar_", "linear"):
        assert f'        "{function}",' in done.text
    assert '"pow_scalar",  # does not compile' in done.text
    for words in ("only for cann 8.5.*", "order of every operator", "device must not compute",
                  "device must compute aten::mm", "layer operator silu_and_mul"):  # fmt: skip
        assert said(done, words)


def test_to_the_plugin_orders_stand_beside_the_list(tmp_path: Path) -> None:
    done = converted(tmp_path, "policy.yaml", JUMAR, "vllm-plugin-fl")
    for line in (
        "prefer: flagos",
        "  rms_norm: [vendor, reference]",
        "  silu_and_mul: [vendor, reference]",
        "  - linear  # hangs",
    ):
        assert line in done.text.splitlines()
    for words in ("strict: the plugin reads VLLM_FL_STRICT", "device must compute aten::mm"):
        assert said(done, words)


def test_to_jumar_functions_become_the_operators_that_they_implement(tmp_path: Path) -> None:
    text = """
        prefer: vendor
        op_backends: {rms_norm: [vendor, "impl:x.y"], attention: [vendor]}
        flagos_blacklist: [true_divide, _to_copy]
        oot_blacklist: [fused_moe]
    """
    done = converted(tmp_path, "ascend.yaml", text, "jumar")
    path = file(tmp_path, "policy.yaml", done.text)
    order, norm, deny = read_file(path).rules
    assert order.providers == ("torch_npu", "device", "flag_gems", "reference")
    assert (norm.operators, norm.providers) == (("rms_norm",), ("torch_npu", "reference"))
    assert deny.operators == ("aten::div.Tensor", "aten::true_divide.Tensor")
    assert deny.because == "true_divide stands in ascend.yaml:4"
    for words in ("impl:x.y", "order of attention", "_to_copy: no function", "oot_blacklist: fused",
                  "the reference is never tried for rms_norm"):  # fmt: skip
        assert said(done, words)


def test_a_function_that_takes_more_along_than_was_denied_is_told(tmp_path: Path) -> None:
    text = "deny: [{operators: aten::div.Tensor, providers: flag_gems, because: x}]"
    done = converted(tmp_path, "policy.yaml", text, "flag-gems")
    assert said(done, "true_divide takes aten::true_divide.Tensor along")


def test_a_denial_of_what_flag_gems_does_not_have_is_told(tmp_path: Path) -> None:
    text = "deny: [{operators: aten::gelu, providers: flag_gems, because: x}]"
    done = converted(tmp_path, "policy.yaml", text, "flag-gems")
    assert said(done, "FlagGems has no implementation of aten::gelu")


def test_lists_of_what_is_taken_in_cannot_be_said(tmp_path: Path) -> None:
    done = converted(tmp_path, "gems.yaml", "include: [mm]", "jumar")
    assert said(done, "only these are taken in")


@settings(max_examples=30, deadline=None)
@given(st.sets(st.sampled_from(sorted(GEMS.values()))))
def test_a_list_says_the_same_after_the_way_through_every_format(
    tmp_path_factory: pytest.TempPathFactory, names: set[str]
) -> None:
    folder = tmp_path_factory.mktemp("there-and-back")
    path = file(folder, "unused.txt", "\n".join(sorted(names)))
    for to, name in (("jumar", "a.yaml"), ("vllm-plugin-fl", "b.yaml"), ("flag-gems", "c.py")):
        path = file(folder, name, convert(path, catalogue(), to=to).text)  # type: ignore[arg-type]
    back = read_file(file(folder, "d.yaml", convert(path, catalogue(), to="jumar").text))
    denied = {name for rule in back.rules for name in rule.operators}
    assert denied == {operator for operator, function in GEMS.items() if function in names}


@pytest.mark.parametrize("to", get_args(Format))
def test_what_is_written_can_be_read_and_lints_without_errors(tmp_path: Path, to: Format) -> None:
    suffix = "py" if to == "flag-gems" else "yaml"
    done = converted(tmp_path, "policy.yaml", JUMAR, to)
    findings = lint(file(tmp_path, f"written.{suffix}", done.text), catalogue())
    assert [one for one in findings if one.severity == "error"] == []


@pytest.mark.parametrize("to", get_args(Format))
def test_what_stands_in_quarantine_is_exported_for_every_peer(to: Format) -> None:
    rules = quarantine(
        bad("aten::linear", "flag_gems", shape_class="1x64"), bad("aten::gone", "flag_gems")
    )
    done = deny_lists(rules.subjects(), catalogue(), to=to)
    assert "linear" in done.text.partition("\n")[2]
    assert said(done, "denied for all shapes and dtypes")
    assert said(done, "aten::gone by flag_gems: no such operator")


def test_an_exported_quarantine_switches_off_what_was_bad(tmp_path: Path) -> None:
    first = "order: [{providers: [flag_gems, device, reference]}]"
    text = deny_lists([bad("aten::linear", "flag_gems").subject], catalogue(), to="jumar").text
    without = resolve(policy(first), catalogue(), {}, quarantine())
    with_it = resolve(policy(first, text), catalogue(), {}, quarantine())
    assert without.decide("aten::linear").implementation == "flag_gems"
    assert with_it.decide("aten::linear").implementation == "device"


def test_there_is_a_writer_for_every_format() -> None:
    assert set(WRITERS) == set(get_args(Format))
