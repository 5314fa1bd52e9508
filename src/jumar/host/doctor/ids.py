"""The map of the four id spaces: which number of a chip belongs where.

Where npu-smi does not print a logic id it is counted: CANN numbers the chips that it sees from 0,
in the order of their physical ids.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from jumar.host.visibility import read_visibility

if TYPE_CHECKING:
    from jumar.host.facts import Card, HostFacts


@dataclass(frozen=True)
class Ids:
    """One chip in all four spaces; None where a space does not have it or it is not known."""

    npu_id: int | None
    chip_id: int | None
    phy_id: int | None
    logic_id: int | None
    process: int | None
    """N of torch's ``npu:N`` in this process."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def id_map(facts: HostFacts) -> tuple[Ids, ...]:
    """One row per chip, in the order of logic ids; from the nodes alone where npu-smi is silent."""
    found: list[tuple[int | None, int | None, int | None, int]]
    if facts.cards:
        found = [
            (card.npu_id, card.chip_id, card.phy_id, logic)
            for card, logic in zip(facts.cards, logic_ids(facts.cards), strict=True)
        ]
    else:
        nodes = [node for node in facts.nodes if node.path.startswith("/dev/davinci")]
        numbers = sorted(node.number for node in nodes if node.number is not None)
        found = [(None, None, phy, logic) for logic, phy in enumerate(numbers)]
    visible = read_visibility(facts.environ, [logic for *_, logic in found])
    rows = [Ids(*ids, process=visible.index_of(ids[-1])) for ids in found]
    return tuple(sorted(rows, key=lambda row: row.logic_id or 0))


def logic_ids(cards: tuple[Card, ...]) -> list[int]:
    """The logic id of each card, printed or counted."""
    printed = [card.logic_id for card in cards]
    if all(logic is not None for logic in printed):
        return [logic for logic in printed if logic is not None]
    order = sorted(
        range(len(cards)),
        key=lambda i: (cards[i].phy_id is None, cards[i].phy_id or 0, i),
    )
    return [order.index(i) for i in range(len(cards))]
