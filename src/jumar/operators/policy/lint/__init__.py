"""Lint: does each line of a policy or a peer's list do what its writer thinks?

Every name is looked up in a catalogue, that is, in what some version of the libraries really
registers; which one is part of the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.contracts.errors import DependencyMissing, InvalidRequest
from jumar.operators.catalogue.record import shipped
from jumar.operators.policy.base import Layer
from jumar.operators.policy.layers import with_layers
from jumar.operators.policy.lint import configs, names, policies
from jumar.operators.policy.lint.base import CODES, Finding, Severity
from jumar.operators.policy.peers import Config, Listing, open_file

if TYPE_CHECKING:
    from jumar.operators.catalogue.base import Catalogue

__all__ = ["CODES", "Finding", "Severity", "lint"]


def lint(path: Path, catalogue: Catalogue) -> list[Finding]:
    """The findings of one file, by line; a file that cannot be read is one finding.

    Raises:
        DependencyMissing: a list of FlagGems' names, and a catalogue that knows none.
    """
    try:
        found = open_file(path)
    except InvalidRequest as error:
        message = f"{error.message} {error.hint or ''}".strip()
        return [Finding("not-read", path.name, 0, path.name, message)]
    if not isinstance(found, Layer) and not catalogue.functions(names.PROVIDER):
        raise DependencyMissing(
            f"{path.name} lists FlagGems' names, and this catalogue knows nothing of FlagGems.",
            hint=f"Add one that does: --catalogue live --catalogue {_recorded()}",
        )
    known = with_layers(catalogue, usable_only=False)
    return sorted(_check(found, known), key=lambda one: (one.line, one.code))


def _recorded() -> str:
    return next(name for name in sorted(shipped(), reverse=True) if name.startswith(names.PROVIDER))


def _check(found: Layer | Config | Sequence[Listing], catalogue: Catalogue) -> Iterator[Finding]:
    if isinstance(found, Layer):
        yield from policies.check(found, catalogue)
    elif isinstance(found, Config):
        yield from configs.check(found, catalogue)
    else:
        yield from _listings(found, catalogue)


def _listings(found: Sequence[Listing], catalogue: Catalogue) -> Iterator[Finding]:
    for listing in found:
        if listing.unread:
            yield Finding("not-read", listing.place, listing.line, listing.kind, listing.unread)
        covers = listing.kind == "exclude"
        given = names.NameList(listing.place, listing.entries, covers=covers)
        yield from names.check(given, catalogue)
    kinds = {listing.kind for listing in found if listing.entries}
    if len(kinds) == 2:
        last = found[-1]
        message = "names are listed to leave out and to take in: each call takes one of the two"
        yield Finding("both-lists", last.place, last.line, "include, exclude", message)
