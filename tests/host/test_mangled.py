"""Mangled outputs: whatever happens to a text on its way, no crash and no invented card."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.host.recorded import SAMPLES

from jumar.host.facts import Card
from jumar.host.parse.lines import pairs
from jumar.host.parse.mounts import read_mounts
from jumar.host.parse.npu_smi import read_info
from jumar.host.parse.npu_smi_queries import (
    read_board,
    read_mapping,
    read_process_memory,
    read_readings,
    read_topology,
)
from jumar.host.parse.nvidia_smi import read_apps, read_gpus
from jumar.host.visibility import read_visibility

TABLES = {path.name: path.read_text() for path in sorted(SAMPLES.glob("npu-smi-info__*"))}
OTHERS = {
    path.name: path.read_text()
    for path in sorted(SAMPLES.glob("npu-smi-*"))
    if path.name not in TABLES
}

NOISE = [
    "2025-01-01 00:00:00 [INFO] something else",
    "| 3     910B3               | OK            |",
    "+====+",
    "[WARNING]The driver package may not be completely installed",
    "|",
    "||||",
    "\t\x00\ufffd",
    "| NPU   Name                | Health        |",
    "Traceback (most recent call last):",
]


def drop(lines: list[str], at: int) -> list[str]:
    return lines[:at] + lines[at + 1 :]


def double(lines: list[str], at: int) -> list[str]:
    return lines[: at + 1] + lines[at:]


def cut(lines: list[str], at: int) -> list[str]:
    return [*lines[:at], lines[at][: len(lines[at]) // 2], *lines[at + 1 :]]


def cut_all(lines: list[str], at: int) -> list[str]:
    return [line[: 30 + at] for line in lines]


def behead(lines: list[str], at: int) -> list[str]:
    return [*lines[:at], lines[at][7:], *lines[at + 1 :]]


def narrow(lines: list[str], at: int) -> list[str]:
    return [*lines[:at], " ".join(lines[at].split()), *lines[at + 1 :]]


def widen(lines: list[str], at: int) -> list[str]:
    return [*lines[:at], lines[at].replace(" ", "  "), *lines[at + 1 :]]


def swap(lines: list[str], at: int) -> list[str]:
    return [*lines[:at], *reversed(lines[at : at + 2]), *lines[at + 2 :]]


def without_cell(lines: list[str], at: int) -> list[str]:
    cells = lines[at].split("|")
    return [*lines[:at], "|".join([*cells[:1], *cells[2:]]), *lines[at + 1 :]]


def indent(lines: list[str], at: int) -> list[str]:
    return ["  " * (at % 3) + line + "  \r" for line in lines]


CHANGES: list[Callable[[list[str], int], list[str]]] = [
    *(drop, double, cut, cut_all, behead, narrow, widen, swap, without_cell, indent),
    *(lambda lines, at, noise=noise: [*lines[:at], noise, *lines[at:]] for noise in NOISE),
]

mangling = st.lists(
    st.tuples(st.sampled_from(CHANGES), st.floats(0, 1, exclude_max=True)), min_size=1, max_size=6
)


def mangle(text: str, changes: list[tuple[Callable[[list[str], int], list[str]], float]]) -> str:
    lines = text.splitlines()
    for change, place in changes:
        if lines:
            lines = change(lines, int(place * len(lines)))
    return "\n".join(lines)


def ids(cards: tuple[Card, ...]) -> set[tuple[int, int | None]]:
    return {(card.npu_id, card.chip_id) for card in cards}


@settings(max_examples=600, deadline=None)
@given(name=st.sampled_from(sorted(TABLES)), changes=mangling)
@example(  # the column of the chip is lost, in the header and in a row
    name="npu-smi-info__910B4x8__24.1.rc3__procs-empty-name.txt",
    changes=[(behead, 0.515625), (behead, 0.09375)],
)
def test_a_mangled_table_never_has_a_card_that_the_whole_one_has_not(
    name: str, changes: list[tuple[Callable[[list[str], int], list[str]], float]]
) -> None:
    whole, mangled = read_info(TABLES[name]), read_info(mangle(TABLES[name], changes))
    assert ids(mangled.cards) <= ids(whole.cards)
    assert len(mangled.cards) == len(ids(mangled.cards))
    known = {
        (card.npu_id, card.chip_id, process.pid)
        for card in whole.cards
        for process in card.processes or ()
    }
    found = [
        (card.npu_id, card.chip_id, process.pid)
        for card in mangled.cards
        for process in card.processes or ()
    ]
    assert set(found) <= known
    assert len(found) == len(set(found))


LOSSLESS: list[Callable[[list[str], int], list[str]]] = [narrow, widen, indent]


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from(sorted(TABLES)),
    changes=st.lists(
        st.tuples(st.sampled_from(LOSSLESS), st.floats(0, 1, exclude_max=True)), max_size=8
    ),
)
def test_widths_and_indents_alone_change_no_fact(
    name: str, changes: list[tuple[Callable[[list[str], int], list[str]], float]]
) -> None:
    assert read_info(mangle(TABLES[name], changes)) == read_info(TABLES[name])


@settings(max_examples=200, deadline=None)
@given(name=st.sampled_from(sorted(TABLES)), at=st.floats(0, 1, exclude_max=True))
def test_a_lost_line_loses_at_most_its_own_card(name: str, at: float) -> None:
    lines = TABLES[name].splitlines()
    place = int(at * len(lines))
    cards = read_info("\n".join(drop(lines, place))).cards
    whole = read_info(TABLES[name]).cards
    lost = ids(whole) - ids(cards)
    header = "Health" in lines[place] or "Bus-Id" in lines[place]
    assert header or len(lost) <= 1
    for card in cards:
        (same,) = (other for other in whole if ids((other,)) == ids((card,)))
        assert (card.bus_id, card.memory, card.health) == (same.bus_id, same.memory, same.health)


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from(sorted(OTHERS)), changes=mangling)
def test_no_other_output_of_npu_smi_makes_a_parser_fail(
    name: str, changes: list[tuple[Callable[[list[str], int], list[str]], float]]
) -> None:
    text = mangle(OTHERS[name], changes)
    rows = {(row.npu_id, row.chip_id) for row in read_mapping(text)[0]}
    assert rows <= {(row.npu_id, row.chip_id) for row in read_mapping(OTHERS[name])[0]}
    assert read_info(text).cards == ()
    read_board(text)
    read_topology(text)
    read_process_memory(text)
    for kind in ("common", "memory", "usages"):
        read_readings(kind, text)


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet=st.sampled_from("|+=-:/ 0123456789abNPU\t\n,.[]()"), max_size=400))
def test_no_text_at_all_makes_a_parser_fail(text: str) -> None:
    assert read_info(text).cards == ()
    assert read_mapping(text)[0] == ()
    read_board(text)
    read_topology(text)
    read_process_memory(text)
    read_readings("usages", text)
    read_gpus(text)
    read_apps(text)
    read_mounts(text)
    pairs(text)


@given(value=st.text(max_size=30), known=st.sets(st.integers(0, 15), max_size=8))
def test_no_visible_chip_is_one_that_does_not_exist(value: str, known: set[int]) -> None:
    visible = read_visibility({"ASCEND_RT_VISIBLE_DEVICES": value}, known)
    assert visible.ids is not None
    assert set(visible.ids) <= known
