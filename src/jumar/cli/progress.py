"""What is seen while a run is under way: live lines on a terminal, plain ones when asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from jumar.reporting.units import milliseconds, size

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from jumar.contracts.results import StageEventRecord

_BAR = 28


@dataclass
class Watch:
    """Somebody who watches a run: hears its events, and is told when it is to stop."""

    listener: Callable[[StageEventRecord], None] | None = None
    say: Callable[[str], None] = lambda text: click.echo(text, err=True)
    close: Callable[[], None] = lambda: None

    def stopping(self) -> None:
        """Answer the first Ctrl-C."""
        self.say("stopping… (Ctrl-C again ends at once)")


@contextmanager
def watching(*, quiet: bool, verbose: bool) -> Iterator[Watch]:
    """Live lines where stderr is a terminal, one line per stage with `verbose`, else nothing."""
    if quiet or not (verbose or sys.stderr.isatty()):
        yield Watch()
    elif sys.stderr.isatty():
        yield from _live()
    else:
        yield Watch(_plain)


def _plain(event: StageEventRecord) -> None:
    if event.event == "stage_finished":
        click.echo(f"{event.stage}: {milliseconds(event.data['ms'])}", err=True)
    elif event.event == "stage_failed":
        click.echo(f"{event.stage}: failed", err=True)
    elif event.event == "warning":
        click.echo(f"warning: {event.data['text']}", err=True)


def _live() -> Iterator[Watch]:
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    board = _Board()
    with Live(get_renderable=board.drawn, console=console, refresh_per_second=12) as live:
        yield Watch(board.hear, lambda text: console.print(text, style="yellow"), live.stop)


@dataclass
class _Line:
    """One stage on the board. `ms` is None while it runs."""

    depth: int
    begun: float
    ms: float | None = None
    failed: bool = False
    done: float = 0
    total: float | None = None
    unit: str = ""
    what: str = ""

    def hear(self, event: str, data: dict[str, Any]) -> None:
        """Take in what happened in this stage."""
        if event == "stage_finished":
            self.ms = data["ms"]
        elif event == "stage_failed":
            self.ms, self.failed = (monotonic() - self.begun) * 1e3, True
        elif event == "step":
            self.done, self.total = data.get("done", 0), data.get("total")
            self.unit, self.what = data.get("unit", ""), data.get("what", "")


class _Board:
    """The stages heard of, in the order in which they began."""

    def __init__(self) -> None:
        from rich.spinner import Spinner

        self._lines: dict[str, _Line] = {}
        self._spinner = Spinner("dots", style="cyan")

    def hear(self, event: StageEventRecord) -> None:
        """Take an event in. Called in the thread of the run."""
        if event.event == "stage_started":
            depth = sum(line.ms is None for line in self._lines.values())
            self._lines[event.stage] = _Line(depth, monotonic())
        elif event.stage in self._lines:
            self._lines[event.stage].hear(event.event, event.data)

    def drawn(self) -> Table:
        """The board as it is now."""
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1))
        for justify in ("left", "left", "right", "left"):
            grid.add_column(justify=justify)
        for name, line in list(self._lines.items()):
            ended = Text("✗", style="red") if line.failed else Text("✓", style="green")
            ms = (monotonic() - line.begun) * 1e3 if line.ms is None else line.ms
            label = Text("  " * line.depth + name, style="bold" if line.ms is None else "")
            mark = self._spinner if line.ms is None else ended
            grid.add_row(mark, label, milliseconds(ms), _bar(line))
        return grid


def _bar(line: _Line) -> Text:
    from rich.text import Text

    if line.total == 1 or not (line.done or line.total):
        return Text()
    counted = size if line.unit == "bytes" else lambda number: f"{number:g}"
    if not line.total:
        return Text(f" {counted(line.done)} {line.what}", style="dim")
    full = round(_BAR * min(line.done / line.total, 1))
    if line.ms is not None and not line.failed:
        return Text(f" {counted(line.total)}{'' if line.unit else ' steps'}", style="dim")
    return Text.assemble(
        " ",
        ("━" * full, "cyan"),
        ("━" * (_BAR - full), "dim"),
        (f" {counted(line.done)} of {counted(line.total)} {line.what}".rstrip(), "dim"),
    )
