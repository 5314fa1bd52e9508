"""What this chip is, and what it cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jumar.host.doctor.checks.common import check, numbers, python
from jumar.host.product import product_line, product_name

if TYPE_CHECKING:
    from jumar.host.doctor.base import Values
    from jumar.host.facts import HostFacts

NO_BF16, HAS_BF16 = {"910", "310p"}, {"910b", "a3", "950"}
"""Product lines by what is known of them; of the 310B nothing is."""


def kind(facts: HostFacts) -> dict[str, object]:
    """The chip and its generation, from the first card that is known."""
    known = [card.soc for card in facts.cards if card.soc is not None]
    return {"chip": product_name(facts), "generation": known[0].generation if known else "?"}


@check("chip-unknown")
def chip_unknown(facts: HostFacts) -> Iterator[Values]:
    for card in facts.cards:
        if card.soc is None:
            yield numbers(card)


@check("chip-without-bf16")
def chip_without_bf16(facts: HostFacts) -> Iterator[Values]:
    if product_line(facts) in NO_BF16:
        yield kind(facts)


@check("bf16-default")
def bf16_default(facts: HostFacts) -> Iterator[Values]:
    if product_line(facts) in HAS_BF16:
        yield kind(facts)


@check("not-a-910b")
def not_a_910b(facts: HostFacts) -> Iterator[Values]:
    for card in facts.cards:
        if card.soc is not None and card.soc.variant == "910" and "B" in card.soc.name:
            yield {**numbers(card), "generation": card.soc.generation}


@check("triton-on-310p")
def triton_on_310p(facts: HostFacts) -> Iterator[Values]:
    version = facts.python.version_of("triton-ascend")
    if version and product_line(facts) == "310p":
        yield {"version": version, "chip": product_name(facts), "python": python(facts)}


@check("pooling-on-310p")
def pooling_on_310p(facts: HostFacts) -> Iterator[Values]:
    if product_line(facts) == "310p":
        yield {"chip": product_name(facts)}


@check("compile-on-310p")
def compile_on_310p(facts: HostFacts) -> Iterator[Values]:
    if product_line(facts) == "310p":
        yield {"chip": product_name(facts)}
