"""What is installed on the emulated machine: driver, firmware and CANN of one released set.

Only what `jumar.host` looks at, in the layout of CANN 8.5; `set_env.sh` has been sourced.
"""

from __future__ import annotations

DRIVER, FIRMWARE, CANN = "25.3.rc1", "7.8.0.2.212", "8.5.0"
"""One set that was released together."""
ROOT = "/usr/local/Ascend"
TOOLKIT = f"{ROOT}/cann-{CANN}"
LINKS = {f"{ROOT}/cann": f"cann-{CANN}"}
FOLDERS = (
    *(f"{ROOT}/driver/lib64", f"{ROOT}/driver/lib64/common", f"{ROOT}/driver/lib64/driver"),
    *(f"{TOOLKIT}/lib64", f"{TOOLKIT}/python/site-packages"),
)
VARIABLES = {
    "ASCEND_HOME_PATH": TOOLKIT,
    "ASCEND_OPP_PATH": f"{TOOLKIT}/opp",
    "LD_LIBRARY_PATH": f"{TOOLKIT}/lib64:{ROOT}/driver/lib64/common:{ROOT}/driver/lib64/driver",
    "PYTHONPATH": f"{TOOLKIT}/python/site-packages:{TOOLKIT}/opp/built-in/op_impl/ai_core/tbe",
}
PACKAGES = {
    "numpy": "1.26.4",
    "decorator": "5.1.1",
    "sympy": "1.13.1",
    "cffi": "1.17.1",
    "protobuf": "6.31.1",
    "attrs": "25.3.0",
    "pyyaml": "6.0.2",
    "pathlib2": "2.3.7",
    "scipy": "1.15.3",
    "requests": "2.32.4",
    "psutil": "7.0.0",
    "absl-py": "2.3.0",
}
"""What CANN's operator compiler imports (Ascend/pytorch#7)."""
KERNELS = {"a3": "910_93"}
"""Folders of kernels whose name is not that of the product line."""


def kernels(product: str) -> str:
    """The folder of the operator kernels of a product line ("910b")."""
    name = f"ascend{KERNELS.get(product, product)}"
    return f"{TOOLKIT}/opp/built-in/op_impl/ai_core/tbe/kernel/{name}"


FILES = {
    f"{ROOT}/driver/version.info": (
        f"Version={DRIVER}\nascendhal_version=7.35.23\nInnerversion=V100R001C23SPC002B212\n"
        "compatible_version=[V100R001C18],[V100R001C19],[V100R001C20],[V100R001C21],[V100R001C23]\n"
        f"compatible_version_fw=[7.0.0,7.8.99]\npackage_version={DRIVER}\n"
    ),
    f"{ROOT}/firmware/version.info": (
        f"Version={FIRMWARE}\nfirmware_version=1.0\npackage_version={DRIVER}\n"
        "compatible_version_drv=[25.0,25.0.],[25.2,25.2.],[25.3,25.3.]\n"
    ),
    "/etc/ascend_install.info": (
        "UserName=HwHiAiUser\nUserGroup=HwHiAiUser\nDriver_Install_Type=full\n"
        f"Driver_Install_Path_Param={ROOT}\nDriver_Install_For_All=no\nDriver_Install_Mode=normal\n"
        "Driver_Install_Status=complete\n"
    ),
    f"{TOOLKIT}/aarch64-linux/ascend_toolkit_install.info": (
        f"package_name=Ascend-cann-toolkit\nversion={CANN}\n"
        "innerversion=V100R001C25SPC001B201\ncompatible_version=[V100R001C21],[V100R001C23]\n"
        f"arch=aarch64\nos=linux\npath={TOOLKIT}\n"
    ),
    f"{TOOLKIT}/set_env.sh": "# emulated: the variables of this record are what it would set\n",
    "/proc/self/mountinfo": "1 0 0:1 / / rw - ext4 /dev/root rw\n",
    "/proc/1/cgroup": "0::/\n",
}
"""What the files of this machine say, by path."""
