"""Which cards can be used, and who holds them: by memory, never by the process table alone."""

from __future__ import annotations

from collections.abc import Callable

from tests.host.recorded import SAMPLES

from jumar.host import open_host
from jumar.host.accelerators import Accelerator, accelerators
from jumar.host.readers.nvidia import APPS, GPUS

MakeHost = Callable[..., str]
NODES = [*(f"davinci{n}" for n in range(8)), "davinci_manager", "devmm_svm", "hisi_hdc"]
READY = {"ASCEND_OPP_PATH": "/opp"}
TORCH = {"torch": "2.7.1+cpu", "torch-npu": "2.7.1"}
A2_MAPPING = "NPU ID Chip ID Chip Logic ID Chip Name\n" + "".join(
    f"{n} 0 {n} Ascend 910B4\n" for n in range(8)
)


def npus(host: str) -> list[Accelerator]:
    return [one for one in accelerators(open_host(host)) if one.kind == "npu"]


def a2(make_host: MakeHost, **changes: object) -> list[Accelerator]:
    given: dict[str, object] = {
        "npu_smi": "npu-smi-info__910B4x8__24.1.rc3__procs-empty-name.txt",
        "commands": {"npu-smi info -m": A2_MAPPING},
        "nodes": NODES,
        "env": READY,
        "packages": TORCH,
    }
    return npus(make_host(**{**given, **changes}))


def test_cards_with_memory_taken_are_in_use_and_the_others_free(make_host: MakeHost) -> None:
    cards = a2(make_host)
    assert [card.status for card in cards] == ["in use"] * 2 + ["free"] * 4 + ["in use"] * 2
    assert [card.label for card in cards] == [f"npu:{n}" for n in range(8)]
    assert cards[0].held_by == ("(no name) (pid 473126, 18714 MB)",)
    assert (cards[6].free_mb, cards[6].total_mb) == (32768 - 29660, 32768)


def test_an_empty_process_table_does_not_make_a_full_card_free() -> None:
    path = SAMPLES / "npu-smi-info__910B2x8__23.0.7__hbm-used-no-process.txt"
    cards = npus(str(path))
    assert [card.status for card in cards] == ["in use"] * 4 + ["free"] * 4
    assert cards[0].held_by == ("31247 MB: nobody that can be seen from here",)


def test_memory_that_no_listed_process_accounts_for_is_told() -> None:
    path = SAMPLES / "npu-smi-info__950PRx3__25.7.rc1__alarm__procs.txt"
    assert npus(str(path))[0].held_by[-1] == "78809 MB: nobody that can be seen from here"


def test_every_idle_sample_is_idle() -> None:
    idle = [
        *("910A__21.0.4__narrow", "910ProBx8__24.1.0__ddr-and-hbm", "A3x16__24.1.rc3.7__idle"),
        *("910B2C__25.5.2__ids-0-1-15__footer", "310P3x8__25.3.rc1__idle__ids-32768"),
        *("310P3__22.0.2-client_22.0.4-driver__id2144", "910B4__26.0.rc1__wide-table"),
        "310B4__23.0.rc3__bus-NA__power-numeric",
    ]
    for name in idle:
        cards = npus(str(SAMPLES / f"npu-smi-info__{name}.txt"))
        assert {card.status for card in cards} == {"free"}, name


def test_a_card_whose_device_file_is_open_elsewhere_is_in_use(make_host: MakeHost) -> None:
    held = {"/dev/davinci3": [{"pid": 9, "name": "python", "container": "abcdefabcdef"}]}
    card = a2(make_host, holders=held)[3]
    assert card.status == "in use"
    assert card.held_by == ("python (pid 9, abcdefabcdef) has /dev/davinci3 open",)


def test_a_hidden_card_keeps_its_numbers_and_says_what_hides_it(make_host: MakeHost) -> None:
    cards = a2(make_host, env={**READY, "ASCEND_RT_VISIBLE_DEVICES": "3,5"})
    assert [card.label for card in cards if card.label] == ["npu:0", "npu:1"]
    assert cards[5].ids == {
        "npu_id": 5,
        "chip_id": 0,
        "phy_id": 5,
        "logic_id": 5,
        "process_index": 1,
    }
    assert cards[2].reasons == ("ASCEND_RT_VISIBLE_DEVICES=3,5 leaves it out",)
    assert cards[2].status == "not usable"


def test_every_reason_why_a_card_is_not_usable_is_told(make_host: MakeHost) -> None:
    (first, *_) = a2(
        make_host,
        nodes={"davinci1": {}, "davinci_manager": {}, "hisi_hdc": {}},
        commands={},
        env={},
        packages={"torch": "2.7.1"},
    )
    assert first.status == "not usable"
    assert first.reasons == (
        "torch_npu is not installed",
        "the CANN environment is not loaded (ASCEND_OPP_PATH is not set)",
        "/dev/devmm_svm does not exist here",
    )


def test_a_user_outside_the_group_is_told_whose_the_device_file_is(make_host: MakeHost) -> None:
    stranger = {"uid": 1234, "gid": 1234, "groups": [1234]}
    card = a2(make_host, process=stranger)[0]
    assert card.reasons == ("this user may not open /dev/davinci0 (HwHiAiUser:HwHiAiUser, 0660)",)


def test_a_950_needs_no_devmm_svm(make_host: MakeHost) -> None:
    host = make_host(
        npu_smi="npu-smi-info__950PRx3__25.7.rc1__alarm__procs.txt",
        nodes=["davinci0", "davinci1", "davinci2", "davinci_manager", "hisi_hdc"],
        env=READY,
        packages=TORCH,
    )
    assert [card.reasons for card in npus(host)] == [(), (), ()]


def test_device_files_without_cards_are_shown_as_what_they_are(make_host: MakeHost) -> None:
    host = make_host(npu_smi="npu-smi-FAIL__8005-cannot-open-devices.txt", nodes=NODES[:2])
    cards = npus(host)
    assert [(card.label, card.status, card.ids) for card in cards] == [
        (None, "unknown", {"phy_id": 0}),
        (None, "unknown", {"phy_id": 1}),
    ]
    assert "DrvMngGetConsoleLogLevel failed" in cards[0].reasons[0]


def gpu_host(make_host: MakeHost, **changes: object) -> str:
    rows = "".join(
        f"{n}, NVIDIA H200, 143771, {used}, {143771 - used}, 0, 40, 9.0, 0000:4{n}:00.0, 570.1\n"
        for n, used in enumerate([4, 90000])
    )
    given: dict[str, object] = {
        "commands": {" ".join(GPUS): rows, " ".join(APPS): "0000:41:00.0, 5, vllm, 89000\n"},
        "packages": {"torch": "2.9.0+cu128"},
        "files": {"/site-packages/torch/version.py": "cuda: Optional[str] = '12.8'\n"},
    }
    return make_host(**{**given, **changes})


def test_gpus_are_free_or_in_use_by_their_memory_too(make_host: MakeHost) -> None:
    first, second, cpu = accelerators(open_host(gpu_host(make_host)))
    assert (first.label, first.status, first.held_by) == ("cuda:0", "free", ())
    assert (second.label, second.status, second.held_by) == ("cuda:1", "in use", ("vllm (pid 5)",))
    assert cpu.kind == "cpu"


def test_a_cpu_build_of_torch_and_a_hidden_gpu_are_reasons(make_host: MakeHost) -> None:
    build = {"/site-packages/torch/version.py": "cuda: Optional[str] = None\n"}
    host = gpu_host(make_host, files=build, env={"CUDA_VISIBLE_DEVICES": "1"})
    first, second, _ = accelerators(open_host(host))
    assert first.reasons == ("torch 2.9.0+cu128 is built without CUDA", "CUDA_VISIBLE_DEVICES=1")
    assert (second.label, second.status) == ("cuda:0", "not usable")


def test_the_cpu_has_what_its_container_leaves_it(make_host: MakeHost) -> None:
    host = make_host(
        files={
            "/proc/meminfo": "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\n",
            "/sys/fs/cgroup/cgroup.controllers": "memory\n",
            "/sys/fs/cgroup/memory.max": str(8 << 30),
        }
    )
    (cpu,) = accelerators(open_host(host))
    assert (cpu.total_mb, cpu.free_mb, cpu.label) == (8192, 8192, "cpu")


def test_a_slice_of_a_card_is_not_missed_for_the_file_of_a_whole_card(make_host: MakeHost) -> None:
    nodes = ["vdavinci100", "davinci_manager", "devmm_svm", "hisi_hdc"]
    facts = {"npu_smi": "npu-smi-info__A3__25.2.0__two-npu-four-chips.txt", "env": READY}
    cards = npus(make_host(**facts, nodes=nodes, packages=TORCH))
    assert {card.reasons for card in cards} == {()}
    (alone,) = npus(make_host(nodes=nodes, env=READY, packages=TORCH))
    assert (alone.name, alone.status, alone.ids) == ("Ascend vNPU /dev/vdavinci100", "unknown", {})
