"""The page of all rules is the one that the rows give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_page_of_rules_is_in_step() -> None:
    done = subprocess.run(
        [sys.executable, "tools/doctor_rules.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
