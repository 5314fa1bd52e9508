"""The troubleshooting entries of the deployment pages, each replayed as a recorded host."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from tests.host.ascend_hosts import ATB, CANN, ROOT, Spec, healthy, inside
from tests.host.doctor.broken_hosts import BROKEN, busy, with_env, with_packages
from tests.host.recorded import sample

from jumar.host import open_host
from jumar.host.doctor import Diagnosis, classify, examine

MakeHost = Callable[..., str]
OLD = f"{ROOT}/ascend-toolkit/8.0.RC2"

IMPORT_LOG = """\
Traceback (most recent call last):
  File "/site-packages/torch_npu/utils/_path_manager.py", line 1, in <module>
Exception: ASCEND_OPP_PATH environment variable is not set. Please check whether the opp package
The above exception was the direct cause of the following exception:
RuntimeError: Failed to load the backend extension: torch_npu. You can disable extension auto
"""
ENUMERATION_LOG = """\
[ERROR] DRV(61,python3): [drv][drvGetDevNum] ioctl failed, drvRet=87
UserWarning: Can't get ascend_hal device count
[ERROR] RUNTIME(61): rtGetDeviceCount: get device count failed, runtime result = 507899
"""
UB_LOG = """\
[ERROR] TDT(77,python3): [TsdOpen] open failed, urma_attr is NULL
RuntimeError: SetDevice: NPU function error, error code is 507033
"""


def seed_stack() -> Spec:
    """The set that the OmniRT page calls validated: CANN 8.0.RC2, torch 2.1.0, old layout."""
    spec = healthy()
    spec["files"] = {
        path.replace(CANN, OLD): text.replace("8.5.0", "8.0.RC2").replace("C25SPC", "C18SPC")
        for path, text in spec["files"].items()
    }
    spec["directories"] = [path.replace(CANN, OLD) for path in spec["directories"]]
    spec["links"] = {f"{ROOT}/ascend-toolkit/latest": "8.0.RC2"}
    spec["env"] = {name: value.replace(CANN, OLD) for name, value in spec["env"].items()}
    spec["packages"].update({"torch": "2.1.0", "torch-npu": "2.1.0.post6"})
    for name in ("vllm", "vllm-ascend", "triton-ascend"):
        del spec["packages"][name]
    return spec


def unprivileged_950() -> Spec:
    spec = inside(healthy("950"))
    spec["npu_smi"] = sample("npu-smi-FAIL__8005-cannot-open-devices.txt")
    return spec


def new_diffusers() -> Spec:
    spec = seed_stack()
    spec["packages"]["diffusers"] = "0.42.1"
    return spec


def firmware_of_another_set() -> Spec:
    return BROKEN["driver-firmware-range"]()


ENTRIES: dict[str, tuple[Callable[[], Spec], str | None, str, list[str], str]] = {
    # entry: host, log, purpose, (cause, *what follows from it)
    "error 87 when devices are enumerated": (
        unprivileged_950,
        ENUMERATION_LOG,
        "serve",
        ["ascend950-not-privileged", "log-nodes-missing", "npu-smi-cannot-open"],
        "--privileged",
    ),
    "set_device says TsdOpen or urma_attr is NULL": (
        BROKEN["ub-libraries-missing"],
        UB_LOG,
        "serve",
        ["ub-libraries-missing", "log-ub-libraries", "log-tsd-open", "log-opp-driver"],
        "urma|ummu",
    ),
    "torch_npu cannot be imported": (
        BROKEN["cann-not-sourced"],
        IMPORT_LOG,
        "serve",
        ["cann-not-sourced", "log-cann-environment", "log-backend-extension"],
        f"source {CANN}/set_env.sh",
    ),
    "torch_npu cannot be imported, only ASCEND_OPP_PATH is lost": (
        BROKEN["opp-path-unset"],
        IMPORT_LOG,
        "serve",
        ["opp-path-unset", "log-cann-environment"],
        f"source {CANN}/set_env.sh",
    ),
    "the runtime runs on the wrong card": (
        lambda: busy(healthy(), 0, 61000, "VLLMEngineCore"),
        None,
        "serve",
        ["default-card-busy"],
        "export ASCEND_RT_VISIBLE_DEVICES=1",
    ),
    "graph mode init failed": (
        seed_stack,
        "RuntimeError: graph mode init failed\n",
        "generate",
        ["log-graph-mode"],
        "jumar report",
    ),
    "memory not released": (
        lambda: busy(healthy(), 1, 30000, "python3.11"),
        None,
        "serve",
        ["memory-not-released"],
        "max_concurrency=1 and pipeline_cache_size=1",
    ),
    "torch 2.1.0 and the latest diffusers": (
        new_diffusers,
        None,
        "generate",
        ["diffusers-with-torch-2.1"],
        "diffusers==0.37.*",
    ),
    "precision": (healthy, None, "generate", ["bf16-default"], "--dtype fp32"),
    "precision, seen in a log": (
        lambda: healthy("310p"),
        "RuntimeWarning: invalid value encountered in cast\n",
        "generate",
        ["chip-without-bf16", "log-nan"],
        "--dtype fp16",
    ),
    "no access to a hub": (
        BROKEN["hub-not-chosen"],
        None,
        "serve",
        ["hub-not-chosen"],
        "HF_ENDPOINT",
    ),
    "no access to a hub, seen in a log": (
        healthy,
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files\n",
        "serve",
        ["log-hub"],
        "HF_ENDPOINT",
    ),
    "torch and torch_npu are no pair": (
        lambda: with_packages(torch="2.9.1+cpu"),
        "ImportError: libtorch_npu.so: undefined symbol: _ZN2at4_ops\n",
        "serve",
        ["torch-npu-without-its-torch", "log-undefined-symbol"],
        "torch==2.8.0 torch_npu==2.8.0",
    ),
    "driver and firmware are no pair": (
        firmware_of_another_set,
        None,
        "serve",
        ["driver-firmware-range"],
        "cat ",
    ),
    "set_env.sh is not sourced before launch": (
        BROKEN["cann-not-sourced"],
        None,
        "vllm",
        ["cann-not-sourced", "atb-not-sourced"],
        "source ",
    ),
    "a vLLM service without spawn": (
        lambda: with_env(VLLM_WORKER_MULTIPROC_METHOD=None),
        "RuntimeError: Cannot re-initialize NPU in forked subprocess.\n",
        "vllm",
        ["spawn-not-set", "log-fork"],
        "export VLLM_WORKER_MULTIPROC_METHOD=spawn",
    ),
    "a vLLM service that autoloads torch_npu": (
        BROKEN["autoload-on"],
        None,
        "vllm",
        ["autoload-on"],
        "export TORCH_DEVICE_BACKEND_AUTOLOAD=0",
    ),
    "the whole /usr/lib64 is mounted": (
        BROKEN["usr-lib64-mounted"],
        "bash: undefined symbol: __libc_early_init, version GLIBC_PRIVATE\n",
        "serve",
        ["usr-lib64-mounted", "log-glibc-private"],
        "single",
    ),
}


def diagnose(host: str, log: str | None, purpose: str) -> Diagnosis:
    found = classify(io.BytesIO(log.encode())) if log is not None else []
    return examine(open_host(host), purpose, found)  # type: ignore[arg-type]


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_cause_of_each_entry_stands_first_with_its_consequences_below(
    entry: str, make_host: MakeHost
) -> None:
    spec, log, purpose, (cause, *below), fix = ENTRIES[entry]
    diagnosis = diagnose(make_host(**spec()), log, purpose)
    first = diagnosis.findings[0]
    assert first.id == cause
    assert set(below) <= {one.id for one in first.walk()}
    fixes = [line for one in first.walk() for line in one.fix("en")]
    assert any(fix in line for line in [*fixes, first.cause("en")]), fixes


def test_the_validated_set_of_the_page_has_nothing_above_a_note(make_host: MakeHost) -> None:
    diagnosis = diagnose(make_host(**seed_stack()), None, "generate")
    assert diagnosis.worst() == "info", [f.evidence("en") for f in diagnosis.findings]
    assert {f.id for f in diagnosis.findings} == {"torch-npu-end-of-life", "bf16-default"}


def ids(diagnosis: Diagnosis) -> set[str]:
    return {one.id for root in diagnosis.findings for one in root.walk()}


def roots(diagnosis: Diagnosis) -> list[str]:
    return [root.id for root in diagnosis.findings]


def test_one_symptom_three_causes_each_is_told_apart(make_host: MakeHost) -> None:
    """-8005 with the node missing, with no right to open it, and with nothing wrong in sight."""
    failing = sample("npu-smi-FAIL__8005-cannot-open-devices.txt")
    missing = {**BROKEN["no-davinci-node"](), "npu_smi": failing}
    closed = {**BROKEN["node-not-openable"](), "npu_smi": failing}
    held = {**inside(healthy()), "npu_smi": failing}
    found = [roots(examine(open_host(make_host(**spec))))[0] for spec in (missing, closed, held)]
    assert found == ["no-davinci-node", "node-not-openable", "npu-smi-cannot-open"]


def test_an_unloaded_environment_is_told_once(make_host: MakeHost) -> None:
    """LD_LIBRARY_PATH, PYTHONPATH and ATB are unset too, and that is no second cause."""
    spec = inside(healthy())
    spec["env"] = {}
    diagnosis = examine(open_host(make_host(**spec)), "vllm")
    errors = [f.id for f in diagnosis.findings if f.severity == "error"]
    assert errors == ["cann-not-sourced"]
    assert "library-path-without-driver" in {f.id for f in diagnosis.findings[0].walk()}


def test_a_container_without_devices_blames_the_devices_not_the_tool(make_host: MakeHost) -> None:
    diagnosis = examine(open_host(make_host(**BROKEN["runtime-did-not-act"]())))
    first = diagnosis.findings[0]
    assert [one.id for one in first.walk()][:2] == ["runtime-did-not-act", "no-davinci-node"]
    assert "npu-smi-cannot-open" in {one.id for one in first.walk()}


def test_both_causes_are_shown_where_two_are_independent(make_host: MakeHost) -> None:
    spec = with_env(ASCEND_RT_VISIBLE_DEVICE="1")
    spec["packages"]["torch"] = "2.9.1"
    assert roots(examine(open_host(make_host(**spec))))[:2] == [
        "torch-npu-without-its-torch",
        "visible-misspelt",
    ]


def says(host: str, rule: str, lang: str = "en") -> list[str]:
    diagnosis = examine(open_host(host))
    found = {one.id: one for root in diagnosis.findings for one in root.walk()}
    return found[rule].evidence(lang)  # type: ignore[arg-type]


def test_a_table_warning_shows_the_row(make_host: MakeHost) -> None:
    host = make_host(**BROKEN["torch-npu-without-its-cann"]())
    (line,) = says(host, "torch-npu-without-its-cann")
    assert "torch_npu 2.1.0.post6 = torch 2.1.0 + CANN 8.0.RC2" in line
    assert "CANN 8.5.0" in line


def test_the_blank_in_the_device_list_is_named_and_mended(make_host: MakeHost) -> None:
    host = make_host(**with_env(ASCEND_RT_VISIBLE_DEVICES="0, 1"))
    assert says(host, "visible-blank") == ['ASCEND_RT_VISIBLE_DEVICES="0, 1" gives only "0,"']
    first = examine(open_host(host)).findings[0]
    assert first.fix("en") == ["export ASCEND_RT_VISIBLE_DEVICES=0,1"]


def test_a_host_id_used_inside_a_container_is_explained(make_host: MakeHost) -> None:
    spec = inside(with_env(ASCEND_RT_VISIBLE_DEVICES="6,7"))
    lines = says(make_host(**spec), "visible-unknown-id")
    assert lines == [
        f'ASCEND_RT_VISIBLE_DEVICES="6,7": {n} is not in 0..1 (logic ids of this container)'
        for n in (6, 7)
    ]


def test_memory_without_a_process_is_not_taken_for_an_idle_card(make_host: MakeHost) -> None:
    rule = "memory-held-without-process"
    lines = says(make_host(**BROKEN[rule]()), rule)
    assert len(lines) == 4
    assert all("by no listed process" in line for line in lines)


def test_both_directions_of_driver_and_firmware_are_compared(make_host: MakeHost) -> None:
    # 24.1.rc1 accepts this firmware; the firmware accepts only drivers 23.0.
    lines = says(make_host(**BROKEN["driver-firmware-range"]()), "driver-firmware-range")
    assert len(lines) == 1
    assert lines[0].startswith("driver 24.1.rc1 is outside what firmware 7.1.0.11.220 accepts")


def test_atb_is_asked_for_the_abi_of_torch(make_host: MakeHost) -> None:
    spec = healthy()
    spec["env"]["LD_LIBRARY_PATH"] = f"{ATB}/atb/cxx_abi_0/lib:" + spec["env"]["LD_LIBRARY_PATH"]
    diagnosis = examine(open_host(make_host(**spec)))
    (finding,) = (f for f in diagnosis.findings if f.id == "two-cxx-abis")
    assert any(line.endswith("--cxx_abi=1") for line in finding.fix("en"))


def test_the_warning_below_the_table_is_enough_for_an_incomplete_driver(
    make_host: MakeHost,
) -> None:
    table = "npu-smi-info__910B4__24.1.rc3__incomplete-driver-warning-last-line.txt"
    host = make_host(npu_smi=table, complete=False)
    (line,) = says(host, "driver-incomplete")
    assert line.startswith("npu-smi info: [WARNING]The driver package may not be completely")


def test_what_npu_smi_alone_cannot_tell_is_said(make_host: MakeHost) -> None:
    host = make_host(npu_smi="npu-smi-info__910B3__25.5.1__engine-process.txt", complete=False)
    dark = {gap.what: gap for gap in examine(open_host(host)).unseen}
    assert {"canns", "driver", "pci", "install_info"} <= set(dark)
    assert "cann-not-sourced" in dark["canns"].rules
    assert all(gap.why for gap in dark.values())
