"""The compiled core: built by the machine's C++ compiler at first use, then taken from a cache.

One plain compiler call (about 30 CPU seconds), no build system. The cache key
holds the sources, the flags, torch's version and its C++ ABI; a lock lets parallel processes build
once; the library appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.contracts.errors import DependencyMissing

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = Path(__file__).with_name("csrc")
COMPILERS = ("g++", "c++", "clang++")
TAIL = 30
"""Lines of the compiler's output that an error shows."""


def library() -> Path:
    """The path of the core for this torch, built where the cache has none.

    Raises:
        DependencyMissing: no compiler, or it failed; its own words are in the message.
    """
    command = _command()
    folder = _cache()
    target = folder / f"npu-{_key(command)}.so"
    if target.exists():
        return target
    if find_compiler() is None:
        raise DependencyMissing(
            "The emulated NPU is built with a C++ compiler, and this machine has none.",
            hint="Install g++ (Debian, Ubuntu: apt install g++), or set CXX.",
        )
    try:
        with _alone(folder / "build.lock"):
            if not target.exists():
                _compile(command, target)
    except OSError as error:
        raise DependencyMissing(
            f"The emulated NPU cannot be built into {folder}: {error}.",
            hint="XDG_CACHE_HOME names another cache folder.",
        ) from error
    return target


def find_compiler() -> str | None:
    """`CXX`, or the first of g++, c++, clang++ that is installed."""
    named = os.environ.get("CXX")
    if named:
        return named if shutil.which(shlex.split(named)[0]) else None
    return next((name for name in COMPILERS if shutil.which(name)), None)


def _command() -> list[str]:
    """The compiler call, without its output file."""
    import torch

    home = Path(torch.__file__).parent
    return [
        *shlex.split(find_compiler() or "g++"),
        *("-std=c++20", "-O1", "-fPIC", "-shared", "-w"),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f"-I{home / 'include'}",
        f"-I{home / 'include' / 'torch' / 'csrc' / 'api' / 'include'}",
        str(SOURCES / "emulator.cpp"),
        *(f"-L{home / 'lib'}", "-lc10", "-ltorch_cpu", "-ltorch", f"-Wl,-rpath,{home / 'lib'}"),
    ]


def _key(command: list[str]) -> str:
    import torch

    digest = hashlib.sha256(f"{torch.__version__}\n{shlex.join(command)}".encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:20]


def _cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("jumar") / "emulator"


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Hold a file lock that the system gives back when this process ends, however it ends."""
    import fcntl

    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(command: list[str], target: Path) -> None:
    partial = target.with_suffix(f".{os.getpid()}.partial")
    try:
        ran = subprocess.run(
            [*command, "-o", str(partial)], capture_output=True, text=True, check=False
        )
        if ran.returncode != 0:
            words = "\n".join(ran.stderr.strip().splitlines()[:TAIL])
            raise DependencyMissing(
                f"The emulated NPU could not be built ({command[0]} ended with "
                f"{ran.returncode}):\n{words}",
                hint="It is built against the torch that is installed; 2.13 is the tested one.",
            )
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
