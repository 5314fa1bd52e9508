"""Lists of FlagGems' function names, held against the functions that it registers.

FlagGems leaves an implementation out where the `__name__` of its Python function stands in the
list: no alias, no pattern, no overload (`runtime/op_registrar.py`, `config_filter`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from jumar.operators.policy.lint.base import Finding
from jumar.operators.policy.located import Text, line_of

if TYPE_CHECKING:
    from jumar.operators.catalogue.base import Catalogue, Implementation, KnownBy

PROVIDER = "flag_gems"

CALLED: Mapping[KnownBy, str] = {
    "run": "torch then makes it of {}, which FlagGems computes",
    "decomposition": "some backends then make it of {}, which FlagGems computes",
}
_TYPING_ERROR = 0.8
"""Likeness (difflib's) from which a name is taken for another one with a typing error."""

DEVICE_KEY = "PrivateUse1"
"""torch's dispatch key of an NPU's own kernels."""

COPIES = ("aten::_to_copy", "aten::copy_", "aten::empty_permuted", "aten::resize_",
          "aten::scalar_tensor")  # fmt: skip
"""Operators that everything calls, and that compute nothing."""


@dataclass(frozen=True)
class NameList:
    """One list of a file. `covers` is false for a list of what stays on."""

    place: str
    entries: Sequence[Text]
    covers: bool = True
    vendor: str | None = None

    def finding(self, code: str, entry: str, message: str, nearest: Sequence[str] = (),
                fix: str = "") -> Finding:  # fmt: skip
        """A finding about one entry."""
        return Finding(
            code, self.place, line_of(entry), str(entry), message, tuple(map(str, nearest)), fix
        )


def check(names: NameList, catalogue: Catalogue) -> Iterator[Finding]:
    """Entries that are dead, stand twice, or do less than they seem to."""
    live = catalogue.functions(PROVIDER)
    yield from duplicates(names)
    once = {str(entry): entry for entry in reversed(names.entries)}
    once = dict(reversed(once.items()))
    yield from (dead(names, entry, catalogue) for name, entry in once.items() if name not in live)
    if not names.covers:
        return
    yield from _partial(names, once, catalogue)
    yield from _reentering(names, once, catalogue)
    off = catalogue.unused.get(PROVIDER, {}).get(names.vendor or "", ())
    for name, entry in once.items():
        if name in off and name in live:
            message = f"FlagGems leaves it out on {names.vendor} by itself"
            yield names.finding("already-off", entry, message)


def duplicates(names: NameList) -> Iterator[Finding]:
    """Entries that stood before."""
    first: dict[str, Text] = {}
    for entry in names.entries:
        if str(entry) in first:
            message = f"stands in line {line_of(first[entry])} already"
            yield names.finding("duplicate", entry, message)
        first.setdefault(str(entry), entry)


def dead(names: NameList, entry: str, catalogue: Catalogue) -> Finding:
    """An entry that is no function's name: what was meant, as far as names can tell."""
    exact = catalogue.named(entry).operators
    known = exact if entry.endswith("_") else catalogue.family(entry)
    known = known or catalogue.family(entry.strip("_"))
    found = catalogue.implementing([one.name for one in known], PROVIDER)
    if meant := sorted({one.function for one in found} - {""}):
        message = "is an operator's name; FlagGems' lists match the names of its functions"
        return names.finding("dead-entry", entry, message, meant, f"write {', '.join(meant)}")
    nearest = catalogue.nearest(entry, provider=PROVIDER)
    if known:
        message = "FlagGems has no implementation of that operator: nothing is switched off"
        return names.finding("dead-entry", entry, message, nearest, "remove it")
    message = "is no function that FlagGems registers"
    typed = get_close_matches(entry, nearest, n=1, cutoff=_TYPING_ERROR)
    fix = f"write {typed[0]}, or remove it" if typed else "remove it"
    return names.finding("dead-entry", entry, message, nearest, fix)


def _partial(names: NameList, once: dict[str, Text], catalogue: Catalogue) -> Iterator[Finding]:
    """For each family, at its first entry: the functions that are not in the list."""
    live = catalogue.functions(PROVIDER)
    told: set[str] = set()
    for name, entry in once.items():
        operators = [catalogue.operators.get(one.operator) for one in live.get(name, ())]
        families = {one.family for one in operators if one is not None} - told
        told |= families
        members = [one.name for family in families for one in catalogue.family(family)]
        left = [
            one for one in catalogue.implementing(members, PROVIDER) if one.function not in once
        ]
        if left:
            functions = sorted({one.function for one in left})
            message = f"FlagGems goes on computing {_listed(left)}"
            fix = f"add {', '.join(functions)}"
            yield names.finding("partial-cover", entry, message, functions, fix)


def _reentering(names: NameList, once: dict[str, Text], catalogue: Catalogue) -> Iterator[Finding]:
    """Entries whose other implementation calls operators that FlagGems still computes."""
    live = catalogue.functions(PROVIDER)
    operators = {name: sorted({one.operator for one in live.get(name, ())}) for name in once}
    known = catalogue.with_reentries(one for many in operators.values() for one in many)
    for name, entry in once.items():
        for how, left in still_called(operators[name], lambda one: one.function in once, known):
            functions = sorted({one.function for one in left})
            yield replace(
                names.finding("re-enters", entry, CALLED[how].format(_listed(left)), functions,
                              f"add {', '.join(functions)}"),
                severity_here="warning" if how == "run" else "note",
            )  # fmt: skip


def still_called(
    operators: Sequence[str], off: Callable[[Implementation], bool], catalogue: Catalogue
) -> Iterator[tuple[KnownBy, tuple[Implementation, ...]]]:
    """FlagGems' implementations that are on, of operators that these are made of without it.

    A backend's own kernel is made of nothing that the dispatcher sees.
    """
    here = catalogue.operators
    operators = [one for one in operators if one in here and DEVICE_KEY not in here[one].keys]
    told: set[str] = set()
    for how in CALLED:
        called = {
            one.operator
            for operator in operators
            for one in catalogue.reentries.get(operator) or ()
            if one.known_by == how and not _moves_only(one.operator, catalogue)
        }
        computed = catalogue.implementing(sorted(called - told - {*operators}), PROVIDER)
        told |= called
        if left := tuple(one for one in computed if not off(one)):
            yield how, left


def _moves_only(name: str, catalogue: Catalogue) -> bool:
    """Whether an operator computes nothing: it gives a view, or copies."""
    operator = catalogue.operators.get(name)
    results = operator.schema.rpartition("->")[2] if operator is not None else ""
    return name in COPIES or ("(a" in results and "!" not in results)


def _listed(found: Sequence[Implementation]) -> str:
    return ", ".join(sorted({one.operator for one in found}))
