"""What the installed libraries call operators, and who implements them.

Three kinds of names are easily taken for each other:

    aten::add.Tensor     an overload, as torch's dispatcher knows it
    add                  its base name, and by chance a function of FlagGems that implements it
    silu_and_mul         a layer operator: no dispatcher knows it

A `Catalogue` maps them onto each other. Each source (torch, FlagGems, torch_npu, vLLM) gives one of
what it knows, and `merged` joins them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeVar

from jumar.contracts.errors import InvalidInput, InvalidValue, did_you_mean
from jumar.contracts.errors import nearest as nearest_names

Item = TypeVar("Item")

Kind = Literal["aten", "library", "layer", "ir"]
"""`aten`: torch's own; `library`: another namespace of its dispatcher (`npu::`); `layer`: an
operator of whole layers; `ir`: vLLM's intermediate representation."""

_KINDS: dict[str, Kind] = {"aten": "aten", "vllm_ir": "ir"}

KnownBy = Literal["run", "decomposition"]
"""`run`: seen while it ran on the CPU; `decomposition`: torch's Python decomposition of it, which
compilers and some backends use in place of a kernel."""

BACKEND_RULE = (
    "CompositeExplicitAutogradNonFunctional",
    "CompositeExplicitAutograd",
    "CompositeImplicitAutograd",
)
"""What the dispatcher takes for a backend without a kernel of its own, in its order
(`OperatorEntry::computeDispatchTableEntryWithDebug`)."""


@dataclass(frozen=True)
class Operator:
    """One operator. `keys` are the dispatch keys that a kernel is registered for.

    `family` is the name without in-place sign, dunder and overload: `add.Tensor`, `add_.Scalar` and
    `add.out` are of one family. `schema` is empty where the source does not tell it.
    """

    name: str
    family: str
    keys: tuple[str, ...] = ()
    schema: str = ""

    @property
    def kind(self) -> Kind:
        """As the name tells it."""
        namespace, separator, _ = self.name.partition("::")
        if not separator:
            return "layer"
        return _KINDS.get(namespace, "library")

    @property
    def composite(self) -> bool:
        """True where torch decomposes it into others on every backend without an own kernel."""
        return "CompositeImplicitAutograd" in self.keys

    @property
    def base(self) -> str:
        """The name without namespace and overload: `add_` of `aten::add_.Tensor`."""
        return self.name.rpartition("::")[2].partition(".")[0]

    def kernel_for(self, key: str) -> str | None:
        """The dispatch key whose kernel a backend gets; None where it has none (but a fallback).

        >>> relu6 = Operator("aten::relu6", "relu6", ("CompositeImplicitAutograd",))
        >>> relu6.kernel_for("PrivateUse1")
        'CompositeImplicitAutograd'
        """
        return next((one for one in (key, *BACKEND_RULE) if one in self.keys), None)


@dataclass(frozen=True, order=True)
class Implementation:
    """A provider's function for an operator.

    `function` is the name by which the provider's own lists mean it, for FlagGems the Python
    function's `__name__`; empty where the provider has no such names. `key` is the dispatch key it
    is registered for, `layer` or `ir` where the dispatcher does not know it. `origin` is the place
    in a library's source. `condition` is the Python expression that the registration depends on.
    """

    operator: str
    provider: str
    function: str
    key: str
    origin: str
    condition: str = ""


@dataclass(frozen=True)
class Reentry:
    """An operator that another one calls through the dispatcher, and how that is known."""

    operator: str
    known_by: KnownBy


@dataclass(frozen=True)
class Named:
    """All that one name may mean."""

    name: str
    operators: tuple[Operator, ...]
    functions: tuple[Implementation, ...]

    def __bool__(self) -> bool:
        return bool(self.operators or self.functions)


@dataclass(frozen=True)
class Catalogue:
    """The operators and implementations of one environment, with the versions they come from.

    `unused` holds, by provider and vendor, the functions that the provider itself leaves out there.
    `reentries` holds what is known of calls between operators, None where nothing could be found
    out; `reenters` looks for more. `live` is true of the environment of this process.
    """

    versions: Mapping[str, str]
    operators: Mapping[str, Operator]
    implementations: tuple[Implementation, ...] = ()
    unused: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    reentries: Mapping[str, tuple[Reentry, ...] | None] = field(default_factory=dict)
    live: bool = False

    def operator(self, name: str) -> Operator:
        """The operator of that exact name; `aten::` may be left out.

        Raises:
            InvalidValue: there is none, or the name is a base name of several.
        """
        found = self.named(name).operators
        exact = {one.name: one for one in found}
        for full in (name, f"aten::{name}"):
            if full in exact:
                return exact[full]
        if len(found) == 1:
            return found[0]
        if found:
            hint = f"One of: {', '.join(one.name for one in found)}."
            raise InvalidValue(f"{name!r} has several overloads.", hint=hint, param="operator")
        raise self.unknown(name)

    def named(self, name: str) -> Named:
        """Everything that a name may mean: an overload, all of a base name, a function."""
        exact = self.operators.get(name if "::" in name else f"aten::{name}")
        if exact is not None and ("::" in name or "." in name):
            operators: tuple[Operator, ...] = (exact,)
        else:
            operators = self._by_base.get(name.removeprefix("aten::"), ())
        return Named(name, operators, self._by_function.get(name, ()))

    def family(self, name: str) -> tuple[Operator, ...]:
        """All operators of a family; of the family of an operator where one is named."""
        found = self._by_family.get(name, ())
        if not found and (known := self.named(name).operators):
            found = self._by_family[known[0].family]
        return found

    def implementing(
        self, operators: Iterable[str], provider: str | None = None
    ) -> tuple[Implementation, ...]:
        """The implementations of these operators, of one provider or of all."""
        found = [one for name in operators for one in self._by_operator.get(name, ())]
        return tuple(one for one in found if provider in (None, one.provider))

    def functions(self, provider: str) -> Mapping[str, tuple[Implementation, ...]]:
        """A provider's implementations by the function name that its own lists match."""
        own = [one for one in self.implementations if one.provider == provider and one.function]
        return _grouped(own, lambda one: one.function)

    @property
    def providers(self) -> tuple[str, ...]:
        """All providers, by name."""
        return tuple(sorted({one.provider for one in self.implementations}))

    @property
    def dangling(self) -> tuple[Implementation, ...]:
        """Implementations of operators that are not here: torch takes them and never calls them."""
        return tuple(one for one in self.implementations if one.operator not in self.operators)

    def nearest(self, name: str, *, provider: str | None = None, limit: int = 3) -> list[str]:
        """Live names that `name` may have meant: functions of a provider, else operators too."""
        return nearest_names(name, self._names(provider), limit=limit)

    def reenters(self, name: str) -> tuple[Reentry, ...] | None:
        """The operators that an operator's implementation calls through the dispatcher.

        As recorded; in a live catalogue else found out in a child that runs it (seconds: for many
        use `with_reentries`). None where that could not be found out.
        """
        operator = self.operator(name)
        known = self if operator.name in self.reentries else self.with_reentries([operator.name])
        return known.reentries.get(operator.name)

    def with_reentries(self, names: Iterable[str]) -> Catalogue:
        """This catalogue, with what these operators call found out as far as it is not known.

        Nothing can be found out in a catalogue that was recorded elsewhere: it stays as it is.
        """
        if not self.live:
            return self
        from jumar.operators.catalogue.reentry import find

        missing = [name for name in names if name not in self.reentries]
        return replace(self, reentries={**self.reentries, **find(missing)})

    def callers(self, name: str) -> tuple[str, ...]:
        """The operators that are known to call this one, at any level down."""
        return tuple(
            caller
            for caller, calls in self.reentries.items()
            if any(one.operator == name for one in calls or ())
        )

    def unknown(self, name: str, provider: str | None = None) -> InvalidValue:
        """The error for a name that means nothing here; its hint names the nearest."""
        whose = f" of {provider}" if provider else ""
        hint = did_you_mean(name, self._names(provider))
        return InvalidValue(f"There is no operator{whose} {name!r}.", hint=hint, param="operator")

    def _names(self, provider: str | None) -> set[str]:
        functions = {
            one.function
            for one in self.implementations
            if one.function and provider in (None, one.provider)
        }
        if provider is not None:
            return functions
        return {*functions, *self._by_base, *self.operators}

    @cached_property
    def _by_base(self) -> dict[str, tuple[Operator, ...]]:
        return _grouped(self.operators.values(), lambda one: one.base)

    @cached_property
    def _by_family(self) -> dict[str, tuple[Operator, ...]]:
        return _grouped(self.operators.values(), lambda one: one.family)

    @cached_property
    def _by_function(self) -> dict[str, tuple[Implementation, ...]]:
        return _grouped([one for one in self.implementations if one.function], _function)

    @cached_property
    def _by_operator(self) -> dict[str, tuple[Implementation, ...]]:
        return _grouped(self.implementations, lambda one: one.operator)


def merged(parts: Iterable[Catalogue], *, live: bool = False) -> Catalogue:
    """One catalogue of what several sources know; of an operator in two, the keys of both.

    It is live where one of them is.

    Raises:
        InvalidInput: two parts come from different versions of one library.
    """
    versions: dict[str, str] = {}
    operators: dict[str, Operator] = {}
    implementations: set[Implementation] = set()
    unused: dict[str, Mapping[str, tuple[str, ...]]] = {}
    reentries: dict[str, tuple[Reentry, ...] | None] = {}
    for part in parts:
        for library, version in part.versions.items():
            if versions.setdefault(library, version) != version:
                raise InvalidInput(
                    f"One catalogue is of {library} {versions[library]}, another of {version}.",
                    param="catalogue",
                )
        for name, operator in part.operators.items():
            known = operators.get(name)
            operators[name] = operator if known is None else _joined(known, operator)
        implementations |= set(part.implementations)
        live = live or part.live
        unused |= part.unused
        reentries |= part.reentries
    return Catalogue(
        versions,
        dict(sorted(operators.items())),
        tuple(sorted(implementations)),
        unused,
        reentries,
        live,
    )


def _joined(one: Operator, other: Operator) -> Operator:
    keys = tuple(dict.fromkeys((*one.keys, *other.keys)))
    return replace(one, keys=keys, schema=one.schema or other.schema)


def _function(one: Implementation) -> str:
    return one.function


def _grouped(items: Iterable[Item], key: Callable[[Item], str]) -> dict[str, tuple[Item, ...]]:
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return {name: tuple(members) for name, members in groups.items()}
