"""A plain table: as wide as the terminal, and never folded where it goes into a file or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

_UNFOLDED = 1000
"""Columns where nobody looks at a terminal."""


def print_table(
    rows: Iterable[Sequence[Any]], *, headings: Sequence[str] = (), right: str = ""
) -> None:
    """Print rows of texts (or rich Texts); only the last column folds.

    `headings` names the columns, `right` those (by a space-separated list of numbers) whose texts
    stand at the right.
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim", show_header=bool(headings))
    every = [list(row) for row in rows]
    width = max(map(len, [*every, headings]), default=0)
    for number in range(width):
        table.add_column(
            headings[number] if headings else "",
            justify="right" if str(number) in right.split() else "left",
            no_wrap=number < width - 1,
            overflow="fold",
        )
    for row in every:
        table.add_row(*row)
    columns = None if sys.stdout.isatty() else _UNFOLDED
    Console(highlight=False, markup=False, emoji=False, width=columns).print(table)
