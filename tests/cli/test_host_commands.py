"""`jumar host` and `jumar devices` on recorded machines, as a user sees them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.host.recorded import SAMPLES, make_host

from jumar.cli.devices import command as devices
from jumar.cli.host import command as host

A2 = "npu-smi-info__910B4x8__24.1.rc3__procs-empty-name.txt"


def run(command: object, *args: str) -> Result:
    result = CliRunner().invoke(command, args, catch_exceptions=False)  # type: ignore[arg-type]
    assert result.exit_code == 0, result.output
    return result


def test_devices_shows_status_memory_and_holders_of_each_card() -> None:
    text = run(devices, "--host", str(SAMPLES / A2)).stdout
    rows = {line.split()[1].rstrip(")"): line for line in text.splitlines() if "(NPU" in line}
    assert len(rows) == 8
    assert "in use" in rows["6"]
    assert "3.0 GiB" in rows["6"]
    assert "(pid 89372, 26870 MB)" in rows["6"]
    assert "free" in rows["2"]
    assert "29.2 GiB" in rows["2"]


def test_devices_explains_which_number_is_used_where(tmp_path: Path) -> None:
    recorded = make_host(
        tmp_path,
        npu_smi="npu-smi-info__310P3x8__25.3.rc1__idle__ids-32768.txt",
        env={"ASCEND_RT_VISIBLE_DEVICES": "4, 5"},
    )
    result = run(devices, "--host", recorded, "--explain")
    row = next(ln for ln in result.stdout.splitlines() if ln.split()[:2] == ["32768", "0"])
    assert row.split() == ["32768", "0", "?", "4", "0"]
    assert "ASCEND_VISIBLE_DEVICES" in result.stdout
    assert "a blank ends the list: '5' is never read" in result.stderr


def test_devices_as_json_is_json_and_nothing_else() -> None:
    data = json.loads(run(devices, "--json", "--host", str(SAMPLES / A2)).stdout)
    assert [device["kind"] for device in data["devices"]] == ["npu"] * 8 + ["cpu"]
    assert data["devices"][2]["free_mb"] == 32768 - 2824
    assert data["unseen"]


@pytest.mark.parametrize("sample", sorted(path.name for path in SAMPLES.glob("npu-smi-info__*")))
def test_devices_shows_every_sample(sample: str) -> None:
    assert (
        "(NPU" in (text := run(devices, "--host", str(SAMPLES / sample)).stdout) or "npu:" in text
    )


def test_host_show_tells_what_is_there_and_what_was_not_seen() -> None:
    text = run(host, "show", "--host", str(SAMPLES / A2)).stdout
    assert "Ascend910B4, A2, OK, 21480 of 32768 MB used" in text
    assert "24.1.rc3, driver 24.1.rc3" in text
    assert "not seen: paths: " in text


def test_host_show_as_json_holds_all_facts() -> None:
    data = json.loads(run(host, "show", "--json", "--host", str(SAMPLES / A2)).stdout)
    assert len(data["cards"]) == 8
    assert data["cards"][0]["soc"]["variant"] == "910b"


def test_host_snapshot_writes_a_record_and_says_what_it_removed(tmp_path: Path) -> None:
    recorded = make_host(tmp_path, npu_smi=A2, env={"HF_TOKEN": "hf_abcdefghijklmnopqrst"})
    out = tmp_path / "record.tar.gz"
    text = run(host, "snapshot", str(out), "--host", recorded).stdout
    assert "removed: 1 x credential" in text
    shown = run(host, "show", "--host", str(out)).stdout
    assert "Ascend910B4, A2, OK, 21480 of 32768 MB used" in shown


def test_this_machine_can_be_shown_and_recorded(tmp_path: Path) -> None:
    assert "cpu" in run(devices).stdout
    assert "python" in run(host, "show").stdout
    data = json.loads(run(host, "snapshot", str(tmp_path / "r.tar.gz"), "--json").stdout)
    assert Path(data["path"]).is_file()


def test_devices_shows_emulated_npus_as_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUMAR_EMULATE_NPU", "2,chip=310P")
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "1")
    rows = [line for line in run(devices).stdout.splitlines() if "Ascend310P3 (emulated)" in line]
    assert len(rows) == 2
    assert "leaves it out" in rows[0]
    assert rows[1].startswith("npu:0")
