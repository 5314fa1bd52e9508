"""Write what FlagGems registers on Ascend, from its wheel, which is unpacked and never imported.

python tools/record_flag_gems.py [VERSION]
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from jumar.operators.catalogue import flag_gems
from jumar.operators.catalogue.record import SHIPPED, write

BUILD = Path(__file__).parent.parent / "build"


def main() -> int:
    """Fetch the wheel of a version and write its table."""
    version = sys.argv[1] if len(sys.argv) > 1 else "5.0.2"
    folder = BUILD / f"flag_gems-{version}"
    if not folder.exists():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder)]
        subprocess.run([*pip, f"flag-gems=={version}"], check=True)
    os.environ["GEMS_VENDOR"] = "ascend"
    found = flag_gems.read(folder / flag_gems.NAME, version)
    path = SHIPPED / f"flag_gems-{version}.json"
    write(found, path, source="the registrar table in the wheel (Apache-2.0), for Ascend")
    print(f"{path}: {len(found.implementations)} registrations")
    return 0


if __name__ == "__main__":
    sys.exit(main())
