"""A list or policy that does not do what its writer thinks, and the same list mended."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.faults.base import Measured
from benchmarks.faults.lab import Lab
from jumar.operators.policy.lint import Finding, lint


def measure(case: Mapping[str, Any], lab: Lab) -> Measured:
    """`finds` maps a code to the entries that have to be told; `mended` may have no error."""
    begun = time.monotonic()
    findings = _findings(case, case["text"], lab)
    seconds = time.monotonic() - begun
    told = {(one.code, one.entry) for one in findings}
    wanted = {(code, entry) for code, many in case["finds"].items() for entry in many}
    mended = _findings(case, case["mended"], lab)
    alarms = [one for one in mended if one.severity == "error" or one.code in case["finds"]]
    first = next((one for one in findings if (one.code, one.entry) in wanted), None)
    return Measured(
        seen="silent",
        detected="lint" if findings else None,
        named=wanted <= told,
        alarms=tuple(f"{one.code} {one.entry}" for one in alarms),
        said=f"{first.code} {first.entry}: {first.fix or first.message}" if first else "",
        seconds=seconds,
    )


def _findings(case: Mapping[str, Any], text: str, lab: Lab) -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="jumar-") as folder:
        path = Path(folder) / case["file"]
        path.write_text(text, encoding="utf-8")
        return lint(path, lab.catalogue)
