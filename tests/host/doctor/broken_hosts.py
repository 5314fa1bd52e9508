"""For each rule of the doctor one host on which it fires: a healthy one with one thing broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.host.ascend_hosts import (
    ATB,
    CANN,
    DRIVER,
    KERNELS,
    ROOT,
    UB_FILES,
    Spec,
    healthy,
    inside,
)
from tests.host.recorded import sample

BROKEN: dict[str, Callable[[], Spec]] = {}
PURPOSES = {
    **dict.fromkeys(
        (
            "nnal-not-installed",
            "atb-not-sourced",
            "autoload-on",
            "spawn-not-set",
            "vllm-without-platform",
            "pooling-on-310p",
        ),
        "vllm",
    ),
    "memory-not-released": "serve",
    "bf16-default": "generate",
    "compile-on-310p": "generate",
    "hub-not-chosen": "generate",
}
"""Rules that are only looked at for a purpose."""


def broken(rule: str) -> Callable[[Callable[[], Spec]], Callable[[], Spec]]:
    """Register the host on which this rule fires."""

    def register(make: Callable[[], Spec]) -> Callable[[], Spec]:
        assert rule not in BROKEN, rule
        BROKEN[rule] = make
        return make

    return register


def with_env(line: str = "910b", /, **env: str | None) -> Spec:
    """A healthy host with variables changed; None takes one away."""
    spec = healthy(line)
    for name, value in env.items():
        if value is None:
            spec["env"].pop(name, None)
        else:
            spec["env"][name] = value
    return spec


def with_packages(line: str = "910b", /, **packages: str | None) -> Spec:
    """A healthy host with packages changed ("_" is "-"); None takes one away."""
    spec = healthy(line)
    for name, version in packages.items():
        spec["packages"].pop(name.replace("_", "-"), None)
        if version is not None:
            spec["packages"][name.replace("_", "-")] = version
    return spec


def without_node(*names: str, line: str = "910b") -> Spec:
    spec = inside(healthy(line))
    for name in names:
        del spec["nodes"][name]
    return spec


def without_cards(line: str = "910b") -> Spec:
    """A container that was started without any card."""
    spec = inside(healthy(line))
    spec["nodes"] = {}
    spec["npu_smi"] = sample("npu-smi-FAIL__8005-cannot-open-devices.txt")
    return spec


def smi(text: str, *, code: int = 0) -> Spec:
    spec = healthy()
    spec["npu_smi"] = text
    spec["exit_codes"] = {"npu-smi info": code}
    return spec


def table(old: str, new: str, line: str = "910b") -> Spec:
    """A healthy host whose npu-smi table differs in one place."""
    spec = healthy(line)
    assert old in spec["npu_smi"], old
    spec["npu_smi"] = spec["npu_smi"].replace(old, new, 1)
    return spec


def driver_file(old: str, new: str) -> Spec:
    spec = healthy()
    assert old in DRIVER, old
    spec["files"][f"{ROOT}/driver/version.info"] = DRIVER.replace(old, new)
    return spec


def busy(spec: Spec, npu: int, used: int, process: str | None = None) -> Spec:
    """Card `npu` of the healthy 910B host with `used` MB taken, by a process or by nobody shown."""
    rows = spec["npu_smi"].split("3391 / 65536")
    rows[npu] += f"{used:<5}/ 65536"
    spec["npu_smi"] = "3391 / 65536".join(rows).replace(
        f"{used:<5}/ 655363391 / 65536", f"{used:<5}/ 65536"
    )
    if process is not None:
        free = f"| No running processes found in NPU {npu}"
        line = next(one for one in spec["npu_smi"].splitlines() if one.startswith(free))
        row = f"| {npu}       0                 | 4711          | {process:<24} | {used:<23} |"
        spec["npu_smi"] = spec["npu_smi"].replace(line, row)
    return spec


# container


@broken("ascend950-not-privileged")
def _() -> Spec:
    return inside(healthy("950"), privileged=False)


@broken("ub-libraries-missing")
def _() -> Spec:
    spec = inside(healthy("950"), privileged=True)
    for name in UB_FILES:
        del spec["files"][f"/usr/lib64/{name}"]
    return spec


@broken("usr-lib64-mounted")
def _() -> Spec:
    spec = inside(healthy("950"), privileged=True)
    spec["files"]["/proc/self/mountinfo"] += "30 21 8:1 / /usr/lib64 rw - ext4 /dev/sda rw\n"
    return spec


@broken("driver-libraries-missing")
def _() -> Spec:
    spec = inside(healthy())
    spec["directories"] = [d for d in spec["directories"] if "driver/lib64" not in d]
    return spec


@broken("runtime-option-nodrv")
def _() -> Spec:
    return inside(with_env(ASCEND_RUNTIME_OPTIONS="NODRV"))


@broken("ascend-visible-void")
def _() -> Spec:
    spec = without_cards()
    spec["env"]["ASCEND_VISIBLE_DEVICES"] = "void"
    return spec


@broken("runtime-did-not-act")
def _() -> Spec:
    spec = without_cards()
    spec["env"]["ASCEND_VISIBLE_DEVICES"] = "0,1"
    return spec


@broken("mount-made-folder")
def _() -> Spec:
    spec = inside(healthy())
    del spec["files"]["/etc/ascend_install.info"]
    spec["directories"].append("/etc/ascend_install.info")
    return spec


@broken("uid-without-passwd")
def _() -> Spec:
    spec = inside(healthy())
    spec["process"] = {"uid": 1000, "gid": 1000, "user": None, "groups": [1000]}
    return spec


@broken("shm-too-small")
def _() -> Spec:
    return inside(healthy(), shm_mb=64)


@broken("container-cpu-limit")
def _() -> Spec:
    spec = inside(healthy())
    spec["files"]["/sys/fs/cgroup/cgroup.controllers"] = "cpu memory\n"
    spec["files"]["/sys/fs/cgroup/cpu.max"] = "2300000 100000\n"
    spec["files"]["/sys/fs/cgroup/memory.max"] = "max\n"
    return spec


# devices


@broken("no-ascend")
def _() -> Spec:
    return {"process": {"arch": "x86_64"}}


@broken("pci-without-driver")
def _() -> Spec:
    return {"files": {"/proc/bus/pci/devices": "c100\t19e5d802\t0\n"}}


@broken("no-davinci-node")
def _() -> Spec:
    return without_cards()


@broken("manager-node-missing")
def _() -> Spec:
    return without_node("davinci_manager")


@broken("support-node-missing")
def _() -> Spec:
    return without_node("devmm_svm")


@broken("node-not-openable")
def _() -> Spec:
    spec = inside(healthy())
    spec["process"] = {"uid": 65534, "gid": 65534, "user": "nobody", "groups": [65534]}
    return spec


@broken("nodes-fewer-than-cards")
def _() -> Spec:
    return without_node("davinci7", line="a3")


@broken("npu-smi-missing")
def _() -> Spec:
    spec = healthy("310b")
    spec["npu_smi"] = sample("npu-smi-FAIL__binary-missing.txt")
    return spec


@broken("npu-smi-library")
def _() -> Spec:
    return smi(sample("npu-smi-FAIL__libc_sec-missing.txt"), code=127)


@broken("npu-smi-cannot-open")
def _() -> Spec:
    return inside(smi(sample("npu-smi-FAIL__8005-cannot-open-devices.txt"), code=1))


@broken("npu-smi-no-card")
def _() -> Spec:
    return smi(sample("npu-smi-FAIL__no-card.txt"))


@broken("npu-smi-failed")
def _() -> Spec:
    return smi("Segmentation fault (core dumped)\n", code=139)


@broken("card-unhealthy")
def _() -> Spec:
    return table("OK            | 93.5", "Alarm         | 93.5")


@broken("card-health-unsure")
def _() -> Spec:
    return table("OK            | 93.5", "UNKNOWN       | 93.5")


@broken("board-incompatible")
def _() -> Spec:
    spec = healthy()
    board = sample("npu-smi-board__910B__25.5.1.txt")
    lines = [
        line.split(":")[0] + ": NOK" if "Compatibility" in line else line
        for line in board.splitlines()
    ]
    spec["commands"] = {"npu-smi info -t board -i 0": "\n".join(lines) + "\n"}
    return spec


@broken("card-held")
def _() -> Spec:
    spec = healthy()
    spec["holders"] = {"/dev/davinci0": [{"pid": 4711, "name": "vllm", "container": "a" * 12}]}
    return spec


@broken("vnpu-not-privileged")
def _() -> Spec:
    spec = inside(healthy())
    spec["nodes"] = {"vdavinci100": {}, "davinci_manager": {}, "hisi_hdc": {}, "devmm_svm": {}}
    return spec


# versions


@broken("driver-version-unknown")
def _() -> Spec:
    spec = inside(healthy())
    del spec["files"][f"{ROOT}/driver/version.info"]
    return spec


@broken("driver-incomplete")
def _() -> Spec:
    spec = healthy()
    spec["files"]["/etc/ascend_install.info"] = sample(
        "etc-ascend_install.info__incomplete-no-status-line.txt"
    )
    return spec


@broken("install-info-missing")
def _() -> Spec:
    spec = inside(healthy())
    del spec["files"]["/etc/ascend_install.info"]
    return spec


@broken("driver-firmware-range")
def _() -> Spec:
    spec = healthy()
    spec["files"][f"{ROOT}/driver/version.info"] = sample(
        "driver-version.info__24.1.rc1__no-package_version.txt"
    )
    spec["files"][f"{ROOT}/firmware/version.info"] = sample(
        "firmware-version.info__7.1.0.11.220__mismatch-with-driver-24.1.rc1.txt"
    )
    return spec


@broken("driver-refuses-cann")
def _() -> Spec:
    return driver_file("Innerversion=V100R001C23", "Innerversion=V100R001C10")


@broken("driver-too-old-for-cann")
def _() -> Spec:
    return driver_file("25.3.rc1", "24.1.0")


@broken("client-differs-from-driver")
def _() -> Spec:
    return table("npu-smi 25.3.rc1", "npu-smi 24.1.rc3")


@broken("cann-too-old")
def _() -> Spec:
    spec = healthy()
    file = f"{CANN}/aarch64-linux/ascend_toolkit_install.info"
    spec["files"][file] = spec["files"][file].replace("version=8.5.0", "version=7.0.0", 1)
    return spec


@broken("cann-witnesses-differ")
def _() -> Spec:
    spec = healthy()
    file = f"{CANN}/aarch64-linux/ascend_toolkit_install.info"
    spec["files"][file] = spec["files"][file].replace("version=8.5.0", "version=8.3.RC1", 1)
    return spec


@broken("cann-cfg-stale")
def _() -> Spec:
    spec = healthy()
    spec["files"][f"{CANN}/version.cfg"] = sample(
        "version.cfg__8.0.T63__stale-in-an-image-linked-to-8.2.RC2.txt"
    )
    return spec


@broken("cann-components-differ")
def _() -> Spec:
    spec = healthy()
    spec["files"][f"{CANN}/opp/version.info"] = "Version=8.3.0.1.200\nversion_dir=8.3.RC1\n"
    return spec


@broken("cann-other-arch")
def _() -> Spec:
    spec = healthy()
    spec["process"] = {"arch": "x86_64"}
    return spec


@broken("kernels-missing-for-chip")
def _() -> Spec:
    spec = healthy("310p")
    spec["directories"].remove(f"{KERNELS}/ascend310p")
    spec["directories"].append(f"{KERNELS}/ascend910b")
    return spec


@broken("nnal-other-version")
def _() -> Spec:
    spec = healthy()
    spec["files"][f"{ATB}/version.info"] = sample("nnal-atb-version.info__8.0.T63.txt")
    return spec


# environment


@broken("cann-not-installed")
def _() -> Spec:
    spec = healthy()
    spec["files"] = {p: t for p, t in spec["files"].items() if not p.startswith(CANN)}
    spec["directories"] = [p for p in spec["directories"] if not p.startswith(CANN)]
    spec["links"] = {}
    return spec


@broken("cann-not-sourced")
def _() -> Spec:
    spec = healthy()
    spec["env"] = {"LANG": "en_US.UTF-8"}
    return spec


@broken("opp-path-unset")
def _() -> Spec:
    return with_env(ASCEND_OPP_PATH=None)


@broken("cann-home-stale")
def _() -> Spec:
    old = f"{ROOT}/ascend-toolkit/8.0.RC2"
    return with_env(ASCEND_HOME_PATH=old, ASCEND_TOOLKIT_HOME=old, ASCEND_OPP_PATH=f"{old}/opp")


@broken("library-path-without-cann")
def _() -> Spec:
    return with_env(LD_LIBRARY_PATH=f"{ROOT}/driver/lib64/driver:/usr/local/lib")


@broken("library-path-without-driver")
def _() -> Spec:
    return inside(with_env(LD_LIBRARY_PATH=f"{CANN}/lib64"))


@broken("two-cann-on-path")
def _() -> Spec:
    spec = healthy()
    old = f"{ROOT}/ascend-toolkit/8.2.RC1"
    spec["files"][f"{old}/aarch64-linux/ascend_toolkit_install.info"] = sample(
        "ascend_toolkit_install.info__8.1.RC1.txt"
    ).replace("8.1.RC1", "8.2.RC1")
    spec["env"]["LD_LIBRARY_PATH"] += f":{old}/lib64"
    return spec


@broken("two-cxx-abis")
def _() -> Spec:
    spec = healthy()
    spec["env"]["LD_LIBRARY_PATH"] += f":{ATB}/atb/cxx_abi_0/lib"
    return spec


@broken("atb-other-abi")
def _() -> Spec:
    return with_env(ATB_HOME_PATH=f"{ATB}/atb/cxx_abi_0")


@broken("nnal-not-installed")
def _() -> Spec:
    spec = healthy()
    spec["files"] = {p: t for p, t in spec["files"].items() if "/nnal/" not in p}
    spec["directories"] = [p for p in spec["directories"] if "/nnal/" not in p]
    del spec["env"]["ATB_HOME_PATH"]
    return spec


@broken("atb-not-sourced")
def _() -> Spec:
    return with_env(ATB_HOME_PATH=None)


@broken("pythonpath-without-cann")
def _() -> Spec:
    return with_env(PYTHONPATH=None)


@broken("autoload-on")
def _() -> Spec:
    return with_env(TORCH_DEVICE_BACKEND_AUTOLOAD="1")


@broken("spawn-not-set")
def _() -> Spec:
    return with_env(VLLM_WORKER_MULTIPROC_METHOD="fork")


@broken("launch-blocking")
def _() -> Spec:
    return with_env(ASCEND_LAUNCH_BLOCKING="1")


@broken("work-path-not-writable")
def _() -> Spec:
    spec = healthy()
    spec["process"] = {"cwd": "/usr/bin", "cwd_writable": False}
    return spec


@broken("soc-version-differs")
def _() -> Spec:
    return with_env("310p", SOC_VERSION="ascend910b1")


@broken("locale-not-utf8")
def _() -> Spec:
    spec = healthy()
    spec["process"] = {"locale": "C"}
    return spec


# python


@broken("torch-npu-missing")
def _() -> Spec:
    return with_packages(torch_npu=None)


@broken("torch-missing")
def _() -> Spec:
    return with_packages(torch=None, torch_npu=None)


@broken("torch-npu-without-its-torch")
def _() -> Spec:
    return with_packages(torch="2.9.1+cpu")


@broken("torch-npu-without-its-cann")
def _() -> Spec:
    return with_packages(torch="2.1.0", torch_npu="2.1.0.post6")


@broken("torch-npu-unlisted")
def _() -> Spec:
    return with_packages(torch_npu="2.8.0.dev20250801")


@broken("torch-npu-end-of-life")
def _() -> Spec:
    return with_packages(torch="2.1.0", torch_npu="2.1.0.post6")


@broken("torch-cuda-build")
def _() -> Spec:
    return with_packages(torch="2.8.0+cu128")


@broken("torch-other-python")
def _() -> Spec:
    spec = healthy()
    spec["process"] = {"python_version": "3.14.0"}
    return spec


@broken("numpy-2-with-old-cann")
def _() -> Spec:
    spec = with_packages(numpy="2.0.2")
    file = f"{CANN}/aarch64-linux/ascend_toolkit_install.info"
    spec["files"][file] = spec["files"][file].replace("version=8.5.0", "version=8.2.RC1", 1)
    return spec


@broken("cann-python-deps-missing")
def _() -> Spec:
    return with_packages(decorator=None, sympy=None)


@broken("diffusers-with-torch-2.1")
def _() -> Spec:
    return with_packages(torch="2.1.0", torch_npu="2.1.0.post6", diffusers="0.42.1")


@broken("triton-beside-triton-ascend")
def _() -> Spec:
    return with_packages(triton="3.2.0")


@broken("vllm-ascend-row")
def _() -> Spec:
    return with_packages(vllm_ascend="0.23.0")


@broken("vllm-without-platform")
def _() -> Spec:
    return with_packages(vllm_ascend=None)


# visibility


@broken("visible-misspelt")
def _() -> Spec:
    return with_env(ASCEND_RT_VISIBLE_DEVICE="1")


@broken("visible-no-effect")
def _() -> Spec:
    return with_env(NPU_VISIBLE_DEVICES="1")


@broken("visible-empty")
def _() -> Spec:
    return with_env(ASCEND_RT_VISIBLE_DEVICES="")


@broken("visible-blank")
def _() -> Spec:
    return with_env(ASCEND_RT_VISIBLE_DEVICES="0, 1")


@broken("visible-bad-entry")
def _() -> Spec:
    return with_env(ASCEND_RT_VISIBLE_DEVICES="0-1")


@broken("visible-duplicate")
def _() -> Spec:
    return with_env(ASCEND_RT_VISIBLE_DEVICES="0,0")


@broken("visible-not-ascending")
def _() -> Spec:
    return with_env(ASCEND_RT_VISIBLE_DEVICES="1,0")


@broken("visible-unknown-id")
def _() -> Spec:
    return inside(with_env(ASCEND_RT_VISIBLE_DEVICES="4"))


@broken("container-variable-on-host")
def _() -> Spec:
    return with_env(ASCEND_VISIBLE_DEVICES="0")


@broken("default-card-busy")
def _() -> Spec:
    return busy(healthy(), 0, 60000)


@broken("chosen-card-busy")
def _() -> Spec:
    return busy(with_env(ASCEND_RT_VISIBLE_DEVICES="1"), 1, 60000)


@broken("id-spaces-differ")
def _() -> Spec:
    return healthy("a3")


# memory


@broken("memory-held-without-process")
def _() -> Spec:
    spec = healthy()
    spec["npu_smi"] = sample("npu-smi-info__910B2x8__23.0.7__hbm-used-no-process.txt")
    spec["nodes"].update({f"davinci{n}": {} for n in range(8)})
    return spec


@broken("card-memory-held")
def _() -> Spec:
    return busy(healthy(), 1, 60000, "VLLMEngineCore")


@broken("memory-not-released")
def _() -> Spec:
    return busy(healthy(), 1, 30000, "python3.11")


@broken("process-without-name")
def _() -> Spec:
    spec = healthy()
    spec["npu_smi"] = sample("npu-smi-info__910B4x8__24.1.rc3__procs-empty-name.txt")
    spec["nodes"].update({f"davinci{n}": {} for n in range(8)})
    return spec


@broken("disk-full")
def _() -> Spec:
    spec = healthy()
    spec["disks"]["/"] = (500_000, 120)
    return spec


@broken("host-memory-low")
def _() -> Spec:
    spec = healthy()
    spec["files"]["/proc/meminfo"] = "MemTotal: 1056000000 kB\nMemAvailable: 900000 kB\n"
    return spec


@broken("container-memory-limit")
def _() -> Spec:
    spec = inside(healthy())
    spec["files"]["/sys/fs/cgroup/cgroup.controllers"] = "cpu memory\n"
    spec["files"]["/sys/fs/cgroup/memory.max"] = f"{4 << 30}\n"
    return spec


# chips


@broken("chip-unknown")
def _() -> Spec:
    return table("910B3 ", "920Z1 ")


@broken("chip-without-bf16")
def _() -> Spec:
    return healthy("310p")


@broken("bf16-default")
def _() -> Spec:
    return healthy()


@broken("not-a-910b")
def _() -> Spec:
    spec = healthy()
    spec["npu_smi"] = sample("npu-smi-info__910ProBx8__24.1.0__ddr-and-hbm.txt")
    return spec


@broken("triton-on-310p")
def _() -> Spec:
    return with_packages("310p", triton_ascend="3.2.0")


@broken("compile-on-310p")
def _() -> Spec:
    return healthy("310p")


@broken("pooling-on-310p")
def _() -> Spec:
    return healthy("310p")


# network


@broken("hccl-port-taken")
def _() -> Spec:
    spec = healthy()
    spec["listeners"] = [{"port": 60000, "pid": 4711, "process": "python3"}]
    return spec


@broken("hccn-incomplete")
def _() -> Spec:
    spec = healthy()
    spec["files"]["/etc/hccn.conf"] = "address_0=192.0.2.11\nnetmask_0=255.255.255.0\n"
    return spec


@broken("hub-not-chosen")
def _() -> Spec:
    spec = healthy()
    spec["process"] = {"locale": "zh_CN.UTF-8"}
    return spec


@broken("offline-with-modelscope")
def _() -> Spec:
    return with_env(VLLM_USE_MODELSCOPE="True", HF_HUB_OFFLINE="1")


@broken("modelscope-redirect")
def _() -> Spec:
    return with_env(VLLM_USE_MODELSCOPE="True")


def spec_of(rule: str) -> dict[str, Any]:
    """The host on which a rule fires, as arguments of `make_host`."""
    return BROKEN[rule]()
