"""`jumar doctor` and `jumar container` as a user meets them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.host.ascend_hosts import Spec, healthy, inside
from tests.host.doctor.broken_hosts import BROKEN
from tests.host.recorded import make_host

from jumar.cli import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line: exit code, stdout, stderr."""

    def call(*argv: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main(argv)
        said = capsys.readouterr()
        code = stopped.value.code
        return int(code or 0), said.out, said.err

    return call


@pytest.fixture
def host(tmp_path: Path) -> Callable[[Spec], str]:
    return lambda spec: make_host(tmp_path, **spec)


Host = Callable[[Spec], str]


def test_a_healthy_host_is_said_to_be_healthy(run: Run, host: Host) -> None:
    code, out, _ = run("doctor", "--host", host(healthy()), "--lang", "en")
    assert code == 0
    assert "Nothing is wrong." in out
    assert "Ascend910B3 x2 · driver 25.3.rc1 · CANN 8.5.0" in out


def test_a_broken_host_shows_cause_and_fix_and_fails(run: Run, host: Host) -> None:
    recorded = host(BROKEN["cann-not-sourced"]())
    code, out, _ = run("doctor", "--host", recorded, "--lang", "en", "--for", "vllm")
    assert code == 1
    assert "✗ error  The CANN environment is not loaded" in out
    assert "source /usr/local/Ascend/cann-8.5.0/set_env.sh" in out
    assert "follows from it:" in out


def test_the_screen_speaks_chinese(run: Run, host: Host) -> None:
    code, out, _ = run("doctor", "--host", host(BROKEN["opp-path-unset"]()), "--lang", "zh")
    assert code == 1
    assert "✗ 错误  没有设置 ASCEND_OPP_PATH" in out
    assert "解决" in out and "现象" in out and "原因" in out


@pytest.mark.parametrize(
    ("locale", "word"), [("zh_CN.UTF-8", "没有发现问题"), ("de_DE.UTF-8", "Nothing is wrong")]
)
def test_the_language_comes_from_the_locale(
    locale: str, word: str, run: Run, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.delenv("LC_MESSAGES", raising=False)
    monkeypatch.setenv("LANG", locale)
    assert word in run("doctor", "--host", host(healthy()))[1]


def test_warnings_fail_only_when_strict(run: Run, host: Host) -> None:
    recorded = host(BROKEN["visible-not-ascending"]())
    assert run("doctor", "--host", recorded)[0] == 0
    assert run("doctor", "--host", recorded, "--strict")[0] == 1


def test_notes_never_fail(run: Run, host: Host) -> None:
    assert run("doctor", "--host", host(healthy("310p")), "--strict")[0] == 0


def test_json_holds_findings_ids_and_what_stayed_dark(run: Run, host: Host) -> None:
    recorded = host(BROKEN["visible-unknown-id"]())
    code, out, _ = run("doctor", "--host", recorded, "--json", "--lang", "zh")
    data = json.loads(out)
    assert code == 1
    assert data["worst"] == "error"
    assert (data["lang"], data["for"], data["not_looked_at"]) == ("zh", None, [])
    (finding,) = data["findings"]
    assert finding["id"] == "visible-unknown-id"
    assert finding["fix"][0] == "export ASCEND_RT_VISIBLE_DEVICES=0"
    assert data["ids"][1] == {
        "npu_id": 1,
        "chip_id": 0,
        "phy_id": 1,
        "logic_id": 1,
        "process": None,
    }


def test_the_map_of_ids_is_drawn_where_numbers_are_the_matter(run: Run, host: Host) -> None:
    _, out, _ = run("doctor", "--host", host(BROKEN["visible-unknown-id"]()), "--lang", "en")
    assert "Which number belongs where" in out
    _, out, _ = run("doctor", "--host", host(BROKEN["spawn-not-set"]()), "--lang", "en")
    assert "Which number belongs where" not in out


def test_a_log_is_explained_below_what_the_host_explains(
    run: Run, host: Host, tmp_path: Path
) -> None:
    log = tmp_path / "serve.log"
    log.write_text("ok\nFailed to load the backend extension: torch_npu\n", encoding="utf-8")
    recorded = host(BROKEN["cann-not-sourced"]())
    code, out, _ = run("doctor", "--host", recorded, "--log", str(log), "--json")
    first = json.loads(out)["findings"][0]
    below = {finding["id"]: finding for finding in first["consequences"]}
    assert code == 1
    assert first["id"] == "cann-not-sourced"
    assert below["log-backend-extension"]["lines"] == [2]


def test_a_log_from_elsewhere_is_explained_alone(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "other.log"
    log.write_text("Cannot re-initialize NPU in forked subprocess\n", encoding="utf-8")
    code, out, _ = run("doctor", "--log", str(log), "--json", "--lang", "en")
    data = json.loads(out)
    assert code == 1
    assert [finding["id"] for finding in data["findings"]] == ["log-fork"]
    assert data["not_looked_at"][0]["what"] == "host"


def test_a_missing_file_is_a_wrong_request(run: Run, tmp_path: Path) -> None:
    code, _, err = run("doctor", "--host", str(tmp_path / "nothing"))
    assert code == 2
    assert "no such file or folder" in err
    assert run("doctor", "--log", str(tmp_path / "nothing"))[0] == 2


def test_a_plan_is_printed_and_its_exit_code_says_whether_it_is_whole(run: Run, host: Host) -> None:
    spec = healthy()
    code, out, _ = run("container", "plan", "--image", "python:3.11", "--host", host(spec))
    assert code == 0
    assert out.startswith("docker run --rm -it \\\n")
    del spec["nodes"]["devmm_svm"]
    code, out, err = run("container", "plan", "--image", "python:3.11", "--host", host(spec))
    assert code == 1
    assert "missing: /dev/devmm_svm: does not exist on this host" in err


def test_a_plan_takes_cards_format_and_command(run: Run, host: Host) -> None:
    argv = ["container", "plan", "--image", "python:3.11", "--host", host(healthy("a3"))]
    argv += ["--devices", "2, 3", "--format", "compose", "--explain", "--", "sleep", "1"]
    code, out, _ = run(*argv)
    assert code == 0
    assert "- /dev/davinci2:/dev/davinci2  # a chosen card" in out
    assert "davinci4" not in out
    assert "exec sleep 1" in out


def test_a_wrong_image_is_refused_with_the_right_one(run: Run, host: Host) -> None:
    image = "quay.io/ascend/vllm-ascend:v0.13.0"
    code, _, err = run("container", "plan", "--image", image, "--host", host(healthy("310p")))
    assert code == 2
    assert f"Use {image}-310p" in err


def test_a_host_without_npu_has_the_exit_code_of_a_missing_device(run: Run, host: Host) -> None:
    assert run("container", "plan", "--image", "x", "--host", host({}))[0] == 3


def test_check_lists_what_is_missing(run: Run, host: Host) -> None:
    spec = inside(healthy())
    assert run("container", "check", "--host", host(spec), "--lang", "en")[0] == 0
    del spec["nodes"]["davinci_manager"]
    code, out, _ = run("container", "check", "--host", host(spec), "--lang", "en")
    assert code == 1
    assert "✗ /dev/davinci_manager  missing, needed" in out
    code, out, _ = run("container", "check", "--host", host(spec), "--json")
    given = {one["path"]: one["state"] for one in json.loads(out)["given"]}
    assert given["/dev/davinci_manager"] == "missing"


def test_the_commands_load_neither_yaml_nor_rich_before_they_are_asked() -> None:
    code = (
        "import sys, jumar.cli.doctor, jumar.cli.container; "
        "print([m for m in ('yaml', 'rich', 'pydantic', 'numpy', 'torch') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_what_could_not_be_looked_at_is_named_with_the_reason(run: Run, tmp_path: Path) -> None:
    table = tmp_path / "npu-smi.txt"
    table.write_text(healthy()["npu_smi"], encoding="utf-8")
    code, out, _ = run("doctor", "--host", str(table), "--lang", "en")
    assert code == 0
    assert "Could not look at" in out
    assert "canns: not recorded: /usr/local/Ascend" in out
    assert "rules left out" in out
    assert "Nothing is wrong in what could be looked at." in out


def test_long_evidence_is_cut_on_the_screen_and_whole_in_json(run: Run, host: Host) -> None:
    recorded = host(healthy("a3"))
    assert "… and 12 more" in run("doctor", "--host", recorded, "--lang", "en")[1]
    (finding,) = json.loads(run("doctor", "--host", recorded, "--json")[1])["findings"]
    assert len(finding["evidence"]) == 15


@pytest.mark.parametrize("devices", ["", " ", ",", " , "])
def test_an_empty_list_of_cards_is_not_taken_for_all(devices: str, run: Run, host: Host) -> None:
    argv = ["container", "plan", "--image", "python:3.11", "--host", host(healthy())]
    code, out, err = run(*argv, "--devices", devices)
    assert (code, out) == (2, "")
    assert "no card is named" in err
