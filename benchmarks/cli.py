"""CPU time of the commands that people run while they look around."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from pathlib import Path

RUNS = 15
JUMAR = Path(sys.executable).with_name("jumar")


def main() -> None:
    """Print CPU seconds (user + system, of the whole process) beside plain python's."""
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "jumar --help": [str(JUMAR), "--help"],
        "jumar models": [str(JUMAR), "models"],
        "jumar models sdxl-digits": [str(JUMAR), "models", "sdxl-digits"],
        "jumar generate --model hibari --help": [
            str(JUMAR),
            "generate",
            "--model",
            "hibari",
            "--help",
        ],
    }
    print(f"\n{'(CPU time of the process, s)':<44}{'median':>10}{'max':>10}")
    spent: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(RUNS + 1):
        for name, argv in commands.items():
            spent[name].append(cpu_of(argv))
    for name, seconds in spent.items():
        warm = seconds[1:]
        print(f"{name:<44}{statistics.median(warm):>10.3f}{max(warm):>10.3f}")


def cpu_of(argv: list[str]) -> float:
    """User and system seconds of one finished child."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
