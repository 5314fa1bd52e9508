"""`check`: from inside a container, by the same rows as the plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.host.ascend_hosts import LINES, Spec, healthy, inside
from tests.host.doctor.broken_hosts import BROKEN
from tests.host.recorded import make_host

from jumar.contracts.errors import InvalidRequest
from jumar.deploy.container import check
from jumar.host import open_host
from jumar.host.facts import HostFacts

Host = Callable[[Spec], HostFacts]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return lambda spec: open_host(make_host(tmp_path, **spec))


@pytest.mark.parametrize("line", LINES)
def test_a_container_that_was_given_everything_lacks_nothing(line: str, host: Host) -> None:
    given, diagnosis = check(host(inside(healthy(line), privileged=line == "950")))
    assert [one.path for one in given if one.needed and one.state != "present"] == []
    assert diagnosis.worst() in (None, "info")


def test_what_is_missing_is_named_with_the_option_that_adds_it(host: Host) -> None:
    spec = inside(healthy())
    del spec["nodes"]["hisi_hdc"]
    del spec["files"]["/usr/local/bin/npu-smi"]
    given, _ = check(host(spec))
    missing = {one.path: one for one in given if one.state == "missing"}
    assert missing["/dev/hisi_hdc"].add == "--device=/dev/hisi_hdc"
    assert missing["/dev/hisi_hdc"].needed
    add = "--mount=type=bind,src=/usr/local/bin/npu-smi,dst=/usr/local/bin/npu-smi,readonly"
    assert missing["/usr/local/bin/npu-smi"].add == add


def test_ub_libraries_are_asked_for_one_by_one(host: Host) -> None:
    given, diagnosis = check(host(BROKEN["ub-libraries-missing"]()))
    missing = [one for one in given if one.state == "missing" and one.needed]
    assert [one.path for one in missing] == ["/usr/lib64/liburma*", "/usr/lib64/libummu*"]
    assert all("under its own name" in str(one.add) for one in missing)
    assert diagnosis.findings[0].id == "ub-libraries-missing"


def test_an_empty_folder_in_place_of_a_file_is_wrong_not_present(host: Host) -> None:
    given, _ = check(host(BROKEN["mount-made-folder"]()))
    (info,) = (one for one in given if one.path == "/etc/ascend_install.info")
    assert info.state == "wrong"


def test_a_container_without_any_card_says_so(host: Host) -> None:
    given, diagnosis = check(host(BROKEN["no-davinci-node"]()))
    assert (given[0].path, given[0].state, given[0].needed) == ("/dev/davinci*", "missing", True)
    assert diagnosis.worst() == "error"


def test_what_nobody_looked_at_is_unknown_not_missing(tmp_path: Path) -> None:
    table = "npu-smi-info__950PRx3__25.7.rc1__alarm__procs.txt"
    files = {"/.dockerenv": "", "/proc/1/cgroup": "0::/docker/1\n"}
    given, _ = check(open_host(make_host(tmp_path, npu_smi=table, files=files, complete=False)))
    states = {one.path: one.state for one in given}
    assert states["/usr/local/dcmi"] == "unknown"
    assert states["/usr/lib64/liburma*"] == "unknown"


def test_outside_a_container_the_plan_is_pointed_at(host: Host) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check(host(healthy()))
    assert "jumar container plan" in str(caught.value.hint)


def test_of_a_product_that_is_not_known_only_common_needs_are_listed(host: Host) -> None:
    given, _ = check(host({"files": {"/.dockerenv": ""}}))
    paths = [one.path for one in given]
    assert len(paths) == len(set(paths))
    assert {"/dev/davinci_manager", "/dev/devmm_svm", "/usr/local/dcmi"} <= set(paths)
    assert not {"/dev/svm0", "/usr/lib64/liburma*", "/var/slogd"} & set(paths)
