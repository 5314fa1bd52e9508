"""The table of ``npu-smi info``, in every layout since 21.0.

Rows are split on the bar and columns named by the header of the same output, because offsets lie
(950's process rows are narrower than their header, documents are edited by hand). A chip is two
rows that follow each other; what does not fit is handed back as unread: no card is invented.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from jumar.host.facts import Card, CardProcess, ToolError
from jumar.host.parse.lines import decimal, known, number, tool_error, usage

TITLE = re.compile(r"npu-smi (?P<client>\S+) Version: ?(?P<driver>\S+)")
IDLE = re.compile(r"No running processes found in NPU (\d+)")
BORDER = re.compile(r"[+=-]{3}")
HEALTH = re.compile(r"(?!NA$)[A-Za-z]+")
BUS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]|NA|-")
VALUE = re.compile(r"(?:\d+|NA|-)\s*/\s*(?:\d+|NA|-)(?!\S)|\S+")

COLUMNS = re.compile(
    r"NPU ID|NPU Util\(%\)|NPU|Name|Health|Power\(W\)|Temp\(C\)|Hugepages-Usage\(page\)"
    r"|Chip|Device|Phy-ID|Bus-Id|AICore\(%\)|Memory-Usage\(MB\)|HBM-Usage\(MB\)"
    r"|Process id in container|Process id|Process name|Process memory\(MB\)"
)
CELL_BAR = "|"


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoTable:
    """What one output of ``npu-smi info`` says."""

    version: str | None = None
    driver_version: str | None = None
    cards: tuple[Card, ...] = ()
    has_process_table: bool = False
    warnings: tuple[str, ...] = ()
    error: ToolError | None = None
    unread: tuple[tuple[str, str], ...] = ()
    """(line, why)"""


def read_info(text: str, *, exit_code: int = 0) -> InfoTable:
    """Read the output of ``npu-smi info``, stdout and stderr together."""
    reading = _Reading()
    for line in text.splitlines():
        reading.take(" ".join(line.split()))
    return reading.finish(exit_code)


@dataclass(slots=True)
class _Reading:
    version: str | None = None
    driver_version: str | None = None
    columns: list[list[list[str]]] = field(default_factory=list)
    """The two header rows: per bar cell the names of the columns in it."""
    process_columns: list[list[str]] | None = None
    first: tuple[str, list[str]] | None = None
    """The first row of a chip that waits for its second: line and cells."""
    cards: list[Card] = field(default_factory=list)
    processes: list[tuple[str, int, int | None, CardProcess]] = field(default_factory=list)
    spoken_of: set[int] = field(default_factory=set)
    """NPUs of which the process table said anything."""
    warnings: list[str] = field(default_factory=list)
    stray: list[str] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)

    def take(self, line: str) -> None:
        idle, title = IDLE.search(line), TITLE.search(line)
        if not line:
            return
        if idle:
            self._drop_first()
            self.spoken_of.add(int(idle[1]))
        elif title:
            self._drop_first()
            self.version, self.driver_version = title["client"], title["driver"]
            self.columns, self.process_columns = [], None
        elif set(line) <= set("+|=- ") and BORDER.search(line):
            self._drop_first()
        elif line.startswith(CELL_BAR):
            self._row(line)
        elif line.startswith("[WARNING]"):
            self.warnings.append(line)
        else:
            self.stray.append(line)

    def _row(self, line: str) -> None:
        if not line.endswith(CELL_BAR):
            self.unread.append((line, "the row is cut: no bar at its end"))
            return
        cells = [cell.strip() for cell in line.strip(CELL_BAR).split(CELL_BAR)]
        if "Process id" in line:
            self._drop_first()
            self.process_columns = [COLUMNS.findall(cell) for cell in cells]
        elif "Health" in cells or "Bus-Id" in cells:
            self._header(cells)
        elif self.process_columns is not None:
            self._process(line, cells)
        elif len(self.columns) != 2 or ["Bus-Id"] not in self.columns[1]:
            self.unread.append((line, "a row without a header above it"))
        else:
            self._chip(line, cells)

    def _header(self, cells: list[str]) -> None:
        self._drop_first()
        if "Health" in cells:
            self.columns, self.process_columns = [], None
        names = [COLUMNS.findall(cell) for cell in cells]
        if len(self.columns) == (0 if "Health" in cells else 1):
            self.columns.append(names)

    def _chip(self, line: str, cells: list[str]) -> None:
        """A first row is kept until its second comes directly below it."""
        above = self.first
        if above is None or not self._second(cells):
            self._drop_first()
            self.first = (line, cells)
            return
        self.first = None
        try:
            card = _card(_named(self.columns[0], above[1]), _named(self.columns[1], cells))
            if any(_key(other) == _key(card) for other in self.cards):
                raise ValueError("the same chip stands above already")
        except ValueError as error:
            self.unread += [(above[0], str(error)), (line, str(error))]
        else:
            self.cards.append(card)

    def _second(self, cells: list[str]) -> bool:
        """Second rows are those with a bus address where the header has one."""
        at = self.columns[1].index(["Bus-Id"])
        return at < len(cells) and BUS.fullmatch(cells[at]) is not None

    def _drop_first(self) -> None:
        """A first row without its second is no card."""
        if self.first is not None:
            self.unread.append((self.first[0], "no second row of the chip follows"))
            self.first = None

    def _process(self, line: str, cells: list[str]) -> None:
        try:
            row = _named(self.process_columns or [], cells)
            npu, chip = _npu_id(row), number(row.get("Chip", ""))
            pid = number(_cell(row, "Process id"))
            if npu is None or pid is None:
                raise ValueError("no NPU or no process id")
            if any((npu, chip, pid) == (n, c, p.pid) for _, n, c, p in self.processes):
                raise ValueError("the same process stands above already")
            process = CardProcess(
                pid=pid,
                name=row.get("Process name", ""),
                memory_mb=number(row.get("Process memory(MB)", "")),
                container_pid=number(row.get("Process id in container", "")),
            )
        except ValueError as error:
            self.unread.append((line, f"no row of the process table: {error}"))
        else:
            self.processes.append((line, npu, chip, process))

    def finish(self, exit_code: int) -> InfoTable:
        self._drop_first()
        error = None if self.cards else tool_error("\n".join(self.stray), exit_code=exit_code)
        if error is None:
            self.unread += [(line, "neither a table nor a known message") for line in self.stray]
        cards = tuple(self._with_processes(card) for card in self.cards)
        placed = {
            (card.npu_id, card.chip_id, process.pid)
            for card in cards
            for process in card.processes or ()
        }
        self.unread += [
            (line, "a process on a chip that the table does not have")
            for line, npu, chip, process in self.processes
            if (npu, chip, process.pid) not in placed
        ]
        return InfoTable(
            version=self.version,
            driver_version=self.driver_version,
            cards=cards,
            has_process_table=self.process_columns is not None or bool(self.spoken_of),
            warnings=tuple(self.warnings),
            error=error,
            unread=tuple(self.unread),
        )

    def _with_processes(self, card: Card) -> Card:
        of_npu = [(chip, process) for _, npu, chip, process in self.processes if npu == card.npu_id]
        if not of_npu and card.npu_id not in self.spoken_of:
            return card
        mine = tuple(process for chip, process in of_npu if chip == card.chip_id)
        return replace(card, processes=mine)


def _named(columns: list[list[str]], cells: list[str]) -> dict[str, str]:
    """The values of a row by column name. Raises ValueError where their numbers differ."""
    if len(columns) != len(cells):
        raise ValueError(f"{len(cells)} cells below a header of {len(columns)}")
    row: dict[str, str] = {}
    for names, cell in zip(columns, cells, strict=True):
        if len(names) < 2:
            values = [cell] if names or cell else []
        else:
            values = VALUE.findall(cell)
            if names[-1] == "Name" and len(values) > len(names):
                values = cell.split(None, len(names) - 1)
        if len(values) != len(names):
            raise ValueError(f"{cell!r} does not fit the columns {', '.join(names) or '(none)'}")
        row.update(zip(names, values, strict=True))
    return row


def _card(first: dict[str, str], second: dict[str, str]) -> Card:
    """One chip from its two rows. Raises ValueError for anything but what the columns announce."""
    npu, chip = _npu_id(first), number(second.get("Chip", ""))
    name, health, bus = _cell(first, "Name"), _cell(first, "Health"), _cell(second, "Bus-Id")
    if npu is None or (chip is None and ("Chip" in second or "NPU ID" not in first)):
        raise ValueError("no id")  # 950's table alone has no column for the chip
    if known(name) is None:
        raise ValueError("no name")
    if not HEALTH.fullmatch(health):
        raise ValueError(f"{health!r} is no state of health")
    hbm = second.get("HBM-Usage(MB)")
    return Card(
        npu_id=npu,
        chip_id=chip,
        phy_id=number(second.get("Phy-ID", "")),
        logic_id=number(second.get("Device", "")),
        bus_id=known(bus),
        name=name,
        health=health,
        power_w=decimal(_cell(first, "Power(W)")),
        temperature_c=number(_cell(first, "Temp(C)")),
        aicore_percent=number(second.get("AICore(%)", second.get("NPU Util(%)", ""))),
        hugepages=usage(_cell(first, "Hugepages-Usage(page)")),
        ddr=usage(_cell(second, "Memory-Usage(MB)")),
        hbm=None if hbm is None else usage(hbm),
    )


def _npu_id(row: dict[str, str]) -> int | None:
    return number(row["NPU ID"] if "NPU ID" in row else _cell(row, "NPU"))


def _cell(row: dict[str, str], column: str) -> str:
    if column not in row:
        raise ValueError(f"the header has no column {column}")
    return row[column]


def _key(card: Card) -> tuple[int, int | None]:
    return card.npu_id, card.chip_id
