"""Make the environment in which FlagGems runs without an NPU: `prepare.py FOLDER`.

FlagGems and Triton stand in FOLDER; all else is seen where the environment that runs this has it,
Jumar among it. FlagGems pins versions that this torch is too new for, so what it requires is
installed one by one.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

PACKAGES = ("flag_gems==5.0.2", "triton==3.7.1", "sqlalchemy==2.0.48")
HERE = Path(__file__).resolve().parent


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    venv.create(folder, with_pip=False, symlinks=True)
    python = str(folder / "bin" / "python")
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = Path(subprocess.check_output([python, "-c", asked], text=True).strip())
    around = sysconfig.get_path("purelib")
    (own / "around.pth").write_text(f"import site; site.addsitedir({around!r})\n")
    (own / "interpreted.pth").write_text(f"{HERE}\nimport interpreted; interpreted.await_it()\n")
    subprocess.check_call([python, "-m", "pip", "install", "-q", "--no-deps", *PACKAGES])


if __name__ == "__main__":
    main()
