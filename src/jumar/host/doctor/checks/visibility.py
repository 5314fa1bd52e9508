"""Which cards this process will see, and by which numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jumar.contracts.errors import nearest
from jumar.host.doctor.checks.common import check, inside, numbers
from jumar.host.doctor.ids import id_map, logic_ids
from jumar.host.product import card_nodes, has_npu
from jumar.host.visibility import CONTAINER_VARIABLE, VARIABLE, Problem, read_visibility

if TYPE_CHECKING:
    from jumar.host.doctor.base import Values
    from jumar.host.facts import Card, HostFacts

POSTED = "NPU_VISIBLE_DEVICES"
"""Appears in posted commands; no reader of it is known."""
BUSY_SHARE = 0.5
"""A first card with less than half of its memory free, while another has more, is a bad choice."""


def problems(facts: HostFacts, kind: str) -> Iterator[Problem]:
    """What is wrong with the variable here, of one kind."""
    seen = read_visibility(facts.environ, known_ids(facts))
    return (problem for problem in seen.problems if problem.kind == kind)


def known_ids(facts: HostFacts) -> list[int] | None:
    """The logic ids that exist here, or None where no chip was seen."""
    # Nodes before cards: npu-smi of a privileged container lists cards that it was not given.
    count = len(card_nodes(facts)) or len(facts.cards)
    return list(range(count)) if count else None


def shown(facts: HostFacts) -> dict[str, object]:
    """The value, and what the list should have said: its ids once each, ascending, known here."""
    value = facts.environ.get(VARIABLE, "")
    known = known_ids(facts)
    digits = "".join(sign if sign.isdecimal() else " " for sign in value)
    asked = sorted({int(part) for part in digits.split()})
    meant = [one for one in asked if known is None or one in known] or (known or [0])[:1]
    return {"value": value, "meant": ",".join(map(str, meant))}


@check("visible-misspelt")
def visible_misspelt(facts: HostFacts) -> Iterator[Values]:
    for problem in problems(facts, "misspelt-name"):
        if problem.text != POSTED:
            meant = nearest(problem.text, (VARIABLE, CONTAINER_VARIABLE), limit=1)
            yield {
                "name": problem.text,
                "value": facts.environ[problem.text],
                "meant": next(iter(meant), VARIABLE),
            }


@check("visible-no-effect")
def visible_no_effect(facts: HostFacts) -> Iterator[Values]:
    if POSTED in facts.environ:
        yield {"value": facts.environ[POSTED]}


@check("visible-empty")
def visible_empty(facts: HostFacts) -> Iterator[Values]:
    for _ in problems(facts, "empty"):
        yield {"value": facts.environ.get(VARIABLE, "")}


@check("visible-blank")
def visible_blank(facts: HostFacts) -> Iterator[Values]:
    value = facts.environ.get(VARIABLE, "")
    for problem in problems(facts, "blank") if value.strip() else ():
        yield {**shown(facts), "effective": value.removesuffix(problem.text)}


@check("visible-bad-entry")
def visible_bad_entry(facts: HostFacts) -> Iterator[Values]:
    for problem in problems(facts, "not-a-number"):
        yield {**shown(facts), "entry": problem.text}
    value = facts.environ.get(VARIABLE, "")
    if value.strip() and "" in value.split(","):
        yield {**shown(facts), "entry": ""}


@check("visible-duplicate")
def visible_duplicate(facts: HostFacts) -> Iterator[Values]:
    for _ in problems(facts, "repeated"):
        parts = facts.environ[VARIABLE].split(",")
        twice = [part for part in dict.fromkeys(parts) if parts.count(part) > 1]
        yield {**shown(facts), "entry": ", ".join(twice)}


@check("visible-not-ascending")
def visible_not_ascending(facts: HostFacts) -> Iterator[Values]:
    for _ in problems(facts, "not-ascending"):
        yield shown(facts)


@check("visible-unknown-id")
def visible_unknown_id(facts: HostFacts) -> Iterator[Values]:
    known = known_ids(facts)
    for problem in problems(facts, "unknown-id") if known else ():
        yield {
            **shown(facts),
            "entry": problem.text,
            "last": len(known or ()) - 1,
            "where": "of this container" if inside(facts) else "of this machine",
            "where_zh": "本容器" if inside(facts) else "本机",
        }


@check("container-variable-on-host")
def container_variable_on_host(facts: HostFacts) -> Iterator[Values]:
    value = facts.environ.get(CONTAINER_VARIABLE)
    if value and facts.container.inside is False:
        yield {"value": value}


@check("default-card-busy")
def default_card_busy(facts: HostFacts) -> Iterator[Values]:
    if VARIABLE not in facts.environ:
        yield from busy_first_card(facts)


@check("chosen-card-busy")
def chosen_card_busy(facts: HostFacts) -> Iterator[Values]:
    if VARIABLE in facts.environ:
        for values in busy_first_card(facts):
            yield {**values, "value": facts.environ[VARIABLE]}


def busy_first_card(facts: HostFacts) -> Iterator[Values]:
    """Evidence where npu:0 of this process is crowded and another card is not."""
    rooms = {
        logic: (card, card.memory.free, card.memory.total)
        for logic, card in zip(logic_ids(facts.cards), facts.cards, strict=True)
        if card.memory is not None and card.memory.free is not None and card.memory.total
    }
    mine = next((row.logic_id for row in id_map(facts) if row.process == 0), None)
    if mine not in rooms or mine is None:
        return
    card, free, total = rooms[mine]
    best = max(rooms, key=lambda logic: rooms[logic][1] or 0)
    roomy: Card = rooms[best][0]
    if best != mine and total and (free or 0) < total * BUSY_SHARE < (rooms[best][1] or 0):
        yield {
            **numbers(card),
            "free": free,
            "total": total,
            "best": roomy.npu_id,
            "best_free": rooms[best][1],
            "best_logic": best,
        }


@check("id-spaces-differ")
def id_spaces_differ(facts: HostFacts) -> Iterator[Values]:
    if not has_npu(facts):
        return
    for card, logic in zip(facts.cards, logic_ids(facts.cards), strict=True):
        spaces = {card.npu_id, card.phy_id if card.phy_id is not None else card.npu_id, logic}
        if len(spaces) > 1:
            yield {**numbers(card), "logic": logic}
