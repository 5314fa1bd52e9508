"""The table of a run on a terminal."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tests.reporting.samples import climbed, failed_report, report, sound, words

from jumar.contracts.results import RunReport
from jumar.reporting import as_table
from jumar.reporting.units import milliseconds, size


def drawn(run: RunReport, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(as_table(run))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def row(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.strip().startswith(start))


def test_the_head_says_what_ran_where_and_how_long() -> None:
    head = drawn(report()).splitlines()[0]
    assert head.split() == [
        "✓", "sdxl-digits", "text2image", "on", "cpu", "2.38", "s", "20260101-000000-0a1b2c3d",
    ]  # fmt: skip


def test_bars_are_drawn_to_scale() -> None:
    text = drawn(report())
    assert row(text, "load").count("█") == pytest.approx(32 * 810 / 2375, abs=1)
    assert row(text, "denoise").count("█") == pytest.approx(32 * 1370 / 2375, abs=1)


def test_a_short_stage_still_shows() -> None:
    assert "▏" in row(drawn(report()), "fetch")


def test_a_fallback_is_named_with_its_reason() -> None:
    text = drawn(report(backend_timeline=[climbed("unet", why="InductorError: 561002")]))
    assert row(text, "unet").split() == [
        "unet", "graph", "✗", "InductorError:", "561002", "kernel", "eager", "✓", "fell", "back",
    ]  # fmt: skip
    assert "fell back" not in drawn(report())


def test_an_error_is_shown_with_hint_and_cause() -> None:
    text = drawn(failed_report())
    assert text.startswith("✗")
    assert "error[insufficient_memory]: The device ran out of memory." in text
    assert "hint: Take a smaller size or batch." in text
    assert "cause: OutOfMemoryError: tried to allocate 20 GiB" in text


def test_artifacts_are_described(tmp_path: Path) -> None:
    made = [sound(tmp_path / "a.wav"), words(tmp_path / "b.txt", "Hello there.")]
    text = drawn(report(artifacts=made), width=200)
    assert "0.50 s · 22.05 kHz · 22.1 kB" in row(text, "audio")
    assert "Hello there." in text


def test_markup_in_what_a_model_says_is_only_text(tmp_path: Path) -> None:
    said = "[bold red]not red[/bold red]"
    assert said in drawn(report(artifacts=[words(tmp_path / "a.txt", said)], warnings=[said]))


def test_an_empty_report_is_one_line() -> None:
    bare = RunReport(run_id="x", task="text2image", model="m", backend="cpu")
    assert drawn(bare).split() == ["✓", "m", "text2image", "on", "cpu", "0.0", "ms", "x"]


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0.04, "0.0 ms"), (9.94, "9.9 ms"), (85.4, "85 ms"), (999.4, "999 ms"), (999.6, "1.00 s"),
        (12_340, "12.3 s"), (99_940, "99.9 s"), (125_000, "2 min 05 s"),
    ],
)  # fmt: skip
def test_times_have_three_digits(ms: float, text: str) -> None:
    assert milliseconds(ms) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        *((0, "0 B"), (712, "712 B"), (999.6, "1 kB"), (23_100, "23.1 kB"), (999_600, "1 MB")),
        *((90_600_000, "90.6 MB"), (1_500_000_000_000, "1.5 TB"), (10**17, "100000 TB")),
    ],
)
def test_sizes_have_three_digits(count: float, text: str) -> None:
    assert size(count) == text


@given(st.integers(0, 10**18) | st.floats(0, 1e18))
def test_a_size_is_read_back_within_half_a_percent_and_in_the_unit_that_fits(count: float) -> None:
    number, unit = size(count).split(" ")
    assert re.fullmatch(r"\d+(\.\d+)?", number), "no exponent, no sign"
    scale = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[unit]
    assert abs(float(number) * scale - count) <= max(0.005 * count * 1.000001, 0.5)
    assert float(number) < 1000 or unit == "TB"
