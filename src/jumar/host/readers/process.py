"""The process: user, environment, Python packages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from jumar.host.facts import MASKED, Package, Python, User

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jumar.host.readers.notes import Notes
    from jumar.host.source import HostSource

RELEVANT = re.compile(
    # Ascend: visibility, roots, torch_npu, HCCL, logs, limits.
    r"(ASC\w*|ATB|MINDIE|HCCL|HCCN|NPU|ACL|ACLNN|TORCH\w*|PYTORCH|TASK_QUEUE|MULTI_STREAM|INF_NAN"
    r"|CPU_AFFINITY|COMBINED_ENABLE|OOM_SNAPSHOT|TOOLCHAIN|TBE|GE|DUMP_GRAPH|PROFILING|RANK"
    r"|GLOO|TP_SOCKET|MASTER|WORLD|LOCAL_RANK"
    # Serving, operators, hubs.
    r"|VLLM|FLAGGEMS|FLAGTREE|FLAGOS|TRITON|RAY|HF|HUGGINGFACE|TRANSFORMERS|DIFFUSERS|MODELSCOPE"
    r"|OMNIRT|JUMAR|SGLANG|SGL|CUDA|NVIDIA|ROCR|HIP|OMP|MKL|OPENBLAS|MAX_JOBS|SOC_VERSION"
    # Search paths, languages, proxies, container signs.
    r"|LD|PATH|PYTHON\w*|VIRTUAL_ENV|CONDA\w*|LANG|LANGUAGE|LC|TZ|HTTP|HTTPS|NO|ALL|PIP|UV"
    r"|KUBERNETES_SERVICE|HOME|USER|SHELL|TMPDIR|XDG_CACHE)(_\w*)?|container",
    re.IGNORECASE,
)
"""Names of variables that matter here, by their beginning."""
LOOKS_LIKE_ONE = re.compile(r"VISIBLE|DEVICE|ASCEND|CANN|NPU", re.IGNORECASE)
"""Kept too, because a misspelt name ("ASEND_RT_VISIBLE_DEVICES") is ignored without a word."""
CREDENTIAL = re.compile(
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|AUTH|COOKIE|(API|ACCESS|PRIVATE|"
    r"SECRET|ENCRYPTION)_?KEY|KEY)(_|$)|APIKEY|TOKEN$",
    re.IGNORECASE,
)
URL_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")

PACKAGES = (
    *("torch", "torch-npu", "torchvision", "torchaudio", "torchair", "triton", "triton-ascend"),
    *("flagtree", "flag-gems", "vllm", "vllm-ascend", "vllm-plugin-fl", "vllm-omni", "sglang"),
    *("numpy", "transformers", "tokenizers", "diffusers", "accelerate", "safetensors", "peft"),
    *("huggingface-hub", "modelscope", "onnxruntime", "onnxruntime-cann", "mindie", "mindspore"),
    *("te", "hccl", "auto-tune", "attrs", "cffi", "decorator", "sympy", "protobuf", "pyyaml"),
    *("pathlib2", "scipy", "requests", "psutil", "absl-py", "ray", "setuptools", "pip", "jumar"),
    *("av", "soundfile", "pillow", "opencv-python", "uvloop", "msgspec", "pyzmq"),
)
"""Distributions whose versions matter: the version chain, and what CANN's Python parts need."""

CXX11_ABI = re.compile(r"_GLIBCXX_USE_CXX11_ABI=([01])")
CUDA = re.compile(r"^cuda\b[^=]*=\s*['\"]([^'\"]+)['\"]", re.MULTILINE)


def read_process(source: HostSource, notes: Notes) -> Mapping[str, Any]:
    """What only the process knows; an empty mapping where it was not recorded."""
    return notes.look("process", source.process, absent={})


def read_user(process: Mapping[str, Any]) -> User | None:
    """The user of the process, or None where it is not known."""
    if "uid" not in process:
        return None
    return User(
        uid=process["uid"],
        gid=process.get("gid", process["uid"]),
        name=process.get("user"),
        groups=tuple(process.get("groups", ())),
        group_names=tuple(process.get("group_names", ())),
        home=process.get("home"),
    )


def read_environ(source: HostSource, notes: Notes) -> dict[str, str]:
    """The variables that matter, in the order of their names, without credentials."""
    environ: Mapping[str, str] = notes.look("environ", source.environ, absent={})
    return {name: mask(name, environ[name]) for name in sorted(environ) if concerns(name)}


def concerns(name: str) -> bool:
    """Whether a variable of this name belongs to the facts."""
    return bool(RELEVANT.fullmatch(name) or LOOKS_LIKE_ONE.search(name))


def mask(name: str, value: str) -> str:
    """The value of a variable, without the login in a URL, or without anything if it is one."""
    if value and CREDENTIAL.search(name):
        return MASKED
    return URL_LOGIN.sub("***", value)


def read_python(source: HostSource, notes: Notes, process: Mapping[str, Any]) -> Python:
    """The interpreter, the packages that matter, and what torch's own files say of its build."""
    installed: Mapping[str, list[str]] | None = process.get("packages")
    if installed is None:
        notes.unseen.setdefault("python", notes.unseen.get("process", "not recorded: packages"))
        installed = {}
    packages = {
        name: Package(name=name, version=installed[name][0], location=installed[name][1])
        for name in PACKAGES
        if name in installed
    }
    flags = cuda = None
    if "torch" in packages:
        folder = f"{packages['torch'].location}/torch"
        config = f"{folder}/share/cmake/Torch/TorchConfig.cmake"
        flags = CXX11_ABI.search(notes.look("python.torch", source.read, config, absent=""))
        version = notes.look("python.torch", source.read, f"{folder}/version.py", absent="")
        cuda = CUDA.search(version)
    return Python(
        version=process.get("python_version"),
        executable=process.get("python_executable"),
        packages=packages,
        torch_cxx11_abi=None if flags is None else flags[1] == "1",
        torch_cuda=None if cuda is None else cuda[1],
    )
