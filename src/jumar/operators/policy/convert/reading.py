"""Files of others as a layer of Jumar's policy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from jumar.operators.policy.base import REFERENCE, Layer, Origin, Rule, Strict
from jumar.operators.policy.located import Text, line_of
from jumar.operators.policy.peers import Config, Listing

if TYPE_CHECKING:
    from jumar.operators.catalogue.base import Catalogue

TOKENS = {
    "flagos": "flag_gems",
    "vendor": "torch_npu",
    "vendor:ascend": "torch_npu",
    "reference": REFERENCE,
}
"""The plugin's words in an order, as providers."""

PREFERENCES = {
    "flagos": ("flag_gems", "torch_npu", "device", REFERENCE),
    "vendor": ("torch_npu", "device", "flag_gems", REFERENCE),
    "reference": (REFERENCE, "flag_gems", "torch_npu", "device"),
}
"""The order of each `prefer` (`SelectionPolicy.get_default_order`); torch's own kernels, which the
plugin's dispatcher does not list, stand beside the vendor's."""


def as_layer(
    found: Layer | Config | Sequence[Listing], catalogue: Catalogue
) -> tuple[Layer, list[str]]:
    """The rules that say the same, and what none can say."""
    if isinstance(found, Layer):
        return found, []
    if isinstance(found, Config):
        return _config(found, catalogue)
    rules: list[Rule] = []
    lost: list[str] = []
    for listing in found:
        where = Origin(listing.place, listing.line)
        if listing.unread:
            lost.append(f"{where}: {listing.unread}")
        elif listing.kind == "include":
            said = "only these are taken in; Jumar names what is off"
            lost.append(f"{where}: {', '.join(listing.entries)}: {said}")
        else:
            _denials(listing.entries, listing.place, catalogue, rules, lost)
    return Layer(found[0].place if found else "", tuple(rules)), lost


def _config(config: Config, catalogue: Catalogue) -> tuple[Layer, list[str]]:
    rules: list[Rule] = []
    lost: list[str] = []
    if (prefer := config.values.get("prefer")) is not None:
        origin = Origin(config.place, line_of(prefer))
        if prefer in PREFERENCES:
            rules.append(Rule("order", PREFERENCES[prefer], origin=origin))
        else:
            lost.append(f"{origin}: prefer: {prefer}")
    for operator, tokens in config.order.items():
        _order(operator, tokens, config.place, catalogue, rules, lost)
    for entry in config.lists.get("flagos_whitelist", ()):
        lost.append(f"{config.place}:{line_of(entry)}: flagos_whitelist: {entry}")
    _denials(config.lists.get("flagos_blacklist", ()), config.place, catalogue, rules, lost)
    for key in ("oot_blacklist", "allow_vendors", "deny_vendors"):
        for entry in config.lists.get(key, ()):
            lost.append(f"{config.place}:{line_of(entry)}: {key}: {entry}")
    strict = config.values.get("strict")
    said = strict and Strict(strict == "true", Origin(config.place, line_of(strict)))
    return Layer(config.place, tuple(rules), said or None), lost


def _order(
    operator: str,
    tokens: Iterable[Text],
    place: str,
    catalogue: Catalogue,
    rules: list[Rule],
    lost: list[str],
) -> None:
    origin = Origin(place, line_of(operator))
    providers = []
    for token in tokens:
        if token in TOKENS:
            providers.append(TOKENS[token])
        else:
            lost.append(f"{place}:{line_of(token)}: {token} in the order of {operator}")
    if operator not in catalogue.operators:
        lost.append(f"{origin}: the order of {operator}: no such operator is known here")
    elif providers:
        if REFERENCE not in providers:
            lost.append(f"{origin}: the reference is never tried for {operator}; here it is last")
        order = tuple(dict.fromkeys([*providers, REFERENCE]))
        rules.append(Rule("order", order, (str(operator),), origin=origin))


def _denials(
    entries: Iterable[Text],
    place: str,
    catalogue: Catalogue,
    rules: list[Rule],
    lost: list[str],
) -> None:
    """Each function as the operators that it implements; a layer operator as itself."""
    live = catalogue.functions("flag_gems")
    for entry in entries:
        origin = Origin(place, line_of(entry))
        operators = tuple(sorted({one.operator for one in live.get(entry, ())}))
        if not operators and entry in catalogue.operators:
            operators = (str(entry),)
        if not operators:
            lost.append(f"{origin}: {entry}: no function that FlagGems registers")
            continue
        because = f"{entry} stands in {place}:{origin.line}"
        rules.append(Rule("deny", ("flag_gems",), operators, because=because, origin=origin))
