"""A layer of Jumar's policy as text of each format, with what the format cannot say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jumar.operators.policy.base import EVERYTHING, KEYS, REFERENCE, Layer, Rule
from jumar.operators.policy.decide import names_of
from jumar.operators.policy.peers.vllm_plugin_fl import facts

if TYPE_CHECKING:
    from jumar.operators.catalogue.base import Catalogue

PROVIDER = "flag_gems"
WORDS = {PROVIDER: "flagos", "torch_npu": "vendor", "device": "vendor", REFERENCE: "reference"}
"""Providers, as the plugin's words in an order."""

Writer = Callable[[Layer, "Catalogue"], "tuple[str, list[str]]"]
Names = dict[str, str]
"""FlagGems' function names with the comment that belongs to each."""


def jumar(layer: Layer, catalogue: Catalogue) -> tuple[str, list[str]]:
    """Jumar's own YAML; it can say all that a layer holds."""
    import yaml

    data: dict[str, Any] = {} if layer.strict is None else {"strict": layer.strict.on}
    for key in KEYS:
        if entries := [_entry(rule) for rule in layer.rules if rule.key == key]:
            data[key] = entries
    return yaml.safe_dump(data, sort_keys=False, width=100, allow_unicode=True), []


def vllm_plugin_fl(layer: Layer, catalogue: Catalogue) -> tuple[str, list[str]]:
    """The plugin's YAML: orders of its layer operators, and a list of FlagGems' functions."""
    lost: list[str] = []
    order: dict[str, list[str]] = {}
    prefer = "flagos"
    for rule in layer.rules:
        if rule.key == "order" and rule.breadth == EVERYTHING:
            prefer = WORDS.get(rule.providers[0], prefer)
        elif rule.key != "deny":
            order |= _layer_orders(rule, catalogue, lost)
    for name in _layers_without(layer, catalogue, lost):
        order[name] = [one for one in order.get(name, ["vendor", "reference"]) if one != "flagos"]
    lines = [f"prefer: {prefer}"]
    if order:
        lines += ["op_backends:", *(f"  {op}: [{', '.join(o)}]" for op, o in order.items())]
    if names := _functions(layer, catalogue, lost):
        lines += ["flagos_blacklist:", *(f"  - {name}{_comment(names[name])}" for name in names)]
    if layer.strict is not None and layer.strict.on:
        lost.append(f"{layer.strict.origin}: strict: the plugin reads VLLM_FL_STRICT only")
    return "\n".join(lines) + "\n", lost


def flag_gems(layer: Layer, catalogue: Catalogue) -> tuple[str, list[str]]:
    """A call of `flag_gems.enable`, which every version of FlagGems takes."""
    lost = [
        f"{rule.origin}: {rule}"
        for rule in layer.rules
        if rule.key != "deny" or PROVIDER not in rule.providers
    ]
    lost += [
        f"layer operator {name}: FlagGems' list holds torch's operators only"
        for name in _layers_without(layer, catalogue, [])
    ]
    names = _functions(layer, catalogue, lost)
    entries = "".join(f'        "{name}",{_comment(names[name])}\n' for name in names)
    call = f"flag_gems.enable(\n    unused=[\n{entries}    ]\n)\n"
    return f"import flag_gems\n\n{call}", lost


WRITERS: Mapping[str, Writer] = {
    "jumar": jumar,
    "vllm-plugin-fl": vllm_plugin_fl,
    "flag-gems": flag_gems,
}


def _entry(rule: Rule) -> dict[str, Any]:
    said = {
        "operators": [str(one) for one in rule.operators],
        "families": [str(one) for one in rule.families],
        "providers": [str(one) for one in rule.providers],
        "when": {str(one.name): str(one.text) for one in rule.when},
        "because": rule.because,
        "source": [str(one) for one in rule.sources],
    }
    return {key: value for key, value in said.items() if value}


def _functions(layer: Layer, catalogue: Catalogue, lost: list[str]) -> Names:
    """What to write so that FlagGems leaves out all that is denied to it; told where it is more."""
    found: Names = {}
    denials = list(_denials(layer, catalogue, lost))
    off = {name for _, names in denials for name in names}
    live = catalogue.functions(PROVIDER)
    for rule, names in denials:
        implementing = catalogue.implementing(names, PROVIDER)
        functions = sorted({one.function for one in implementing} - {""})
        dispatched = [name for name in names if catalogue.operators[name].kind != "layer"]
        if dispatched and not functions:
            lost.append(f"{rule.origin}: FlagGems has no implementation of {rule.subject}")
        if functions and rule.when:
            when = ", ".join(map(str, rule.when))
            lost.append(f"{rule.origin}: {rule.subject}: only for {when}; here always")
        for function in functions:
            if more := sorted({one.operator for one in live[function]} - off):
                lost.append(f"{rule.origin}: {function} takes {', '.join(more)} along")
            found.setdefault(function, rule.because or str(rule.origin))
    return found


def _denials(
    layer: Layer, catalogue: Catalogue, lost: list[str]
) -> Iterator[tuple[Rule, frozenset[str]]]:
    for rule in layer.rules:
        if rule.key == "deny" and PROVIDER in rule.providers:
            names = names_of(rule, catalogue, rule.providers)
            yield rule, frozenset(catalogue.operators) if names is None else names
        others = [one for one in rule.providers if one != PROVIDER]
        if rule.key == "deny" and others:
            lost.append(f"{rule.origin}: {', '.join(others)} must not compute {rule.subject}")


def _layers_without(layer: Layer, catalogue: Catalogue, lost: list[str]) -> list[str]:
    """The layer operators that FlagGems must not compute."""
    denied = {name for _, names in _denials(layer, catalogue, []) for name in names}
    layers = sorted(name for name in denied if catalogue.operators[name].kind == "layer")
    lost += [f"{name}: the plugin has no such operator" for name in layers if not _known(name)]
    return [name for name in layers if _known(name)]


def _layer_orders(rule: Rule, catalogue: Catalogue, lost: list[str]) -> dict[str, list[str]]:
    """An order or a requirement, for those of its operators that the plugin dispatches."""
    order = list(dict.fromkeys(WORDS[one] for one in rule.providers if one in WORDS))
    names = names_of(rule, catalogue, rule.providers) or ()
    if not order or not all(_known(name) for name in names) or rule.breadth == EVERYTHING:
        lost.append(f"{rule.origin}: {rule}")
    elif rule.when:
        lost.append(f"{rule.origin}: {rule}: only for {', '.join(map(str, rule.when))}")
    return {name: order for name in sorted(names) if order and _known(name)}


def _known(name: str) -> bool:
    return name in facts().layers


def _comment(because: str) -> str:
    return f"  # {because}" if because else ""
