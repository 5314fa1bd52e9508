"""The machine around the emulated cards is read as any recorded machine."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from jumar.cli.devices import command
from jumar.emulator.chips import CHIPS
from jumar.emulator.host import write_host
from jumar.emulator.settings import read_settings
from jumar.host import open_host
from jumar.host.accelerators import accelerators
from jumar.host.doctor import examine


def machine(folder, value, **environ):
    environ = {"JUMAR_EMULATE_NPU": value, **environ}
    return open_host(str(write_host(folder, read_settings(environ), environ)))


@pytest.mark.parametrize("chip", list(CHIPS))
def test_every_chip_is_read_without_a_remainder(tmp_path, chip):
    facts = machine(tmp_path, f"3,chip={chip}")
    assert not facts.unread and facts.npu_smi.error is None
    assert len(facts.cards) == 3
    for number, card in enumerate(facts.cards):
        assert card.soc is not None and card.soc.torch_npu_int == CHIPS[chip].soc
        assert card.memory.total == CHIPS[chip].memory >> 20
        assert card.phy_id == number and card.node == f"/dev/davinci{number}"
        assert card.processes == ()


@pytest.mark.parametrize("chip", list(CHIPS))
def test_the_doctor_can_look_at_everything_and_finds_nothing_wrong(tmp_path, chip):
    found = examine(machine(tmp_path, f"3,chip={chip}"))
    assert not found.unseen
    assert not [one.id for one in found.findings if one.severity != "info"]


def test_what_is_taken_away_from_it_is_missing_and_not_unknown(tmp_path):
    machine(tmp_path, "1")
    (tmp_path / "files/usr/local/Ascend/driver/version.info").unlink()
    paths = json.loads((tmp_path / "paths.json").read_text())
    gone = [path for path in paths if "/driver/lib64" in path]
    (tmp_path / "paths.json").write_text(
        json.dumps({path: entry for path, entry in paths.items() if path not in gone})
    )
    found = examine(open_host(str(tmp_path)))
    assert "driver-libraries-missing" in [one.id for one in found.findings]
    assert not found.unseen


def test_devices_shows_the_cards_as_emulated_and_free(tmp_path):
    machine(tmp_path, "2")
    result = CliRunner().invoke(command, ["--host", str(tmp_path), "--json"])
    npus = [one for one in json.loads(result.stdout)["devices"] if one["kind"] == "npu"]
    assert [one["name"] for one in npus] == ["Ascend910B1 (emulated)"] * 2
    assert [one["label"] for one in npus] == ["npu:0", "npu:1"]
    assert [one["status"] for one in npus] == ["free", "free"]
    text = CliRunner().invoke(command, ["--host", str(tmp_path)])
    assert "these NPUs are emulated: 2 Ascend910B1" in text.output


def test_the_narrowed_machine_tells_its_own_numbers(tmp_path):
    facts = machine(tmp_path, "3", ASCEND_RT_VISIBLE_DEVICES="2")
    npus = [one for one in accelerators(facts) if one.kind == "npu"]
    assert [one.label for one in npus] == [None, None, "npu:0"]


def test_versions_are_those_of_the_files(tmp_path):
    facts = machine(tmp_path, "1")
    assert facts.driver.version == "25.3.rc1"
    assert [one.version for one in facts.canns] == ["8.5.0"]
    assert facts.python.version_of("torch-npu") == "2.13.0+emulated"
    assert facts.python.version_of("click") is None  # it does not matter here


def test_the_profile_of_the_deployment_page_has_its_version(tmp_path):
    facts = machine(tmp_path, "1,profile=2.1")
    assert facts.python.version_of("torch-npu") == "2.1.0.post6+emulated"
