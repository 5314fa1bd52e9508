"""Healthy Ascend hosts of every product line, as arguments of `recorded.make_host`.

A test takes one, breaks one thing, and sees what the doctor says:

    spec = healthy("910b")
    del spec["env"]["ASCEND_OPP_PATH"]
    facts = open_host(make_host(**spec))

Versions are one released set (driver 25.3.rc1, CANN 8.5.0, torch 2.8.0, vllm-ascend 0.13.0);
counters and build numbers are made up.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from tests.host.recorded import sample

Spec = dict[str, Any]

ROOT = "/usr/local/Ascend"
CANN = f"{ROOT}/cann-8.5.0"
KERNELS = f"{CANN}/opp/built-in/op_impl/ai_core/tbe/kernel"
ATB = f"{ROOT}/nnal/atb/latest"
UB_FILES = (
    "liburma.so",
    "liburma.so.0",
    "liburma_common.so",
    "liburma_common.so.0",
    "libummu.so.1",
)

DRIVER = sample("driver-version.info__25.3.rc1__two-fw-ranges.txt")
FIRMWARE = "Version=7.8.0.2.212\nfirmware_version=1.0\npackage_version=25.3.rc1\n"
FIRMWARE += "compatible_version_drv=[25.0,25.0.],[25.2,25.2.],[25.3,25.3.]\n"
INSTALL_INFO = sample("etc-ascend_install.info__normal-host.txt")
TOOLKIT = sample("ascend_toolkit_install.info__8.5.0__new-layout.txt")
NNAL = "    Ascend-cann-atb : 8.5.0\n    Ascend-cann-atb Version : 8.5.0.B001\n"

A2_ROW = """\
| {npu}     910B3             | OK            | 93.5        38                0    / 0             |
| 0                         | 0000:C{npu}:00.0  | 0         0    / 0          3391 / 65536         |
+===========================+===============+====================================================+
"""
A2_HEAD = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 25.3.rc1                 Version: 25.3.rc1                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
"""
A2_TAIL = """\
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| No running processes found in NPU 0                                                            |
+===========================+===============+====================================================+
| No running processes found in NPU 1                                                            |
+===========================+===============+====================================================+
"""

ENV = {
    "ASCEND_HOME_PATH": CANN,
    "ASCEND_TOOLKIT_HOME": CANN,
    "ASCEND_OPP_PATH": f"{CANN}/opp",
    "ASCEND_AICPU_PATH": CANN,
    "ATB_HOME_PATH": f"{ATB}/atb/cxx_abi_1",
    "LD_LIBRARY_PATH": f"{ATB}/atb/cxx_abi_1/lib:{CANN}/lib64:{CANN}/lib64/plugin/opskernel:"
    f"{ROOT}/driver/lib64:{ROOT}/driver/lib64/common:{ROOT}/driver/lib64/driver",
    "PYTHONPATH": f"{CANN}/python/site-packages:{CANN}/opp/built-in/op_impl/ai_core/tbe",
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "LANG": "en_US.UTF-8",
}
PACKAGES = {
    "torch": "2.8.0+cpu",
    "torch-npu": "2.8.0",
    "vllm": "0.13.0+empty",
    "vllm-ascend": "0.13.0",
    "numpy": "1.26.4",
    "decorator": "5.1.1",
    "sympy": "1.13.1",
    "cffi": "1.17.1",
    "protobuf": "6.31.1",
    "attrs": "25.3.0",
    "pyyaml": "6.0.2",
    "pathlib2": "2.3.7",
    "scipy": "1.15.3",
    "requests": "2.32.3",
    "psutil": "7.0.0",
    "absl-py": "2.2.2",
    "diffusers": "0.37.1",
    "transformers": "4.57.3",
    "triton-ascend": "3.2.0",
}
COMMON_NODES = ["davinci_manager", "hisi_hdc", "devmm_svm"]
BOARD_NODES = ["svm0", "ts_aisle", "upgrade", "sys", "vdec", "vpc", "pngd", "venc", "log_drv"]

LINES: dict[str, Spec] = {
    "910b": {
        "npu_smi": A2_HEAD + A2_ROW.format(npu=0) + A2_ROW.format(npu=1) + A2_TAIL,
        "nodes": ["davinci0", "davinci1", *COMMON_NODES],
        "kernels": "ascend910b",
        "pci": "d802",
    },
    "a3": {
        "npu_smi": sample("npu-smi-info__A3x16__24.1.rc3.7__idle.txt").replace(
            "24.1.rc3.7", "25.3.rc1  "
        ),
        "nodes": [*(f"davinci{n}" for n in range(16)), *COMMON_NODES],
        "kernels": "ascend910_93",
        "pci": "d803",
    },
    "310p": {
        "npu_smi": sample("npu-smi-info__310P3x8__25.3.rc1__idle__ids-32768.txt"),
        "nodes": [*(f"davinci{n}" for n in range(8)), *COMMON_NODES],
        "kernels": "ascend310p",
        "pci": "d500",
    },
    "310b": {
        "npu_smi": sample("npu-smi-info__310B4__23.0.rc3__bus-NA__power-numeric.txt").replace(
            "23.0.rc3", "25.3.rc1"
        ),
        "nodes": ["davinci0", *COMMON_NODES, *BOARD_NODES],
        "kernels": "ascend310b",
        "pci": None,
    },
    "950": {
        "npu_smi": sample("npu-smi-info__950PRx3__25.7.rc1__alarm__procs.txt")
        .replace("Alarm", "OK   ")
        .replace("88120", "5420 ")
        .replace("29875", "5431 ")
        .replace("25.7.rc1", "25.3.rc1"),
        "nodes": ["davinci0", "davinci1", "davinci2", "davinci_manager", "hisi_hdc"],
        "kernels": "ascend950",
        "pci": "d806",
    },
}


def healthy(line: str = "910b") -> Spec:
    """A host of a product line on which nothing is wrong."""
    row = LINES[line]
    sbin = line == "310b"
    spec: Spec = {
        "npu_smi": row["npu_smi"],
        "nodes": {name: {} for name in row["nodes"]},
        "files": {
            f"{ROOT}/driver/version.info": DRIVER,
            f"{ROOT}/firmware/version.info": FIRMWARE,
            f"{ROOT}/driver/tools/hccn_tool": "\x7fELF",
            "/etc/ascend_install.info": INSTALL_INFO,
            f"/usr/local/{'sbin' if sbin else 'bin'}/npu-smi": "\x7fELF",
            f"{CANN}/aarch64-linux/ascend_toolkit_install.info": TOOLKIT,
            f"{CANN}/set_env.sh": "export ASCEND_HOME_PATH\n",
            f"{ATB}/version.info": NNAL,
            f"{ROOT}/nnal/atb/set_env.sh": "export ATB_HOME_PATH\n",
            "/site-packages/torch/share/cmake/Torch/TorchConfig.cmake": (
                'set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=1")\n'
            ),
            "/site-packages/torch/version.py": "cuda: Optional[str] = None\n",
            "/proc/1/cgroup": "0::/init.scope\n",
            "/proc/meminfo": "MemTotal: 1056000000 kB\nMemAvailable: 980000000 kB\n",
            "/proc/bus/pci/devices": f"c100\t19e5{row['pci']}\t0\n" if row["pci"] else "",
            "/proc/self/mountinfo": "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
        },
        "links": {f"{ROOT}/cann": "cann-8.5.0", f"{ROOT}/ascend-toolkit/latest": "../cann-8.5.0"},
        "directories": [
            f"{ROOT}/driver/lib64/common",
            f"{ROOT}/driver/lib64/driver",
            "/usr/local/dcmi",
            f"{CANN}/lib64/plugin/opskernel",
            f"{CANN}/aarch64-linux/lib64",
            f"{KERNELS}/{row['kernels']}",
            f"{ATB}/atb/cxx_abi_1",
            "/usr/lib64",
        ],
        "env": deepcopy(ENV),
        "packages": dict(PACKAGES),
        "process": {},
        "paths": {},
        "disks": {},
    }
    LINE_CHANGES.get(line, lambda _: None)(spec)
    return spec


def _a3(spec: Spec) -> None:
    board = sample("npu-smi-board-chip__A3__i0-c0.txt")
    spec["commands"] = {f"npu-smi info -t board -i {n}": board for n in range(8)}


def _310p(spec: Spec) -> None:
    del spec["packages"]["triton-ascend"]
    del spec["packages"]["vllm-ascend"]
    del spec["packages"]["vllm"]


def _310b(spec: Spec) -> None:
    _310p(spec)
    spec["directories"].append("/usr/lib64/aicpu_kernels")
    for path in ("/var/slogd", "/var/dmp_daemon", "/etc/hdcBasic.cfg", "/etc/sys_version.conf"):
        spec["files"][path] = "x\n"
    for name in ("libcrypto.so.1.1", "libyaml-0.so.2"):
        spec["files"][f"/usr/lib64/{name}"] = "\x7fELF"


def _950(spec: Spec) -> None:
    spec["directories"] += ["/usr/lib64/urma", "/var/log/npu"]
    spec["files"].update({f"/usr/lib64/{name}": "\x7fELF" for name in UB_FILES})


LINE_CHANGES = {"a3": _a3, "310p": _310p, "310b": _310b, "950": _950}


def inside(spec: Spec, *, privileged: bool = False, shm_mb: int = 16_384) -> Spec:
    """The same as seen from a container that was given everything."""
    spec["files"]["/.dockerenv"] = ""
    spec["files"]["/proc/1/cgroup"] = "0::/docker/0123456789ab\n"
    rights = "000001ffffffffff" if privileged else "00000000a80425fb"
    spec["files"]["/proc/self/status"] = f"Name:\tbash\nCapEff:\t{rights}\n"
    spec["files"]["/proc/sys/kernel/cap_last_cap"] = "40\n"
    spec["files"]["/proc/self/mountinfo"] = "21 1 0:50 / / rw - overlay overlay rw\n"
    spec["disks"]["/dev/shm"] = (shm_mb, shm_mb)
    return spec
