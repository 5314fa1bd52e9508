"""Every example in the README and the guides runs as it stands.

Blocks in `sh` and `python` run in the order of the page, in one folder. One that cannot run here
stands below a comment that says why: `<!-- not run: needs an NPU -->`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^(<!-- not run: [^\n]+ -->\n\n?)?```(sh|python)\n(.*?)^```", re.S | re.M)


def examples(page: Path) -> list[tuple[str, str]]:
    """Language and text of each block that runs."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [(language, text) for excused, language, text in found if not excused]


@pytest.mark.models
@pytest.mark.parametrize(
    "page", [page for page in PAGES if examples(page)], ids=lambda page: page.name
)
def test_the_examples_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    bin_folder = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}", "COLUMNS": "100"}
    for language, text in examples(page):
        shell = ["bash", "-euo", "pipefail", "-c", text.replace("source .venv/bin/activate", "")]
        argv = shell if language == "sh" else [sys.executable, "-c", text]
        done = subprocess.run(
            argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{page.name}:\n{text}\n{done.stdout}\n{done.stderr}"
