"""The bench as a table: on the terminal, and as a page of the guide."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path

from benchmarks.faults.base import Measured, Row

WIDE = 150
"""Columns below which the table cannot be read."""

PAGE = Path(__file__).with_name("page.txt")

Results = Sequence[tuple[Row, int, Measured]]

SAYS = {True: "yes", False: "NO", None: "–"}


def line(row: Row, place: int, one: Measured) -> None:
    """One case, as soon as it is done."""
    print(
        f"{row.label(place):>4} {one.seen:<16} {one.detected or 'NOT DETECTED':<22}"
        f" named {SAYS[one.named]:<4} served {SAYS[one.served]:<4} {one.seconds:5.1f} s"
        f"  {one.said[:90]}{'  ALARMS ' + ', '.join(one.alarms) if one.alarms else ''}",
        flush=True,
    )


def show(rows: Sequence[Row], results: Results, seconds: float) -> None:
    """All cases, and the totals."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Faults on an emulated NPU")
    for name in HEAD:
        table.add_column(name, overflow="fold")
    for cells in _cells(results):
        table.add_row(*cells)
    console = Console()
    console.width = max(console.width, WIDE)
    console.print(table)
    for one in totals(rows, results, seconds):
        console.print(one, markup=False)


HEAD = (
    "row", "kind", "what", "without tools", "detected", "named", "quarantined", "served around",
    "s", "false alarms",
)  # fmt: skip


def _cells(results: Results) -> Iterator[tuple[str, ...]]:
    for row, place, one in results:
        yield (
            row.label(place),
            " ".join(row.kinds),
            row.symptom if place == 0 else "″",
            one.seen,
            one.detected or "NO",
            SAYS[one.named],
            SAYS[one.quarantined],
            SAYS[one.served],
            f"{one.seconds:.1f}",
            ", ".join(one.alarms) or "0",
        )


def totals(rows: Sequence[Row], results: Results, seconds: float) -> list[str]:
    """Counted by case, and how many rows have none."""
    every = [one for _, _, one in results]
    with_cases = [row for row in rows if row.cases]
    silent = [one for one in every if one.seen in ("wrong", "correct", "silent")]
    told = {
        "detected": (one.detected is not None for one in every),
        "named": (one.named for one in every),
        "quarantined": (one.quarantined for one in every),
        "served around": (one.served for one in every),
    }
    simulated = f"{len(with_cases)} of {len(rows)} rows are simulated, in {len(every)} cases"
    alarms = sum(len(one.alarms) for one in every)
    finding = sum(one.seconds for one in every)
    return [
        f"{simulated}; {len(silent)} of these tell nothing by themselves.",
        ", ".join(f"{what} {_part(answers)}" for what, answers in told.items())
        + f"; false alarms: {alarms}.",
        f"{seconds:.0f} s in all, {finding:.0f} s of them for finding.",
    ]


def _part(answers: Iterable[bool | None]) -> str:
    """`41 of 44`: of those where the question has a meaning."""
    asked = [one for one in answers if one is not None]
    return f"{sum(asked)} of {len(asked)}"


def page(rows: Sequence[Row], results: Results, seconds: float) -> str:
    """docs/fault-bench.md."""
    import torch

    import jumar

    head = PAGE.read_text(encoding="utf-8").format(
        day=date.today().isoformat(),
        jumar=jumar.__version__,
        torch=torch.__version__.partition("+")[0],
        python=platform.python_version(),
        totals="\n".join(f"- {one}" for one in totals(rows, results, seconds)),
    )
    parts = [head, "## Rows\n", *_markdown(HEAD, _cells(results))]
    parts += ["\n## Holes\n", *_markdown(("row", "why"), _holes(results))]
    parts += ["\n## What each row is\n", *_markdown(("row", "reference", "how"), _sources(rows))]
    return "\n".join(parts) + "\n"


def _holes(results: Results) -> Iterator[tuple[str, ...]]:
    for row, place, one in results:
        if not one.whole:
            yield row.label(place), row.hole or "**not explained**"


def _sources(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        how = "; ".join(_how(one) for one in row.cases) or f"**not simulated**: {row.instead}"
        partly = f". Left out: {row.partly}" if row.partly else ""
        yield str(row.number), ", ".join(map(_link, row.references)), how + partly


def _how(case: object) -> str:
    assert isinstance(case, dict)
    if case["scene"] == "device":
        faults = ", ".join(
            f"`{one['op']}` {one.get('kind') or one['kernel']}" for one in case["faults"]
        )
        return f"`{case['program']}` with {faults}: {case['tool']}"
    return f"{case['scene']}: {case.get('play') or ', '.join(case['finds'])}"


def _link(reference: str) -> str:
    repository, _, number = reference.partition("#")
    if not number:
        return reference
    return f"[{reference}](https://github.com/{repository}/issues/{number})"


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(one.replace("|", "\\|") for one in cells) + " |" for cells in lines]
