"""NPU cards: the table of ``npu-smi info``, completed by its other queries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jumar.host.facts import Card, NpuSmi, ToolError
from jumar.host.parse import npu_smi_queries as queries
from jumar.host.parse.lines import tool_error
from jumar.host.parse.npu_smi import read_info
from jumar.host.soc import find_soc, soc_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jumar.host.facts import Board, CardProcess, DeviceNode, MapRow, Topology
    from jumar.host.readers.notes import Notes
    from jumar.host.source import HostSource, Ran

TOOL = "npu-smi"
TOOL_PATHS = ("/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi")
READINGS = ("common", "memory", "usages")
NUMBERLESS = "Ascend910"
"""What A3 calls every chip; its number is told only by the board query of the chip."""


def read_cards(
    source: HostSource, notes: Notes, nodes: Sequence[DeviceNode], *, deep: bool
) -> tuple[NpuSmi, tuple[Card, ...]]:
    """The tool and the cards. `deep` asks further values per card (seconds on a full machine)."""
    nothing: Ran | None = None
    ran = notes.look("npu_smi", source.run, TOOL, "info", absent=nothing)
    if ran is None:
        if "npu_smi" in notes.unseen:
            return NpuSmi(), ()
        missing = ToolError(kind="missing", text=f"{TOOL}: no such program")
        return NpuSmi(present=False, error=missing), ()
    table = read_info(ran.text, exit_code=ran.exit_code)
    for line, why in table.unread:
        notes.skip("npu-smi info", [line], why)
    ask = _Asker(source, notes)
    tool = NpuSmi(
        present=table.error is None or table.error.kind != "missing",
        path=next(filter(ask.exists, TOOL_PATHS), None),
        version=table.version,
        driver_version=table.driver_version,
        error=table.error,
        warnings=table.warnings,
        has_process_table=table.has_process_table,
        mapping=ask.mapping() if table.cards else (),
        topology=ask.topology() if table.cards and deep else None,
    )
    cards = [_with_ids(card, tool.mapping) for card in table.cards]
    told = {npu: ask.npu(npu, deep=deep) for npu in dict.fromkeys(card.npu_id for card in cards)}
    cards = [_with_name(_with_told(card, told[card.npu_id]), ask) for card in cards]
    return tool, tuple(_with_nodes(cards, nodes))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Npu:
    """What the queries of one NPU say; by chip id, None for the whole card."""

    board: Board | None
    readings: Mapping[int | None, Mapping[str, str]]
    processes: Mapping[int | None, tuple[CardProcess, ...]]
    device_share: bool | None


class _Asker:
    """The further queries. One that fails is noted as unseen and answers with nothing."""

    def __init__(self, source: HostSource, notes: Notes) -> None:
        self._source, self._notes = source, notes

    def exists(self, path: str) -> bool:
        fact = self._notes.look(f"paths.{path}", self._source.stat, path, absent=None)
        return fact is not None and fact.exists

    def mapping(self) -> tuple[MapRow, ...]:
        rows, unread = queries.read_mapping(self._text("mapping", "-m"))
        self._notes.skip("npu-smi info -m", unread)
        return rows

    def topology(self) -> Topology | None:
        topology, unread = queries.read_topology(self._text("topology", "-t", "topo"))
        self._notes.skip("npu-smi info -t topo", unread)
        return topology

    def npu(self, npu: int, *, deep: bool) -> _Npu:
        readings: dict[int | None, dict[str, str]] = {}
        processes: dict[int | None, tuple[CardProcess, ...]] = {}
        share: bool | None = None
        for kind in READINGS if deep else ():
            found, unread = queries.read_readings(kind, self._of_npu(kind, npu))
            self._notes.skip(f"npu-smi info -t {kind}", unread)
            for chip, values in found.items():
                readings.setdefault(chip, {}).update(values)
        if deep:
            processes, unread = queries.read_process_memory(self._of_npu("proc-mem", npu))
            self._notes.skip("npu-smi info -t proc-mem", unread)
            share = queries.read_device_share(self._of_npu("device-share", npu))
        return _Npu(
            board=self.board(npu), readings=readings, processes=processes, device_share=share
        )

    def board(self, npu: int, chip: int | None = None) -> Board | None:
        of_chip = () if chip is None else ("-c", str(chip))
        board, unread = queries.read_board(self._of_npu("board", npu, *of_chip))
        self._notes.skip("npu-smi info -t board", unread)
        return board

    def _of_npu(self, kind: str, npu: int, *options: str) -> str:
        return self._text(kind, "-t", kind, "-i", str(npu), *options)

    def _text(self, part: str, *options: str) -> str:
        nothing: Ran | None = None
        name = f"npu_smi.{part}"
        ran = self._notes.look(name, self._source.run, TOOL, "info", *options, absent=nothing)
        if ran is None:
            return ""
        error = tool_error(ran.text, exit_code=ran.exit_code)
        if error is not None or "does not support" in ran.text:
            self._notes.unseen.setdefault(name, ran.text.strip())
            return ""
        return ran.text


def _with_ids(card: Card, mapping: Iterable[MapRow]) -> Card:
    """Complete the ids from the row of the same chip. A table without chip ids has one per NPU."""
    rows = [row for row in mapping if row.npu_id == card.npu_id]
    if card.chip_id is not None:
        rows = [row for row in rows if row.chip_id == card.chip_id]
    if len(rows) != 1:
        return card
    (row,) = rows
    return replace(
        card,
        chip_id=row.chip_id,
        slot_id=row.slot_id,
        phy_id=row.phy_id if card.phy_id is None else card.phy_id,
        logic_id=row.logic_id if card.logic_id is None else card.logic_id,
    )


def _with_told(card: Card, told: _Npu) -> Card:
    readings = {**told.readings.get(None, {}), **told.readings.get(card.chip_id, {})}
    listed = told.processes.get(card.chip_id)
    known = {process.pid for process in card.processes or ()}
    further = tuple(process for process in listed or () if process.pid not in known)
    spoken = card.processes is not None or listed is not None
    return replace(
        card,
        board=told.board,
        device_share=told.device_share,
        readings={key: value for key, value in readings.items() if key not in ("NPU ID",)},
        processes=(*(card.processes or ()), *further) if spoken else None,
    )


def _with_name(card: Card, ask: _Asker) -> Card:
    """The chip's real name; where the table gives no number, the board of the chip is asked."""
    board = card.board
    if soc_name(card.name) == NUMBERLESS and (board is None or board.npu_name is None):
        board = ask.board(card.npu_id, card.chip_id) or board
    return replace(card, soc=find_soc(card.name, board))


def _with_nodes(cards: Sequence[Card], nodes: Sequence[DeviceNode]) -> list[Card]:
    """Match cards to ``/dev/davinciN`` where npu-smi printed no physical id.

    Only where one id of all cards makes the very set of numbers under ``/dev``: two witnesses.
    """
    if any(card.phy_id is not None for card in cards):
        printed = [card.phy_id is not None for card in cards]
        return [
            replace(card, phy_from="npu-smi" if told else None)
            for card, told in zip(cards, printed, strict=True)
        ]
    davinci = [node for node in nodes if node.path.startswith("/dev/davinci")]
    numbers = {node.number for node in davinci if node.number is not None}
    for ids in ([card.npu_id for card in cards], [card.logic_id for card in cards]):
        if len(ids) == len(numbers) and set(ids) == numbers:
            return [
                replace(card, phy_id=number, phy_from="nodes")
                for card, number in zip(cards, ids, strict=True)
            ]
    return list(cards)
