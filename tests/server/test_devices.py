"""The devices of the machine, as callers of a server see them."""

from __future__ import annotations

import pytest
from tests.support.serving import Running

from jumar.server.machine import Machine


def test_a_device_says_how_it_is_and_which_models_are_on_it(server: Running) -> None:
    found = server.client.get("/v1/devices").json()["data"]
    cpu = next(one for one in found if one["id"] == "cpu")
    assert (cpu["status"], cpu["models"], cpu["emulated"]) == ("free", ["toy"], False)
    assert 0 <= cpu["used_mb"] <= cpu["total_mb"]
    card = server.client.get("/v1/models/toy").json()
    assert card["device"] == "cpu", "where it is, which 'auto' does not say"


def test_an_emulated_card_is_called_so_and_has_its_readings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JUMAR_EMULATE_NPU", "2")
    cards = [one for one in Machine().devices() if one["kind"] == "npu"]
    assert [one["id"] for one in cards] == ["npu:0", "npu:1"]
    for one in cards:
        assert one["emulated"]
        assert (one["health"], one["total_mb"]) == ("OK", 65_536)
        assert one["temperature_c"] > 0


def test_the_cpu_beneath_emulated_cards_is_this_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    (real,) = (one for one in Machine().devices() if one["kind"] == "cpu")
    monkeypatch.setenv("JUMAR_EMULATE_NPU", "2")
    (cpu,) = (one for one in Machine().devices() if one["kind"] == "cpu")
    assert (cpu["name"], cpu["total_mb"]) == (real["name"], real["total_mb"])
    assert not cpu["emulated"]


def test_the_machine_is_not_asked_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    first = machine.devices()
    assert machine.devices() is first
    monkeypatch.setattr("jumar.server.machine.time.monotonic", lambda: 1e12)
    assert machine.devices() is not first
