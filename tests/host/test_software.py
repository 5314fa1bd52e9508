"""Version files, install infos, CANN layouts and links: what a recorded machine tells of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.host.recorded import SAMPLES

from jumar.host import open_host
from jumar.host.ranges import VersionRange, version_key

ROOT = "/usr/local/Ascend"
MakeHost = Callable[..., str]

DRIVERS = [
    ("driver-version.info__24.1.rc1__no-package_version.txt", "24.1.rc1", None, ["7.0.0 - 7.2.99"]),
    ("driver-version.info__25.0.rc1.1.txt", "25.0.rc1.1", "25.0.rc1.1", ["7.0.0 - 7.7.99"]),
    (
        "driver-version.info__25.3.rc1__two-fw-ranges.txt",
        "25.3.rc1",
        "25.3.rc1",
        ["6.4.0 - 6.4.99", "7.0.0 - 8.9.9"],
    ),
]


@pytest.mark.parametrize(("name", "version", "package", "ranges"), DRIVERS)
def test_a_driver_has_its_version_and_the_firmware_that_it_accepts(
    make_host: MakeHost, name: str, version: str, package: str | None, ranges: list[str]
) -> None:
    driver = open_host(make_host(files={f"{ROOT}/driver/version.info": name})).driver
    assert driver is not None
    assert (driver.version, driver.package_version) == (version, package)
    assert [str(one) for one in driver.firmware_ranges] == ranges
    assert driver.inner_version == driver.values["Innerversion"]
    assert all(one.startswith("V100R001C") for one in driver.compatible)
    assert len(driver.compatible) == len(driver.values["compatible_version"].split(","))


FIRMWARES = [
    ("firmware-version.info__7.1.0.11.220__mismatch-with-driver-24.1.rc1.txt", "7.1.0.11.220", 2),
    ("firmware-version.info__7.7.0.1.231__25.0.rc1.1.txt", "7.7.0.1.231", 4),
]


@pytest.mark.parametrize(("name", "version", "ranges"), FIRMWARES)
def test_a_firmware_has_its_version_and_the_drivers_that_it_accepts(
    make_host: MakeHost, name: str, version: str, ranges: int
) -> None:
    firmware = open_host(make_host(files={f"{ROOT}/firmware/version.info": name})).firmware
    assert firmware is not None
    assert (firmware.version, len(firmware.driver_ranges)) == (version, ranges)


@pytest.mark.parametrize(
    ("low", "high", "inside", "outside"),
    [
        ("7.0.0", "7.2.99", ["7.0.0", "7.1.0.11.220", "7.2.99"], ["6.4.12", "7.3.0"]),
        ("7.0.0", "8.9.9", ["7.8.0.6.201", "8.0.0"], ["9.0.0.105.229"]),
        ("23.0.rc3", "23.0.rc3.", ["23.0.rc3", "23.0.rc3.5"], ["23.0.rc30", "23.0.0", "24.1.rc1"]),
        ("24.1", "24.1.", ["24.1.rc1", "24.1.0.3", "24.1"], ["24.10", "25.0.rc1.1"]),
    ],
)  # fmt: skip
def test_a_range_holds_what_lies_in_it(
    low: str, high: str, inside: list[str], outside: list[str]
) -> None:
    reach = VersionRange(low=low, high=high)
    assert [one for one in [*inside, *outside] if reach.holds(one)] == inside


def test_release_candidates_stand_before_the_release_and_count_as_numbers() -> None:
    rising = ["8.0.RC3", "8.0.0", "8.2.RC1", "8.2.RC2", "8.2.RC10", "8.2.0", "8.3.RC1"]
    assert sorted(set(rising), key=version_key) == rising
    assert version_key("2.1.0") < version_key("2.1.0.post6") < version_key("2.1.0.post13")


INFOS = [
    ("etc-ascend_install.info__normal-host.txt", "complete"),
    ("etc-ascend_install.info__incomplete-no-status-line.txt", None),
]


@pytest.mark.parametrize(("name", "status"), INFOS)
def test_an_install_info_without_status_line_is_an_incomplete_install(
    make_host: MakeHost, name: str, status: str | None
) -> None:
    info = open_host(make_host(files={"/etc/ascend_install.info": name})).install_info
    assert info is not None
    assert (info.kind, info.status, info.mode) == ("file", status, "normal")
    assert (info.user, info.group) == ("HwHiAiUser", "HwHiAiUser")


def test_an_install_info_that_docker_made_as_a_folder_is_told_from_a_file(
    make_host: MakeHost,
) -> None:
    info = open_host(make_host(directories=["/etc/ascend_install.info"])).install_info
    assert info is not None
    assert (info.kind, info.status, dict(info.values)) == ("directory", None, {})


def test_the_driver_is_looked_for_where_the_install_info_says(make_host: MakeHost) -> None:
    facts = open_host(
        make_host(
            files={
                "/etc/ascend_install.info": "Driver_Install_Path_Param=/opt/Ascend\nX=\n",
                "/opt/Ascend/driver/version.info": "driver-version.info__25.0.rc1.1.txt",
            }
        )
    )
    assert facts.driver is not None
    assert facts.driver.path == "/opt/Ascend/driver/version.info"


def test_the_old_layout_is_one_install_under_two_names(make_host: MakeHost) -> None:
    base = f"{ROOT}/ascend-toolkit"
    facts = open_host(
        make_host(
            files={
                f"{base}/8.1.RC1/aarch64-linux/ascend_toolkit_install.info": (
                    "ascend_toolkit_install.info__8.1.RC1.txt"
                ),
                f"{base}/8.1.RC1/version.cfg": "version.cfg__8.0.0.txt",
                f"{base}/set_env.sh": "export X=1\n",
            },
            directories=[
                f"{base}/8.1.RC1/opp/built-in/op_impl/ai_core/tbe/kernel/ascend910b",
                f"{base}/8.1.RC1/opp/built-in/op_impl/ai_core/tbe/kernel/config",
                f"{base}/8.1.RC1/lib64",
                f"{base}/8.1.RC1/aarch64-linux/lib64",
            ],
            links={f"{base}/latest": "./8.1.RC1"},
        )
    )
    (cann,) = facts.canns
    assert (cann.root, cann.layout, cann.aliases) == (
        f"{base}/8.1.RC1",
        "ascend-toolkit",
        (f"{base}/latest",),
    )
    assert (cann.version, cann.install_version, cann.dir_version) == ("8.1.RC1",) * 3
    assert (cann.cfg_version, cann.arch, cann.arch_dir) == ("8.0.0", "aarch64", "aarch64-linux")
    assert cann.inner_version == "V100R001C21SPC001B201"
    assert len(cann.compatible) == 5
    assert (cann.kernels, cann.set_env) == (("ascend910b",), f"{base}/set_env.sh")
    assert cann.lib_dirs == (f"{base}/8.1.RC1/lib64", f"{base}/8.1.RC1/aarch64-linux/lib64")
    assert facts.cann is cann


def test_a_latest_folder_full_of_links_is_a_name_of_what_they_lead_to(make_host: MakeHost) -> None:
    base = f"{ROOT}/ascend-toolkit"
    facts = open_host(
        make_host(
            files={
                f"{base}/8.2.RC2/toolkit/version.info": "Version=8.2.0.0\nversion_dir=8.2.RC2\n",
                f"{base}/latest/version.cfg": (
                    "version.cfg__8.0.T63__stale-in-an-image-linked-to-8.2.RC2.txt"
                ),
            },
            links={f"{base}/latest/toolkit": "../8.2.RC2/toolkit"},
        )
    )
    (cann,) = facts.canns
    assert (cann.version, cann.dir_version, cann.cfg_version) == ("8.2.RC2", "8.2.RC2", "8.0.T63")
    assert cann.aliases == (f"{base}/latest",)
    assert [link.resolved for link in facts.links] == [f"{base}/8.2.RC2/toolkit"]


def test_the_version_folder_speaks_before_the_version_number(make_host: MakeHost) -> None:
    name = "toolkit-version.info__8.2.RC1__version-differs-from-version_dir.txt"
    facts = open_host(make_host(files={f"{ROOT}/ascend-toolkit/8.2/toolkit/version.info": name}))
    (cann,) = facts.canns
    assert (cann.version, cann.components["toolkit"].version) == ("8.2.RC1", "8.2.0.0.201")


def test_the_new_layout_and_the_environment_choose_between_two_installs(
    make_host: MakeHost,
) -> None:
    files = {
        f"{ROOT}/cann-8.5.0/aarch64-linux/ascend_toolkit_install.info": (
            "ascend_toolkit_install.info__8.5.0__new-layout.txt"
        ),
        f"{ROOT}/cann-9.1.0/x86_64-linux/ascend_toolkit_install.info": (
            "ascend_toolkit_install.info__9.1.0__no-compat-no-os.txt"
        ),
        f"{ROOT}/cann-9.1.0/share/info/runtime/version.info": (
            "runtime-version.info__9.1.0__no-version_dir.txt"
        ),
    }
    links = {f"{ROOT}/cann": "cann-9.1.0", f"{ROOT}/ascend-toolkit/latest": "../cann-8.5.0"}
    facts = open_host(make_host(files=files, links=links))
    assert [(cann.version, cann.layout, cann.arch) for cann in facts.canns] == [
        ("9.1.0", "cann", "x86_64"),
        ("8.5.0", "cann", "aarch64"),
    ]
    newer, older = facts.canns
    assert (newer.compatible, newer.components["runtime"].version) == ((), "9.1.0")
    assert facts.cann is newer
    env = {"ASCEND_TOOLKIT_HOME": f"{ROOT}/ascend-toolkit/latest"}
    chosen = open_host(make_host(files=files, links=links, env=env)).cann
    assert chosen is not None
    assert chosen.root == older.root


def test_a_link_that_leads_nowhere_is_kept_as_dangling(make_host: MakeHost) -> None:
    facts = open_host(make_host(links={f"{ROOT}/cann": "cann-8.5.0"}))
    assert [(link.path, link.target, link.dangling) for link in facts.links] == [
        (f"{ROOT}/cann", "cann-8.5.0", True)
    ]
    assert facts.canns == ()


def test_both_builds_of_the_transformer_library_are_seen(make_host: MakeHost) -> None:
    base = f"{ROOT}/nnal/atb"
    facts = open_host(
        make_host(
            files={
                f"{base}/8.0.T63/version.info": "nnal-atb-version.info__8.0.T63.txt",
                f"{base}/set_env.sh": "\n",
            },
            links={f"{base}/latest": "8.0.T63"},
            directories=[f"{base}/8.0.T63/atb/cxx_abi_0", f"{base}/8.0.T63/atb/cxx_abi_1"],
        )
    )
    assert facts.nnal is not None
    assert (facts.nnal.root, facts.nnal.version) == (f"{base}/8.0.T63", "8.0.T63")
    assert (facts.nnal.cxx_abis, facts.nnal.set_env) == ((0, 1), f"{base}/set_env.sh")


def test_irregular_blanks_in_version_files_do_not_matter(make_host: MakeHost) -> None:
    facts = open_host(
        make_host(
            files={
                f"{ROOT}/mindie/latest/version.info": (
                    "mindie-version.info__2.0.T3__irregular-blanks.txt"
                ),
                f"{ROOT}/atb-models/version.info": "atb-models-version.info__2.0.T3.txt",
            }
        )
    )
    assert facts.mindie["mindie-sd"] == facts.mindie["mindie-rt"] == "2.0.T3.B001"
    assert facts.atb_models["MindIE-ATB Version"] == ""
    assert facts.atb_models["Time"] == "2025-01-01 01:01:01 PM CST"
    assert facts.unread == ()


def test_network_settings_of_cards_are_counted_and_their_addresses_not_kept(
    make_host: MakeHost,
) -> None:
    facts = open_host(make_host(files={"/etc/hccn.conf": "hccn.conf__4-lines-per-npu.txt"}))
    full = ("address", "netmask", "netdetect", "gateway")
    assert facts.hccn == {0: full, 1: full, 2: full, 3: ("address",)}
    assert "192.0.2" not in str(facts)


def test_no_sample_of_a_version_file_has_a_line_that_is_not_understood(
    make_host: MakeHost,
) -> None:
    names = sorted(path.name for path in SAMPLES.glob("*version*")) + sorted(
        path.name for path in SAMPLES.glob("*install.info*")
    )
    assert len(names) == 17
    for name in names:
        facts = open_host(make_host(files={f"{ROOT}/driver/version.info": name}))
        assert facts.unread == ()
        assert facts.driver is not None
        assert facts.driver.values
