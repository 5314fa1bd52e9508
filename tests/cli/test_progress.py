"""The live lines of a run, as a terminal would show them."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from jumar.cli.progress import _Board
from jumar.contracts.results import StageEventRecord


def shown(*events: tuple[str, str, dict[str, Any]]) -> list[str]:
    """The lines after these events."""
    board = _Board()
    for event, stage, data in events:
        board.hear(StageEventRecord(event=event, stage=stage, timestamp_ms=0, data=data))
    console = Console(file=io.StringIO(), width=100)
    console.print(board.drawn())
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def started(stage: str) -> tuple[str, str, dict[str, Any]]:
    return ("stage_started", stage, {})


def finished(stage: str, ms: float) -> tuple[str, str, dict[str, Any]]:
    return ("stage_finished", stage, {"ms": ms})


def test_a_finished_stage_has_a_mark_and_its_time() -> None:
    assert [line.split() for line in shown(started("load"), finished("load", 410.0))] == [
        ["✓", "load", "410", "ms"]
    ]


def test_a_stage_that_counts_steps_has_a_bar_to_scale() -> None:
    (line,) = shown(started("denoise"), ("step", "denoise", {"done": 7, "total": 28}))
    assert line.endswith("7 of 28")
    assert line.count("━") == 28


def test_a_download_counts_bytes_and_names_the_file() -> None:
    step = {"done": 34_100_000, "total": 90_600_000, "unit": "bytes", "what": "model.bin"}
    (line,) = shown(started("fetch"), ("step", "fetch", step))
    assert line.endswith("34.1 MB of 90.6 MB model.bin")


def test_a_download_of_unknown_size_counts_too() -> None:
    step = {"done": 5_000, "total": None, "unit": "bytes", "what": "model.bin"}
    (line,) = shown(started("fetch"), ("step", "fetch", step))
    assert line.endswith("5 kB model.bin")
    assert "━" not in line


def test_a_stage_inside_another_is_indented_under_it() -> None:
    lines = shown(started("hear"), started("vad"), finished("vad", 5.0))
    assert lines[1].startswith("✓   vad")


def test_a_failed_stage_is_crossed() -> None:
    (line,) = shown(started("load"), ("stage_failed", "load", {"error": "x"}))
    assert line.startswith("✗ load")


def test_an_event_that_nobody_foresaw_changes_nothing() -> None:
    before = shown(started("load"), finished("load", 1.0))
    assert shown(started("load"), finished("load", 1.0), ("lines", "load", {"x": 1})) == before
