"""Python in a process of its own, with other variables."""

from __future__ import annotations

import os
import subprocess
import sys


def python(code: str, *args: str, timeout: float = 240, **environ: str | None):
    """Run `code`; a variable that is None is not set. Returns what subprocess.run returns."""
    env = {key: value for key, value in os.environ.items() if key not in environ}
    env.update({key: value for key, value in environ.items() if value is not None})
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        env=env,
        timeout=timeout,
        check=False,
    )
