"""A whole machine: what is there, what is not, and what could not be looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.host.recorded import SAMPLES, sample

from jumar.contracts.errors import InvalidInput
from jumar.host import open_host
from jumar.host.facts import MASKED

MakeHost = Callable[..., str]
A3 = "npu-smi-info__A3__25.2.0__two-npu-four-chips.txt"


def test_a_machine_without_accelerators_has_none_and_says_that_it_looked(
    make_host: MakeHost,
) -> None:
    facts = open_host(make_host())
    assert (facts.cards, facts.nodes, facts.pci, facts.canns, facts.nvidia.gpus) == ((),) * 5
    assert facts.npu_smi.present is False
    assert facts.nvidia.present is False
    assert all(facts.sees(part) for part in ("npu_smi", "nodes", "driver", "python", "environ"))


def test_what_was_not_recorded_is_not_known_rather_than_absent(make_host: MakeHost) -> None:
    facts = open_host(make_host(complete=False))
    assert facts.npu_smi.present is None
    assert facts.nvidia.present is None
    for part in ("npu_smi", "driver", "canns", "paths./usr/local/dcmi"):
        assert not facts.sees(part)
    assert "not recorded" in facts.unseen["driver"]


def test_a_question_that_failed_on_the_machine_fails_the_same_way_in_its_record(
    make_host: MakeHost,
) -> None:
    why = "npu-smi info: no answer in 20 s"
    facts = open_host(make_host(failures={"run npu-smi info": why, "list /dev": "/dev: denied"}))
    assert facts.unseen["npu_smi"] == why
    assert facts.unseen["nodes"] == "/dev: denied"
    assert facts.npu_smi.present is None


def test_a_saved_output_of_npu_smi_is_a_recorded_machine_too() -> None:
    facts = open_host(str(SAMPLES / A3))
    assert [card.phy_id for card in facts.cards] == [0, 1, 2, 3]
    assert not facts.sees("environ")


def test_anything_else_is_refused_as_a_recorded_machine(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("nothing of interest")
    for path in (text, tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InvalidInput):
            open_host(str(path))


def test_the_queries_complete_the_table(make_host: MakeHost) -> None:
    boards = {
        f"npu-smi info -t board -i {npu} -c {chip}": sample(
            "npu-smi-board-chip__A3__i0-c0.txt"
        ).replace(": 0", f": {npu}", 1)
        for npu in (0, 1)
        for chip in (0, 1)
    }
    facts = open_host(
        make_host(
            npu_smi=A3,
            commands={
                **boards,
                "npu-smi info -m": "npu-smi-m__A3__phy-id__4-space-indent.txt",
                "npu-smi info -t proc-mem -i 1": (
                    "npu-smi-proc-mem__A3__two-chips__empty-process-name.txt"
                ),
                "npu-smi info -t topo": "npu-smi-topo__910B3x8.txt",
            },
        )
    )
    assert [card.logic_id for card in facts.cards] == [0, 1, 2, None]
    assert {card.soc.name for card in facts.cards if card.soc} == {"Ascend910_9392"}
    pids = [[process.pid for process in card.processes or ()] for card in facts.cards]
    assert pids == [[], [], [], [845530, 2871640]]
    assert facts.npu_smi.topology is not None
    assert "npu_smi.usages" in facts.unseen


def test_a_950_gets_its_chip_and_slot_from_the_mapping(make_host: MakeHost) -> None:
    facts = open_host(
        make_host(
            npu_smi="npu-smi-info__950PRx3__25.7.rc1__alarm__procs.txt",
            commands={
                "npu-smi info -m": "npu-smi-m__950PR__no-logic-id__has-slot-id.txt",
                "npu-smi info -t board -i 0": "npu-smi-board__950PR__25.7.rc1.6.txt",
                "npu-smi info -t memory -i 0": "npu-smi-memory__950PR__25.7.rc1.6.txt",
            },
        )
    )
    ids = [(c.chip_id, c.slot_id, c.phy_id, c.logic_id) for c in facts.cards]
    assert ids == [(0, 1, 0, None), (0, 2, 1, None), (None, None, None, None)]
    assert facts.cards[0].board is not None
    assert facts.cards[0].board.firmware_version == "9.0.0.105.229"
    assert facts.cards[0].readings["HBM Temperature(C)"] == "49"
    assert {card.soc.variant for card in facts.cards if card.soc} == {"950"}


SOCS = [
    ("910A__21.0.4__narrow", "Ascend910A", "910"),
    ("910ProBx8__24.1.0__ddr-and-hbm", "Ascend910ProB", "910"),
    ("910B3__25.5.1__engine-process", "Ascend910B3", "910b"),
    ("910B2C__25.5.2__ids-0-1-15__footer", "Ascend910B2C", "910b"),
    ("A3__25.2.0__two-npu-four-chips", "Ascend910", "a3"),
    ("310P3x8__25.3.rc1__idle__ids-32768", "Ascend310P3", "310p"),
    ("310B4__23.0.rc3__bus-NA__power-numeric", "Ascend310B4", "310b"),
    ("950PRx3__25.7.rc1__alarm__procs", "Ascend950PR", "950"),
]


@pytest.mark.parametrize(("name", "soc", "variant"), SOCS)
def test_a_printed_name_is_a_chip_of_one_product_line(name: str, soc: str, variant: str) -> None:
    facts = open_host(str(SAMPLES / f"npu-smi-info__{name}.txt"))
    found = {(card.soc.name, card.soc.variant) for card in facts.cards if card.soc}
    assert found == {(soc, variant)}
    assert all(card.soc for card in facts.cards)


def test_an_unknown_chip_is_kept_without_a_product_line(make_host: MakeHost) -> None:
    text = sample("npu-smi-info__910B4__26.0.rc1__wide-table.txt").replace("910B4", "970X1")
    (card,) = open_host(make_host(npu_smi=text)).cards
    assert (card.name, card.soc) == ("970X1", None)


def test_device_files_are_sorted_by_number_and_know_who_may_open_them(
    make_host: MakeHost,
) -> None:
    listed = sample("ls-dev-davinci__A3x16__lexical-order.txt").split()
    nodes: dict[str, dict[str, object]] = {name: {} for name in listed}
    nodes["davinci2"] = {"mode": "0666"}
    stranger = {"uid": 1234, "gid": 1234, "groups": [1234], "user": "someone"}
    facts = open_host(make_host(nodes=nodes, process=stranger))
    numbers = [node.number for node in facts.nodes]
    assert numbers == [*range(16), None]
    assert [node.path for node in facts.nodes if node.usable] == ["/dev/davinci2"]
    member = {**stranger, "groups": [1234, 1000]}
    assert all(node.usable for node in open_host(make_host(nodes=nodes, process=member)).nodes)


def test_a_pasted_listing_of_dev_tells_which_nodes_there_are(make_host: MakeHost) -> None:
    long = open_host(
        make_host(
            listings={"/dev": "ls-l-dev__910B__hisi_hdc-devmm_svm.txt"},
            complete=False,
        )
    )
    assert [(n.path, n.kind, n.mode, n.owner) for n in long.nodes] == [
        ("/dev/devmm_svm", "char", 0o660, "HwHiAiUser"),
        ("/dev/hisi_hdc", "char", 0o660, "HwHiAiUser"),
    ]
    assert long.sees("nodes")
    text = (
        "total 0\n"
        "crw-rw---- 1 HwHiAiUser HwHiAiUser 236, 3 Jan  1 01:01 davinci3\n"
        "lrwxrwxrwx 1 root root 12 Jan 1 2025 hisi_hdc -> char/hdc\n"
        "drwxrwxrwt 2 root root 40 Jan 1 01:01 shm\n"
    )
    dated = open_host(make_host(listings={"/dev": text}, complete=False))
    # What a link leads to was not recorded; that it is there was.
    assert [(node.number, node.mode) for node in dated.nodes] == [(3, 0o660), (None, None)]
    assert dated.paths["/dev/shm"].mode == 0o777
    short = make_host(listings={"/dev": "davinci0\ndavinci1\n"}, complete=False)
    named = open_host(short)
    assert [(node.number, node.kind, node.usable) for node in named.nodes] == [
        (0, "other", None),
        (1, "other", None),
    ]
    assert "not recorded" in named.unseen["nodes./dev/davinci0"]


@pytest.mark.parametrize(
    ("table", "nodes", "phy"),
    [
        ("910B2C__25.5.2__ids-0-1-15__footer", [0, 1, 15], [0, 1, 15]),
        ("910B2C__25.5.2__ids-0-1-15__footer", [0, 1, 2], [None, None, None]),
        ("310P3x8__25.3.rc1__idle__ids-32768", range(8), list(range(8))),
        ("310P3x8__25.3.rc1__idle__ids-32768", range(7), [None] * 8),
    ],
)
def test_a_card_gets_its_device_file_only_where_two_witnesses_agree(
    make_host: MakeHost, table: str, nodes: list[int], phy: list[int | None]
) -> None:
    host = make_host(
        npu_smi=f"npu-smi-info__{table}.txt", nodes=[f"davinci{number}" for number in nodes]
    )
    cards = open_host(host).cards
    assert [card.phy_id for card in cards] == phy
    assert {card.phy_from for card in cards} == {None if phy[0] is None else "nodes"}


def test_holders_of_a_device_file_are_known_from_the_processes(make_host: MakeHost) -> None:
    held = {"/dev/davinci1": [{"pid": 7, "name": "python", "container": "aabbccddeeff"}]}
    facts = open_host(make_host(nodes=["davinci0", "davinci1"], holders=held))
    first, second = facts.nodes
    assert first.holders == ()
    assert [(one.pid, one.name) for one in second.holders or ()] == [(7, "python")]
    blind = make_host(nodes=["davinci0"], failures={"holders": "12 of 40 cannot be looked at"})
    assert open_host(blind).nodes[0].holders is None


def test_variables_that_matter_are_kept_and_credentials_are_not(make_host: MakeHost) -> None:
    facts = open_host(
        make_host(
            env={
                "ASCEND_OPP_PATH": "/opp",
                "ASEND_RT_VISIBLE_DEVICES": "0",
                "HF_TOKEN": "hf_abcdefghijklmnopqrstuvwxyz",
                "HF_HOME": "/models",
                "VLLM_API_KEY": "s3cret",
                "https_proxy": "http://me:pw@proxy.example:3128",
                "PS1": "$ ",
                "EDITOR": "vi",
            }
        )
    )
    assert facts.environ == {
        "ASCEND_OPP_PATH": "/opp",
        "ASEND_RT_VISIBLE_DEVICES": "0",
        "HF_HOME": "/models",
        "HF_TOKEN": MASKED,
        "VLLM_API_KEY": MASKED,
        "https_proxy": "http://***@proxy.example:3128",
    }


def test_the_environment_of_an_image_is_read_as_lists_of_paths(make_host: MakeHost) -> None:
    env = "env__A3__CANN-8.2.RC1__two-cxx_abi-on-path.txt"
    facts = open_host(make_host(env=sample(env)))
    abis = [path for path in facts.env_paths("LD_LIBRARY_PATH") if "cxx_abi" in path]
    base = "/usr/local/Ascend/nnal/atb/latest/atb"
    assert abis == [f"{base}/cxx_abi_1/lib", f"{base}/cxx_abi_0/lib"]
    assert len(facts.environ) == 12


CONTAINERS = [
    ({"/.dockerenv": ""}, {}, (True, "docker")),
    ({"/run/.containerenv": ""}, {}, (True, "podman")),
    ({"/proc/1/cgroup": "12:cpu:/kubepods/burstable/pod1/ab\n"}, {}, (True, "kubernetes")),
    ({"/.dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, (True, "kubernetes")),
    ({"/proc/1/cgroup": "0::/init.scope\n"}, {}, (False, None)),
]


@pytest.mark.parametrize(("files", "env", "expected"), CONTAINERS)
def test_a_container_is_known_by_its_signs(
    make_host: MakeHost,
    files: dict[str, str],
    env: dict[str, str],
    expected: tuple[bool, str | None],
) -> None:
    container = open_host(make_host(files=files, env=env)).container
    assert (container.inside, container.kind) == expected
    assert bool(container.signs) is expected[0]


def test_limits_mounts_and_rights_of_a_container(make_host: MakeHost) -> None:
    mounts = (
        "1 0 0:1 / / rw - overlay overlay rw\n"
        "2 1 8:1 /lib64 /usr/lib64 ro,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "3 1 0:9 / /mnt/a\\040b rw - nfs4 server:/export rw\n"
    )
    facts = open_host(
        make_host(
            files={
                "/.dockerenv": "",
                "/proc/self/mountinfo": mounts,
                "/proc/self/status": "Name:\tx\nCapEff:\t00000000a80425fb\n",
                "/proc/sys/kernel/cap_last_cap": "40\n",
                "/sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
                "/sys/fs/cgroup/memory.max": "8589934592\n",
                "/sys/fs/cgroup/cpu.max": "250000 100000\n",
                "/etc/docker/daemon.json": '{"default-runtime": "ascend"}',
            },
            process={"cwd": "/mnt/a b/c"},
            disks={"/mnt/a b/c": (10, 5)},
        )
    )
    box = facts.container
    assert (box.privileged, box.cgroup_version) == (False, 2)
    assert (box.memory_limit_mb, box.cpu_limit) == (8192, 2.5)
    assert (box.mounts, box.docker_default_runtime) == (("/", "/usr/lib64", "/mnt/a b"), "ascend")
    assert {disk.path: disk.fs_type for disk in facts.disks}["/mnt/a b/c"] == "nfs4"
    every = {"/.dockerenv": "", "/proc/self/status": f"CapEff:\t{(1 << 41) - 1:016x}\n"}
    rights = {"/proc/sys/kernel/cap_last_cap": "40\n"}
    assert open_host(make_host(files={**every, **rights})).container.privileged is True


def test_accelerators_on_the_bus_are_seen_without_any_tool(make_host: MakeHost) -> None:
    listing = (
        "c100\t19e5d802\t0\t0\n0108\t19e51711\t0\t0\n4100\t10de2336\t1\t0\n4101\t10de22ba\t0\n"
    )
    facts = open_host(make_host(files={"/proc/bus/pci/devices": listing}))
    assert [(one.bus_id, one.vendor, one.chip) for one in facts.pci] == [
        ("c1:00.0", "19e5", "910B"),
        ("41:00.0", "10de", None),
    ]


def test_torch_tells_its_build_without_being_imported(make_host: MakeHost) -> None:
    build = "/site-packages/torch"
    facts = open_host(
        make_host(
            packages={"torch": "2.5.1+cpu", "torch-npu": "2.5.1", "left-pad": "1.0"},
            files={
                f"{build}/version.py": "cuda: Optional[str] = '12.4'\nhip: Optional[str] = None\n",
                f"{build}/share/cmake/Torch/TorchConfig.cmake": (
                    'set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=0")\n'
                ),
            },
        )
    )
    assert facts.python.version_of("torch_npu") == "2.5.1"
    assert facts.python.version_of("left-pad") is None
    assert (facts.python.torch_cuda, facts.python.torch_cxx11_abi) == ("12.4", False)


NVIDIA_SMI = "nvidia-smi --query-{}={} --format=csv,noheader,nounits"


def test_nvidia_gpus_have_memory_and_processes(make_host: MakeHost) -> None:
    from jumar.host.readers.nvidia import APPS, GPUS

    bus = "00000000:41:00.0"
    facts = open_host(
        make_host(
            commands={
                " ".join(GPUS): f"0, NVIDIA H200, 143771, 2048, 141723, 3, 41, 9.0, {bus}, 570.1\n",
                " ".join(APPS): f"{bus}, 99, /usr/bin/python3, 1900\n",
            }
        )
    )
    (gpu,) = facts.nvidia.gpus
    assert (gpu.name, gpu.memory_total_mb, gpu.compute_capability) == ("NVIDIA H200", 143771, "9.0")
    assert [(one.pid, one.name, one.memory_mb) for one in gpu.processes or ()] == [
        (99, "python3", 1900)
    ]
    assert facts.nvidia.driver_version == "570.1"


def test_an_nvidia_tool_without_its_driver_is_an_error(make_host: MakeHost) -> None:
    from jumar.host.readers.nvidia import GPUS

    text = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    facts = open_host(make_host(commands={" ".join(GPUS): text}, exit_codes={" ".join(GPUS): 9}))
    assert facts.nvidia.gpus == ()
    assert facts.nvidia.error is not None
    assert facts.nvidia.error.kind == "cannot-open"


def test_the_facts_are_json() -> None:
    import json

    facts = open_host(str(SAMPLES / A3))
    assert json.loads(json.dumps(facts.to_dict()))["cards"][3]["processes"][0]["pid"] == 845530


def test_this_very_machine_can_be_read() -> None:
    facts = open_host()
    assert facts.source == "live"
    assert facts.system.arch
    assert facts.user is not None
    assert facts.python.version_of("pip") or facts.python.packages is not None
    assert facts.sees("nodes")
