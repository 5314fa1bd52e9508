"""Make the environment in which vLLM runs on Jumar's platform: `prepare.py FOLDER VERSION TORCH`.

vLLM is built from its source distribution for no device, which takes seconds: its Python alone, for
the torch that is there. All else is what `requirements/vllm-VERSION.txt` names, without asking what
these depend on.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    folder, version, torch = Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3]
    locked = ROOT / "requirements" / f"vllm-{version}.txt"
    if not locked.exists():
        known = sorted(one.stem.removeprefix("vllm-") for one in locked.parent.glob("vllm-*.txt"))
        sys.exit(f"There is no {locked.relative_to(ROOT)}; tested are {', '.join(known)}.")
    venv.create(folder, with_pip=True, symlinks=True)
    python = str(folder / "bin" / "python")

    def pip(*args: str, **environ: str) -> None:
        command = [python, "-m", "pip", "--disable-pip-version-check", *args, "-q"]
        subprocess.check_call(command, env={**os.environ, **environ})

    pip("install", torch)
    pip("install", "--no-deps", "-r", str(locked))
    wheels = folder / "wheels"
    if not list(wheels.glob(f"vllm-{version}-*.whl")):
        # Without the second variable the version is "0.24.0+empty", which pip takes for another.
        build = {"VLLM_TARGET_DEVICE": "empty", "VLLM_VERSION_OVERRIDE": version}
        source = ("--no-deps", "--no-build-isolation", "--no-binary", "vllm")
        pip("wheel", *source, "-w", str(wheels), f"vllm=={version}", **build)
    pip("install", "--no-deps", *map(str, wheels.glob(f"vllm-{version}-*.whl")))
    pip("install", "--no-deps", "-e", str(ROOT))
    if "torchvision==" in locked.read_text(encoding="utf-8"):
        subprocess.check_call([python, str(ROOT / "tools" / "cpu_torchvision.py")])


if __name__ == "__main__":
    main()
