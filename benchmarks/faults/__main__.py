"""Run the bench: python -m benchmarks.faults [--rows 5,6,9] [--write]."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.faults import table
from benchmarks.faults.base import Measured, Row, chosen, read

PAGE = Path(__file__).parents[2] / "docs" / "fault-bench.md"


def measured(rows: Iterable[Row]) -> Iterator[tuple[Row, int, Measured]]:
    """Each case of each row with its place, as it is done."""
    from benchmarks.faults.lab import MODULES, Lab
    from benchmarks.faults.scenes import SCENES
    from jumar.isolate import Zygote

    with Zygote(MODULES) as zygote:
        lab = Lab(zygote)
        for row in rows:
            for place, case in enumerate(row.cases):
                yield row, place, _played(partial(SCENES[case["scene"]], case, lab))


def _played(play: Callable[[], Measured]) -> Measured:
    """What came out of a case; a case that the bench could not play costs no other its turn."""
    try:
        return play()
    except Exception as error:  # noqa: BLE001  (told, counted, and the exit code)
        traceback.print_exc()
        return Measured("not played", None, named=False, said=f"{type(error).__name__}: {error}")


def main() -> int:
    """Print the table; 1 where it has a hole that its row does not explain."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--rows", default="", help="numbers with commas between; else all")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name} too")
    asked = parser.parse_args()
    try:
        rows = chosen(read(), asked.rows)
    except ValueError as error:
        parser.error(str(error))
    if asked.write and asked.rows:
        parser.error("--write is for all rows")
    os.environ.setdefault("JUMAR_EMULATE_NPU", "1")
    begun, results = time.monotonic(), []
    for row, place, one in measured(rows):
        results.append((row, place, one))
        table.line(row, place, one)
    table.show(rows, results, time.monotonic() - begun)
    if asked.write:
        PAGE.write_text(table.page(rows, results, time.monotonic() - begun), encoding="utf-8")
    return int(any(not one.whole and not row.hole for row, _, one in results))


if __name__ == "__main__":
    sys.exit(main())
