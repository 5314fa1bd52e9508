"""vllm-plugin-FL's YAML: every key, token and name held against what its code does with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jumar.contracts.errors import nearest
from jumar.operators.policy.lint import names
from jumar.operators.policy.lint.base import Finding
from jumar.operators.policy.lint.names import PROVIDER, NameList
from jumar.operators.policy.located import line_of
from jumar.operators.policy.peers.vllm_plugin_fl import Config, facts

if TYPE_CHECKING:
    from jumar.operators.catalogue.base import Catalogue


def check(config: Config, catalogue: Catalogue) -> Iterator[Finding]:
    """Everything, in the order of the file's parts."""
    yield from _keys(config)
    yield from _values(config)
    yield from _orders(config)
    yield from _blacklist(config, catalogue)
    yield from _whitelist(config, catalogue)
    yield from _layer_classes(config, catalogue)
    yield from _vendors(config)


def _keys(config: Config) -> Iterator[Finding]:
    known = facts()
    for key in config.keys:
        if key in known.unread and not (key == "strict" and config.values.get(key) == "false"):
            row = known.unread[key]
            fix = f"write {row['instead']}"
            yield _finding(config, "unread-key", key, row["says"], fix=fix)
        elif key not in known.read and key not in known.unread:
            close = nearest(key, known.read)
            yield _finding(config, "unknown-key", key, "is read by nothing", close)
    if config.lists.get("flagos_whitelist") and config.lists.get("flagos_blacklist"):
        key = next(one for one in config.keys if one == "flagos_blacklist")
        message = "flagos_whitelist makes the plugin forget this list"
        yield _finding(config, "both-lists", key, message, fix="keep one of them")


def _values(config: Config) -> Iterator[Finding]:
    prefer = config.values.get("prefer")
    if prefer is not None and prefer not in facts().prefer:
        message = "is no preference: the plugin takes flagos, and says nothing"
        close = nearest(prefer, facts().prefer)
        yield _finding(config, "unknown-key", prefer, message, close)


def _orders(config: Config) -> Iterator[Finding]:
    off = set(config.lists.get("flagos_blacklist", ()))
    for operator, tokens in config.order.items():
        if operator not in facts().layers:
            close = nearest(operator, facts().layers)
            message = "is no operator of the plugin's dispatcher"
            yield _finding(config, "dead-entry", operator, message, close)
        for token in tokens:
            if token not in facts().every_token and not token.startswith("impl:"):
                message = f"matches no implementation of {operator}, without a word"
                close = nearest(token, facts().every_token)
                yield _finding(config, "unknown-token", token, message, close,
                               f"write {close[0]}" if close else "")  # fmt: skip
        if "flagos" in tokens and operator in off:
            message = "flagos stands in its order, and flagos_blacklist keeps it unregistered"
            yield _finding(config, "contradiction", operator, message)
        if "reference" not in tokens:
            message = "an order is exclusive: the reference is never tried"
            yield Finding(
                "no-fallback", config.place, line_of(operator), str(operator), message,
                fix="add reference", severity_here="warning",
            )  # fmt: skip


def _blacklist(config: Config, catalogue: Catalogue) -> Iterator[Finding]:
    listed = config.lists.get("flagos_blacklist", ())
    layers = [one for one in listed if _is_layer(one, catalogue)]
    for entry in layers:
        message = (
            "is an operator of whole layers, no function of FlagGems' registrar; here it takes"
            " away the layer's flagos implementation"
        )
        yield _finding(config, "wrong-list", entry, message, fix="leave flagos out of its order"
                       " in op_backends")  # fmt: skip
    others = [one for one in listed if one in facts().other_layers]
    for entry in others:
        message = "flagos has no implementation of that layer operator: nothing is switched off"
        yield _finding(config, "dead-entry", entry, message, fix="remove it")
    aten = [one for one in listed if one not in (*layers, *others)]
    yield from names.check(NameList(config.place, aten, vendor=_vendor(config)), catalogue)


def _whitelist(config: Config, catalogue: Catalogue) -> Iterator[Finding]:
    listed = config.lists.get("flagos_whitelist", ())
    aten = [one for one in listed if not _is_layer(one, catalogue)]
    yield from names.check(NameList(config.place, aten, covers=False), catalogue)


def _layer_classes(config: Config, catalogue: Catalogue) -> Iterator[Finding]:
    listed = config.lists.get("oot_blacklist", ())
    yield from names.duplicates(NameList(config.place, listed))
    for entry in listed:
        if entry in facts().oot:
            continue
        close = nearest(entry, facts().oot)
        if catalogue.named(entry):
            message = "is an operator's name; oot_blacklist holds vLLM's layer classes"
            fix = "write it into flagos_blacklist"
            if entry in config.lists.get("flagos_blacklist", ()):
                fix = "remove it: it stands in flagos_blacklist too"
            yield _finding(config, "wrong-list", entry, message, fix=fix)
        else:
            message = "is no layer class that the plugin replaces"
            yield _finding(config, "dead-entry", entry, message, close)


def _vendors(config: Config) -> Iterator[Finding]:
    for key in ("allow_vendors", "deny_vendors"):
        for entry in config.lists.get(key, ()):
            if entry not in facts().vendors:
                close = nearest(entry, facts().vendors)
                yield _finding(config, "dead-entry", entry, "is no vendor of the plugin's", close)


def _is_layer(entry: str, catalogue: Catalogue) -> bool:
    return entry in facts().flagos_layers and entry not in catalogue.functions(PROVIDER)


def _vendor(config: Config) -> str | None:
    """The vendor whose file it is, by its name: `ascend.yaml`."""
    stem = config.place.rpartition(".")[0]
    return stem if stem in facts().vendors else None


def _finding(
    config: Config, code: str, entry: str, message: str,
    close: list[str] | tuple[str, ...] = (), fix: str = "",
) -> Finding:  # fmt: skip
    return NameList(config.place, ()).finding(code, entry, message, close, fix)
