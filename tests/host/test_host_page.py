"""The table of docs/host.md says what the parser says of every sample."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.host.recorded import SAMPLES

from jumar.host import open_host
from jumar.host.doctor import examine

PAGE = Path(__file__).parents[2] / "docs" / "host.md"
NAMES = sorted(path.name for path in SAMPLES.glob("npu-smi-*") if path.match("*info__*"))


def row(name: str) -> str:
    """The row of the table for a sample."""
    facts = open_host(str(SAMPLES / name))
    tool, cards = facts.npu_smi, facts.cards
    ids = ", ".join(dict.fromkeys(str(card.npu_id) for card in cards))
    chips = ", ".join(dict.fromkeys(card.soc.name for card in cards if card.soc))
    used = [card.memory.used or 0 for card in cards if card.memory]
    processes = sum(len(card.processes or ()) for card in cards)
    told = processes if tool.has_process_table else "no table"
    version = f"{tool.version} / {tool.driver_version}"
    span = f"{min(used)} to {max(used)}" if len(used) > 1 else f"{used[0]}"
    said = [f"`{one.id}`" for root in examine(facts).findings for one in root.walk()]
    read = f"{version} | {len(cards)} ({ids}) | {chips} | {span} | {told}"
    return f"| `{name}` | {read} | {', '.join(said) or 'nothing'} |"


@pytest.mark.parametrize("name", NAMES)
def test_the_page_tells_what_the_parser_reads(name: str) -> None:
    assert row(name) in PAGE.read_text(encoding="utf-8").splitlines()


def test_the_page_has_a_row_for_every_sample_and_no_other() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("| `npu-smi-info__")] == list(map(row, NAMES))
