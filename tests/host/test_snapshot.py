"""A record of a machine answers as the machine did, and holds nothing that tells whose it is."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.host.recorded import sample

from jumar.contracts.errors import InvalidInput, OutputFailed
from jumar.host import open_host, open_source
from jumar.host.facts import MASKED
from jumar.host.redact import ADDRESS, REMOVED, Redactor
from jumar.host.snapshot import snapshot

MakeHost = Callable[..., str]
ROOT = "/usr/local/Ascend"

SECRETS = {
    "hf_QwErTyUiOpAsDfGhJkLzXcVb": "credential",
    "s3cr3t-pass-word": "credential",
    "AKIAIOSFODNN7EXAMPLE": "credential",
    "alice:hunter2hunter2": "login in a URL",
    "10.11.12.13": "network address",
    "fd00:1:2:3:4:5:6:7": "network address",
    "0000X0000001": "serial number",
    "8a6e0804-2bd0-4672-b79d-d97027f9071a": "UUID",
    "a4:ae:12:34:56:78": "MAC address",
    "alice": "account name",
    "bob": "account name",
    "carol@example.org": "mail address",
    "npu-rack7-03": "host name",
    "f" * 64: "container id",
    "0123456789ab": "container id",
    "registry.internal.example": None,
    "internal-wheel": None,
    "server:/export/secret": None,
}
"""Planted in the machine below; and what the record says that it removed, where it says it."""


@pytest.fixture
def whole_host(make_host: MakeHost) -> str:
    """A machine with a bit of everything, and with all of SECRETS in it."""
    return make_host(
        npu_smi="npu-smi-info__A3__25.2.0__two-npu-four-chips.txt",
        commands={
            "npu-smi info -m": "npu-smi-m__A3__phy-id__4-space-indent.txt",
            "npu-smi info -t board -i 0": "npu-smi-board__910B__25.5.1.txt",
            "npu-smi info -t topo": "npu-smi-topo__910B3x8.txt",
            "lscpu": "Model name: Kunpeng-920\nNote: mail carol@example.org\n",
        },
        files={
            f"{ROOT}/driver/version.info": "driver-version.info__25.0.rc1.1.txt",
            f"{ROOT}/firmware/version.info": "firmware-version.info__7.7.0.1.231__25.0.rc1.1.txt",
            "/etc/ascend_install.info": "etc-ascend_install.info__normal-host.txt",
            "/etc/hccn.conf": "address_0=10.11.12.13\nnetmask_0=255.255.255.0\n",
            f"{ROOT}/ascend-toolkit/8.2.RC1/toolkit/version.info": "Version=8.2\n",
            f"{ROOT}/nnal/atb/8.2/version.info": "nnal-atb-version.info__8.0.T63.txt",
            "/.dockerenv": "",
            "/proc/1/cgroup": f"12:cpu:/docker/{'f' * 64}\n",
            "/proc/self/mountinfo": "1 0 0:1 / /data rw - nfs4 server:/export/secret rw\n",
            "/etc/docker/daemon.json": json.dumps(
                {"default-runtime": "ascend", "insecure-registries": ["registry.internal.example"]}
            ),
            "/proc/meminfo": "MemTotal: 1024 kB\nMemAvailable: 512 kB\nUnevictable: 7 kB\n",
        },
        links={
            f"{ROOT}/ascend-toolkit/latest": "8.2.RC1",
            f"{ROOT}/nnal/atb/latest": "8.2",
            f"{ROOT}/cann": "cann-nowhere",
        },
        nodes={"davinci0": {}, "davinci1": {"owner": "bob", "uid": 1002}, "davinci_manager": {}},
        env={
            "ASCEND_OPP_PATH": "/opt/8.2.0.1/opp",
            "ASCEND_WORK_PATH": "/home/alice/8a6e0804-2bd0-4672-b79d-d97027f9071a",
            "HF_TOKEN": "hf_QwErTyUiOpAsDfGhJkLzXcVb",
            "VLLM_API_KEY": "s3cr3t-pass-word",
            "VLLM_EXTRA": "AKIAIOSFODNN7EXAMPLE",
            "https_proxy": "http://alice:hunter2hunter2@10.11.12.13:3128",
            "HCCL_IF_IP": "fd00:1:2:3:4:5:6:7",
            "HCCL_SOCKET_IFNAME": "a4:ae:12:34:56:78",
            "MASTER_ADDR": "npu-rack7-03",
            "PYTHONPATH": "/home/bob/lib",
            "SSH_CLIENT": "10.11.12.13 22",
        },
        process={
            "uid": 1001,
            "user": "alice",
            "home": "/home/alice",
            "host_name": "npu-rack7-03",
            "group_names": ["alice", "docker"],
        },
        packages={"torch": "2.7.1", "internal-wheel": "1.0"},
        disks={"/home/alice": (100, 50), "/tmp": (1, 1), "/root": (1, 1)},
        holders={"/dev/davinci0": [{"pid": 7, "name": "python", "container": "0123456789ab"}]},
        listeners=[{"port": 8000, "loopback": False}],
        failures={"stat /etc/vnpu.cfg": "/etc/vnpu.cfg: Permission denied"},
    )


def texts_of(archive: Path) -> dict[str, str]:
    texts = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            stream = tar.extractfile(member)
            assert stream is not None
            texts[member.name] = stream.read().decode()
    return texts


def test_a_record_gives_the_same_facts_as_the_machine_but_for_what_was_removed(
    whole_host: str, tmp_path: Path
) -> None:
    out = tmp_path / "record.tar.gz"
    facts, _ = snapshot(open_source(whole_host), out)
    live, recorded = facts.to_dict(), open_host(str(out)).to_dict()
    changed = {part for part in live if live[part] != recorded[part]}
    assert changed == {"source", "environ", "user", "nodes", "disks"}
    assert recorded["environ"] == {
        "ASCEND_OPP_PATH": "/opt/8.2.0.1/opp",
        "ASCEND_WORK_PATH": f"/home/{REMOVED}/{REMOVED}",
        "HCCL_IF_IP": ADDRESS,
        "HCCL_SOCKET_IFNAME": REMOVED,
        "HF_TOKEN": MASKED,
        "MASTER_ADDR": "HOST",
        "PYTHONPATH": f"/home/{REMOVED}/lib",
        "VLLM_API_KEY": MASKED,
        "VLLM_EXTRA": REMOVED,
        "https_proxy": f"http://***@{ADDRESS}:3128",
    }
    assert recorded["user"] == {
        **live["user"],
        "name": "user1001",
        "group_names": ("user0", "docker"),
        "home": f"/home/{REMOVED}",
    }
    assert [node["owner"] for node in recorded["nodes"]] == ["HwHiAiUser", "user1002", "HwHiAiUser"]
    assert recorded["nodes"][0]["holders"][0]["container"] == "container1"
    assert recorded["unseen"] == live["unseen"]


def test_a_machine_without_secrets_loses_nothing(make_host: MakeHost, tmp_path: Path) -> None:
    host = make_host(
        npu_smi="npu-smi-info__910B3__25.5.1__engine-process.txt",
        files={f"{ROOT}/driver/version.info": "driver-version.info__25.0.rc1.1.txt"},
        env={"ASCEND_RT_VISIBLE_DEVICES": "0, 1"},
        nodes=["davinci0", "davinci5"],
    )
    out = tmp_path / "record.tar.gz"
    facts, removed = snapshot(open_source(host), out)
    assert removed == {}
    live, recorded = facts.to_dict(), open_host(str(out)).to_dict()
    assert {part for part in live if live[part] != recorded[part]} == {"source"}


def test_no_planted_secret_is_in_the_record_and_each_removal_is_told(
    whole_host: str, tmp_path: Path
) -> None:
    out = tmp_path / "record.tar.gz"
    planted = "".join(path.read_text() for path in Path(whole_host).rglob("*") if path.is_file())
    _, removed = snapshot(open_source(whole_host), out)
    record = "\n".join(f"{name}\n{text}" for name, text in texts_of(out).items())
    for secret, kind in SECRETS.items():
        assert secret in planted, f"{secret} was never there"
        assert secret not in record
        assert kind is None or removed[kind] > 0


def test_a_record_of_this_very_machine_reads_like_it(tmp_path: Path) -> None:
    out = tmp_path / "record.tar.gz"
    facts, _ = snapshot(open_source(None), out)
    recorded = open_host(str(out))
    assert recorded.npu_smi == facts.npu_smi
    assert recorded.python.packages.keys() == facts.python.packages.keys()
    assert recorded.paths.keys() == facts.paths.keys()
    assert recorded.unseen == facts.unseen


def test_the_same_machine_gives_the_same_bytes(make_host: MakeHost, tmp_path: Path) -> None:
    host = make_host(npu_smi="npu-smi-info__910B4__26.0.rc1__wide-table.txt")
    outs = [tmp_path / "a.tar.gz", tmp_path / "b.tar.gz"]
    for out in outs:
        snapshot(open_source(host), out)
    assert texts_of(outs[0]) == texts_of(outs[1])


def test_a_record_is_never_written_over(make_host: MakeHost, tmp_path: Path) -> None:
    out = tmp_path / "record.tar.gz"
    out.write_text("mine")
    with pytest.raises(OutputFailed):
        snapshot(open_source(make_host()), out)
    assert out.read_text() == "mine"
    with pytest.raises(OutputFailed):
        snapshot(open_source(make_host()), tmp_path / "nowhere" / "record.tar.gz")


def pack(path: Path, texts: Mapping[str, str]) -> str:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in texts.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return str(path)


def test_a_folder_packed_by_hand_is_a_record_too(tmp_path: Path) -> None:
    table = sample("npu-smi-info__910B3__25.5.1__engine-process.txt")
    texts = {
        "myhost/commands/npu-smi info.txt": table,
        "myhost/environ.txt": "ASCEND_RT_VISIBLE_DEVICES=0\nBASH_FUNC_x%%=() { :\n}\n",
    }
    facts = open_host(pack(tmp_path / "host.tgz", texts))
    assert [card.npu_id for card in facts.cards] == [0, 5]
    assert facts.environ == {"ASCEND_RT_VISIBLE_DEVICES": "0"}


@pytest.mark.parametrize(
    "texts",
    [
        {"host.json": "{"},
        {"host.json": "[]"},
        {"host.json": '{"format": 99}'},
        {"readme.txt": "no record"},
    ],
)
def test_a_broken_record_is_refused(tmp_path: Path, texts: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        open_host(pack(tmp_path / "host.tgz", texts))


def test_a_cut_archive_is_refused(make_host: MakeHost, tmp_path: Path) -> None:
    out = tmp_path / "record.tar.gz"
    snapshot(open_source(make_host(npu_smi="x" * 9000 + "npu-smi")), out)
    whole = out.read_bytes()
    out.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidInput):
        open_host(str(out))


VERSIONS = ["7.7.0.1.231", "9.0.0.105", "24.1.rc3.7", "5.10.0-136.12.0.86.aarch64", "2.9.0.post2"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_is_no_address(version: str) -> None:
    redactor = Redactor()
    assert redactor.text(f"Version={version}\n") == f"Version={version}\n"
    assert not redactor.removed


@pytest.mark.parametrize(
    "harmless", ["127.0.0.1:8000", "0.0.0.0", "0000:A1:00.0", "12:34:56", "2.7.1+cpu", "::"]
)
def test_loopback_bus_addresses_and_times_stay(harmless: str) -> None:
    assert Redactor().text(f"at {harmless} now", versions=False) == f"at {harmless} now"


def test_a_common_word_as_host_name_does_not_tear_up_the_paths() -> None:
    redactor = Redactor()
    redactor.forget("host name", "Ascend", "HOST")
    redactor.forget("host name", "npu01", "HOST")
    assert (
        redactor.text("/usr/local/Ascend on npu01, npu012") == "/usr/local/Ascend on HOST, npu012"
    )


octets = st.integers(1, 254)


@given(first=st.integers(11, 126), rest=st.tuples(octets, octets, octets))
def test_no_address_in_a_url_stays(first: int, rest: tuple[int, int, int]) -> None:
    address = ".".join(map(str, (first, *rest)))
    clean = Redactor().environ({"http_proxy": f"http://{address}:3128/"})
    assert clean == {"http_proxy": f"http://{ADDRESS}:3128/"}


@given(text=st.text(max_size=200))
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    once = Redactor().text(text, versions=False)
    again = Redactor()
    assert again.text(once, versions=False) == once


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("        Serial Number                  : 2102312NSF10K5000001", "serial number"),
        ("        Board Serial                   : 2102312NSF10K5000001", "serial number"),
        ("        VDie ID : 2D6ACC80 20A026C4", "serial number"),
        ("MAC aa:bb:cc:dd:ee:01", "MAC address"),
        ("MAC aa-bb-cc-dd-ee-01", "MAC address"),
        ("        IP                             : 10.0.0.77", "network address"),
        ("IPv4 address : 29.0.95.42", "network address"),
        ("made on 192.168.3.4", "network address"),
        ("made on 172.16.3.4", "network address"),
    ],
)
def test_what_names_one_machine_goes_from_outputs_too(text: str, kind: str) -> None:
    redactor = Redactor()
    clean = redactor.text(text)
    assert dict(redactor.removed) == {kind: 1}
    assert clean != text


@pytest.mark.parametrize(
    ("name", "value", "clean"),
    [
        ("MASTER_ADDR", "node17.corp.example", "HOST"),
        ("RAY_ADDRESS", "ray://head:6379", "ray://HOST:6379"),
        ("https_proxy", "http://me:secret@proxy.corp.example:3128", "http://REMOVED@HOST:3128"),
        ("no_proxy", "localhost,127.0.0.1,.corp.example", "localhost,127.0.0.1,HOST"),
        ("VLLM_HOST", "0.0.0.0", "0.0.0.0"),
        ("HF_ENDPOINT", "https://hf-mirror.com", "https://hf-mirror.com"),
    ],
)
def test_variables_that_name_other_machines_keep_none(name: str, value: str, clean: str) -> None:
    assert Redactor().environ({name: value}) == {name: clean}
