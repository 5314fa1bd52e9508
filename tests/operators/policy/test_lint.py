"""Lint: does each line do what its writer thinks?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.operators.policy.toy import catalogue, file, lines_with

from jumar.contracts.errors import DependencyMissing
from jumar.operators.catalogue.base import Catalogue
from jumar.operators.policy.lint import CODES, Finding, lint

GOOD = """
    order: [{providers: [device, flag_gems, reference]}]
    deny:
      - {families: [pow], providers: flag_gems, because: it does not compile}
"""


def codes(findings: list[Finding]) -> list[tuple[int, str, str]]:
    return [(one.line, one.code, one.entry) for one in findings]


class TestListsOfFlagGems:
    def test_an_entry_that_is_no_functions_name_is_dead_and_what_was_meant_is_named(
        self, tmp_path: Path
    ) -> None:
        (finding,) = lint(file(tmp_path, "unused.txt", "linear\npow\n"), catalogue())
        assert (finding.line, finding.code, finding.severity) == (2, "dead-entry", "error")
        assert finding.nearest == ("pow_scalar", "pow_tensor_scalar", "pow_tensor_scalar_")
        assert finding.fix == "write pow_scalar, pow_tensor_scalar, pow_tensor_scalar_"

    @pytest.mark.parametrize(
        ("entry", "words", "nearest"),
        [
            ("_softmax", "is an operator's name", "softmax"),
            ("reshape", "FlagGems has no implementation", None),
            ("linaer", "no function that FlagGems registers", "linear"),
            ("Linear", "no function that FlagGems registers", "linear"),
            ("aten::linear", "is an operator's name", "linear"),
            ("linear*", "no function that FlagGems registers", "linear"),
        ],
    )
    def test_dead_entries_are_told_apart(
        self, tmp_path: Path, entry: str, words: str, nearest: str | None
    ) -> None:
        (finding,) = lint(file(tmp_path, "unused.txt", entry), catalogue())
        assert finding.code == "dead-entry"
        assert words in finding.message
        assert nearest is None or nearest in finding.nearest

    def test_an_entry_that_leaves_overloads_on_says_which(self, tmp_path: Path) -> None:
        (finding,) = lint(file(tmp_path, "unused.txt", "mm"), catalogue())
        assert finding.code == "partial-cover"
        assert "aten::mm.out" in finding.message
        assert finding.fix == "add mm_out"
        assert lint(file(tmp_path, "unused.txt", "mm, mm_out  # both"), catalogue()) == []

    def test_an_entry_whose_replacement_calls_what_stays_on_says_what(self, tmp_path: Path) -> None:
        (finding,) = lint(file(tmp_path, "unused.txt", "exponential_"), catalogue())
        assert finding.code == "re-enters"
        assert "aten::log_, aten::uniform_" in finding.message
        whole = "exponential_\nuniform_\nlog_\n"
        assert lint(file(tmp_path, "unused.txt", whole), catalogue()) == []

    def test_an_operator_with_a_kernel_of_the_devices_own_re_enters_nothing(
        self, tmp_path: Path
    ) -> None:
        known = catalogue()
        kernel = replace(known.operators["aten::exponential_"], keys=("PrivateUse1",))
        with_kernel = replace(known, operators={**known.operators, kernel.name: kernel})
        path = file(tmp_path, "unused.txt", "exponential_")
        assert lines_with("re-enters", lint(path, known)) == ["exponential_"]
        assert lines_with("re-enters", lint(path, with_kernel)) == []

    def test_an_entry_that_stands_twice_is_told_once(self, tmp_path: Path) -> None:
        findings = lint(file(tmp_path, "unused.txt", "linear\nlinear\n"), catalogue())
        assert codes(findings) == [(2, "duplicate", "linear")]

    def test_lists_in_python_are_read_without_running_it(self, tmp_path: Path) -> None:
        text = """
            raise SystemExit("never run")
            OFF = ["linear", "powww"]
            flag_gems.enable(unused=OFF)
            flag_gems.only_enable(include=["mm"])
            enable(lib, ["lineaar"])
            flag_gems.enable(unused=read_list())
            flag_gems.enable()
        """
        findings = lint(file(tmp_path, "serve.py", text), catalogue())
        assert lines_with("dead-entry", findings) == ["powww", "lineaar"]
        assert lines_with("partial-cover", findings) == []
        (unread,) = [one for one in findings if one.code == "not-read"]
        assert (unread.line, "read_list()" in unread.message) == (7, True)
        assert lines_with("both-lists", findings) == ["include, exclude"]

    def test_flag_gems_own_yaml_is_read(self, tmp_path: Path) -> None:
        text = "exclude:\n  - linear\n  - pow\n"
        findings = lint(file(tmp_path, "gems.yaml", text), catalogue())
        assert codes(findings) == [(3, "dead-entry", "pow")]

    def test_python_without_a_list_is_not_read(self, tmp_path: Path) -> None:
        (finding,) = lint(file(tmp_path, "serve.py", "print()"), catalogue())
        assert finding.code == "not-read"

    def test_names_are_held_against_nothing_where_flag_gems_is_not_known(
        self, tmp_path: Path
    ) -> None:
        with pytest.raises(DependencyMissing, match="knows nothing of FlagGems"):
            lint(file(tmp_path, "unused.txt", "mm"), Catalogue({"torch": "2.13.0"}, {}))

    def test_names_are_held_against_flag_gems_alone_where_nothing_tells_torchs(
        self, tmp_path: Path
    ) -> None:
        alone = replace(catalogue(), operators={})
        findings = lint(file(tmp_path, "unused.txt", "mm\nmmm"), alone)
        assert [(one.code, one.entry, one.fix) for one in findings] == [
            ("dead-entry", "mmm", "write mm, or remove it")
        ]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("denny:\n  - {families: [mm], providers: flag_gems}", "deny"),
        ("exlude: [mm]", "exclude"),
        ("flagos_blacklists: [mm]", "flagos_blacklist"),
    ],
)
def test_a_file_in_no_format_is_told_the_nearest_key_of_all_of_them(
    tmp_path: Path, text: str, meant: str
) -> None:
    (finding,) = lint(file(tmp_path, "off.yaml", text), catalogue())
    assert finding.code == "not-read"
    assert finding.message.startswith("off.yaml:1: ")
    assert repr(meant) in finding.message


class TestYamlOfThePlugin:
    @pytest.mark.parametrize(
        ("text", "line", "code", "entry"),
        [
            ("prefer: vendor\nstrict: true", 2, "unread-key", "strict"),
            ("prefer: vendor\nper_op: {rms_norm: [vendor]}", 2, "unread-key", "per_op"),
            ("prefer: vendor\noot_whitelist: [rms_norm]", 2, "unread-key", "oot_whitelist"),
            ("prefer: vendor\nflagos_blacklists: [mm]", 2, "unknown-key", "flagos_blacklists"),
            ("prefer: flaggems", 1, "unknown-key", "flaggems"),
            ("op_backends:\n  rms_norm: [vendor:Ascend, reference]", 2, "unknown-token",
             "vendor:Ascend"),
            ("op_backends:\n  rms_norm: [falgos, reference]", 2, "unknown-token", "falgos"),
            ("op_backends:\n  rms_norm:\n    - vendor\n    - flagos", 2, "no-fallback", "rms_norm"),
            ("op_backends:\n  rmsnorm: [reference]", 2, "dead-entry", "rmsnorm"),
            ("oot_blacklist: [linear]", 1, "wrong-list", "linear"),
            ("oot_blacklist: [fused_mo]", 1, "dead-entry", "fused_mo"),
            ("flagos_blacklist:\n  - silu_and_mul", 2, "wrong-list", "silu_and_mul"),
            ("flagos_blacklist:\n  - causal_conv1d_fn", 2, "dead-entry", "causal_conv1d_fn"),
            ("deny_vendors: [Ascend]", 1, "dead-entry", "Ascend"),
            ("flagos_whitelist: [linear]\nflagos_blacklist: [linear]", 2, "both-lists",
             "flagos_blacklist"),
        ],
    )  # fmt: skip
    def test_each_line_that_does_something_else_is_one_finding(
        self, tmp_path: Path, text: str, line: int, code: str, entry: str
    ) -> None:
        findings = lint(file(tmp_path, "ascend.yaml", text), catalogue())
        assert codes(findings) == [(line, code, entry)]

    def test_a_file_that_does_what_it_says_has_no_findings(self, tmp_path: Path) -> None:
        text = """
            prefer: flagos
            strict: false
            allow_vendors: [ascend]
            op_backends:
              rms_norm: [vendor:ascend, impl:default.flagos, reference]
              moe_sum: vendor|reference
            flagos_blacklist: [linear]
            oot_blacklist: [fused_moe]
        """
        assert lint(file(tmp_path, "ascend.yaml", text), catalogue()) == []

    def test_an_order_and_the_list_that_empties_it_are_named(self, tmp_path: Path) -> None:
        text = """
            op_backends: {silu_and_mul: [flagos, reference]}
            flagos_blacklist: [silu_and_mul]
        """
        findings = lint(file(tmp_path, "ascend.yaml", text), catalogue())
        assert lines_with("contradiction", findings) == ["silu_and_mul"]

    def test_what_the_vendor_list_has_already_is_a_note_in_that_vendors_file(
        self, tmp_path: Path
    ) -> None:
        text = "flagos_blacklist: [exponential_, uniform_, log_]"
        noted = lint(file(tmp_path, "ascend.yaml", text), catalogue())
        assert [(one.code, one.severity) for one in noted] == [("already-off", "note")]
        assert lint(file(tmp_path, "metax.yaml", text), catalogue()) == []


class TestPoliciesOfJumar:
    def test_a_policy_that_does_what_it_says_has_no_findings(self, tmp_path: Path) -> None:
        assert lint(file(tmp_path, "policy.yaml", GOOD), catalogue()) == []

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("deny: [{families: powe, providers: flag_gems, because: x}]", "unknown-name"),
            ("deny: [{families: pow, providers: flaggems, because: x}]", "unknown-name"),
            ("deny: [{operators: aten::gelu, providers: flag_gems, because: x}]", "dead-entry"),
            ("deny: [{operators: aten::mm, providers: flag_gems, because: x}]", "partial-cover"),
            ("deny: [{families: exponential, providers: flag_gems, because: x}]", "re-enters"),
            ("deny: [{families: linear, providers: flag_gems}]", "no-source"),
            ("order: [{providers: [device]}]", "no-fallback"),
            ("deny:\n" + "  - {families: linear, providers: flag_gems, because: x}\n" * 2,
             "duplicate"),
            ("deny: [{families: linear, providers: torch_npu, because: x}]", "unproven"),
            ("deny: [{families: linear}]", "not-read"),
            ("order: {providers: [device]}", "not-read"),
        ],
    )  # fmt: skip
    def test_each_line_that_does_less_is_one_finding(
        self, tmp_path: Path, text: str, code: str
    ) -> None:
        findings = lint(file(tmp_path, "policy.yaml", text), catalogue())
        assert [one.code for one in findings] == [code]

    def test_of_several_names_in_a_line_the_dead_ones_are_named(self, tmp_path: Path) -> None:
        text = "deny: [{families: [linear, reshape], providers: flag_gems, because: x}]"
        (finding,) = lint(file(tmp_path, "policy.yaml", text), catalogue())
        assert (finding.code, finding.fix) == ("dead-entry", "remove reshape")

    @pytest.mark.parametrize(("version", "found"), [(">=2", []), (">=1", ["deny reshape"])])
    def test_a_line_for_other_versions_than_the_catalogues_is_not_dead(
        self, tmp_path: Path, version: str, found: list[str]
    ) -> None:
        text = f"""
            deny:
              - {{families: reshape, providers: flag_gems, when: {{flag_gems: "{version}"}},
                 because: x}}
        """
        findings = lint(file(tmp_path, "policy.yaml", text), catalogue())
        assert lines_with("dead-entry", findings) == found

    def test_a_strict_policy_may_leave_the_reference_out(self, tmp_path: Path) -> None:
        text = "strict: true\norder: [{providers: [device]}]"
        assert lint(file(tmp_path, "policy.yaml", text), catalogue()) == []


def test_every_kind_of_finding_has_a_severity_and_a_sentence() -> None:
    assert {kind.severity for kind in CODES.values()} == {"error", "warning", "note"}
    assert all(kind.means for kind in CODES.values())
