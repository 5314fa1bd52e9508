"""From policy, catalogue, machine and evidence to one implementation for each operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from jumar.contracts.errors import InvalidValue, OperatorUnavailable, did_you_mean
from jumar.operators.base import Override
from jumar.operators.policy.base import BUILT_IN, BUILT_IN_ORDER, PROVIDERS, REFERENCE, Rule
from jumar.operators.policy.conditions import all_hold

if TYPE_CHECKING:
    from jumar.evidence import Quarantine
    from jumar.operators.catalogue.base import Catalogue
    from jumar.operators.policy.base import Key, Policy

Effect = Literal["order", "require", "excluded", "lifted", "idle", "chosen"]
"""What a line did: it gave the order or the requirement, took an implementation out, was overruled
by a later requirement, did not apply here, or decided."""


class Step(NamedTuple):
    """One line on the way to a decision. `implementation` is None where it speaks of several."""

    effect: Effect
    implementation: str | None
    reason: str
    origin: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.origin})"


@dataclass(frozen=True)
class Decision:
    """Which implementation computes an operator; `line` decided, `steps` is the whole way.

    `order` begins with it, and goes on with what else is permitted: binding takes the next where
    the first is not made for a dtype. `device_class` is empty where nothing tells it.
    """

    operator: str
    order: tuple[str, ...]
    line: Step
    steps: tuple[Step, ...]
    device_class: str = ""

    @property
    def implementation(self) -> str:
        """The first of the order."""
        return self.order[0]

    @property
    def override(self) -> Override:
        """As the lab names it."""
        return Override(self.operator, self.implementation)


class _Resolved(NamedTuple):
    """A rule with its names looked up (None: every operator) and its conditions answered."""

    layer: int
    rule: Rule
    names: frozenset[str] | None
    holds: bool | None

    def about(self, operator: str) -> bool:
        return self.names is None or operator in self.names


def resolve(
    policy: Policy,
    catalogue: Catalogue,
    fingerprint: Mapping[str, str],
    quarantine: Quarantine,
) -> Decisions:
    """Look all names up, answer all conditions, and see that what is required can be had.

    Raises:
        InvalidValue: a rule names no operator or provider, or an order leaves the reference out
            though the policy is not strict; says which line.
        OperatorUnavailable: a required implementation is denied, in quarantine, or not here.
    """
    decisions = Decisions(policy, catalogue, fingerprint, quarantine)
    decisions.check_orders()
    for name in decisions.required():
        decisions.decide(name)
    return decisions


class Decisions:
    """Decisions are made one by one, when they are asked for, from what `resolve` looked up."""

    def __init__(
        self,
        policy: Policy,
        catalogue: Catalogue,
        fingerprint: Mapping[str, str],
        quarantine: Quarantine,
    ) -> None:
        self.policy = policy
        self.catalogue = catalogue
        self.quarantine = quarantine
        self.device_class = fingerprint.get("device_class", "")
        self._rules: dict[Key, list[_Resolved]] = {
            key: [
                _Resolved(layer, rule, names_of(rule, catalogue), all_hold(rule.when, fingerprint))
                for layer, rule in policy.rules(key)
            ]
            for key in ("order", "deny", "require")
        }

    def check_orders(self) -> None:
        """See that every order has the reference in it, or that the policy is strict."""
        for _, rule, *_ in self._rules["order"]:
            if REFERENCE not in rule.providers and not self.policy.strict.on:
                raise InvalidValue(
                    f"{rule.origin}: the order of {rule.subject} leaves the reference out.",
                    hint="Add reference at its end, or set strict: true.",
                    param="order",
                )

    def required(self) -> list[str]:
        """The operators that some applying rule requires of a provider, by name."""
        applying = [one for one in self._rules["require"] if one.holds]
        return sorted({name for one in applying for name in one.names or self.catalogue.operators})

    def decide(self, operator: str, *, shape_class: str = "*", dtype: str = "*") -> Decision:
        """Who computes an operator, for any shape and dtype or for one class of them.

        Raises:
            InvalidValue: there is no such operator.
            OperatorUnavailable: nothing is left; says why each candidate was excluded.
        """
        name = self.catalogue.operator(operator).name
        required, idle = self._last("require", name)
        by, more_idle = (required, ()) if required else self._last("order", name)
        said = by.rule.providers if by else BUILT_IN_ORDER
        order = tuple(self._here_called(one, name) for one in said)
        steps = [*idle, *more_idle, _opening(by)]
        left = []
        for provider in dict.fromkeys([*order, *self.candidates(name)]):
            told = [
                *self._missing(name, provider, order, required),
                *self._denials(name, provider, required),
                *self._quarantine(name, provider, shape_class, dtype),
            ]
            steps += told
            if not any(step.effect == "excluded" for step in told):
                left.append(provider)
        if not left:
            raise _nothing_left(name, steps, _origin_of(by))
        line = Step("chosen", left[0], f"computes {name}", _origin_of(by))
        return Decision(name, tuple(left), line, (*steps, line), self.device_class)

    def order(self, operator: str) -> tuple[str, ...]:
        """All that may compute an operator, best first: what `Bindings` asks."""
        return self.decide(operator).order

    def candidates(self, operator: str) -> tuple[str, ...]:
        """The providers that have an implementation here.

        torch's dispatcher has a `device` for all but layer operators; the reference has them all.
        """
        own = [one.provider for one in self.catalogue.implementing([operator])]
        if self._dispatched(operator):
            own = ["device", *(one for one in own if one != "torch_npu")]
        return tuple(dict.fromkeys([*own, REFERENCE]))

    def _dispatched(self, operator: str) -> bool:
        return self.catalogue.operators[operator].kind != "layer"

    def _here_called(self, provider: str, operator: str) -> str:
        """torch_npu's kernels for torch's operators are an NPU's own: one implementation."""
        native = self._dispatched(operator) and self.device_class.startswith("npu")
        return "device" if native and provider == "torch_npu" else provider

    def _last(self, key: Key, operator: str) -> tuple[_Resolved | None, tuple[Step, ...]]:
        """The rule that decides, and those about the operator whose conditions do not hold."""
        about = [one for one in self._rules[key] if one.about(operator)]
        applying = [one for one in about if one.holds]
        idle = (_idle(one) for one in about if not one.holds)
        return (applying[-1] if applying else None), tuple(idle)

    def _missing(
        self, operator: str, provider: str, order: tuple[str, ...], required: _Resolved | None
    ) -> Iterator[Step]:
        if provider not in self.candidates(operator):
            yield Step("excluded", provider, "has no implementation here", "catalogue")
        if provider not in order and required is not None:
            yield Step("excluded", provider, "is not what is required", str(required.rule.origin))
        elif provider not in order:
            yield Step("excluded", provider, "is not in the order", "order")

    def _denials(self, operator: str, provider: str, required: _Resolved | None) -> Iterator[Step]:
        for one in self._rules["deny"]:
            denied = {self._here_called(name, operator) for name in one.rule.providers}
            if provider in denied and one.about(operator):
                yield _denial(one, provider, required)

    def _quarantine(
        self, operator: str, provider: str, shape_class: str, dtype: str
    ) -> Iterator[Step]:
        found = self.quarantine.deny(operator, provider, shape_class=shape_class, dtype=dtype)
        if found is not None:
            where = f"evidence {found.id}"
            yield Step("excluded", provider, f"in quarantine: {found.verdict}", where)


def names_of(
    rule: Rule, catalogue: Catalogue, providers: Iterable[str] = ()
) -> frozenset[str] | None:
    """The operators that a rule speaks of; None for every one.

    `providers` may be named beside the built-in ones and those of the catalogue.

    Raises:
        InvalidValue: a name that means nothing here, with the nearest that do.
    """
    known = {*PROVIDERS, *catalogue.providers, *providers}
    for provider in rule.providers:
        if provider not in known:
            hint = did_you_mean(provider, known)
            message = f"{rule.origin}: there is no provider {str(provider)!r}."
            raise InvalidValue(message, hint=hint, param="providers")
    if not rule.operators and not rule.families:
        return None
    names = set()
    for name in rule.operators:
        try:
            names.add(catalogue.operator(str(name)).name)
        except InvalidValue as error:
            message = f"{rule.origin}: {error.message}"
            raise InvalidValue(message, hint=error.hint, param="operators") from error
    for family in rule.families:
        members = catalogue.family(str(family))
        if not members:
            unknown = catalogue.unknown(str(family))
            message = f"{rule.origin}: there is no family {str(family)!r}."
            raise InvalidValue(message, hint=unknown.hint, param="families")
        names.update(one.name for one in members)
    return frozenset(names)


def _opening(chosen_by: _Resolved | None) -> Step:
    if chosen_by is None:
        return Step("order", None, f"order: {', '.join(BUILT_IN_ORDER)}", str(BUILT_IN))
    rule = chosen_by.rule
    return Step("require" if rule.key == "require" else "order", None, str(rule), str(rule.origin))


def _origin_of(chosen_by: _Resolved | None) -> str:
    return str(chosen_by.rule.origin if chosen_by else BUILT_IN)


def _idle(one: _Resolved) -> Step:
    known = "does not hold here" if one.holds is False else "is not known here"
    when = ", ".join(map(str, one.rule.when))
    return Step("idle", None, f"{one.rule}: {when} {known}", str(one.rule.origin))


def _denial(one: _Resolved, provider: str, required: _Resolved | None) -> Step:
    """A deny holds where its conditions are not known: it is there to be safe."""
    rule, when = one.rule, ", ".join(map(str, one.rule.when))
    if one.holds is False:
        return Step("idle", provider, f"denied only for {when}", str(rule.origin))
    if required is not None and required.layer > one.layer:
        return Step("lifted", provider, f"denied, and required by {required.rule.origin}",
                    str(rule.origin))  # fmt: skip
    why = f": {rule.because}" if rule.because else ""
    doubt = "" if one.holds else f" ({when}: not known here)"
    return Step("excluded", provider, f"denied{doubt}{why}", str(rule.origin))


def _nothing_left(operator: str, steps: Iterable[Step], line: str) -> OperatorUnavailable:
    said = [f"{one.implementation} {one}" for one in steps if one.effect == "excluded"]
    return OperatorUnavailable(
        f"No implementation of {operator} is left: {'; '.join(said)}.",
        hint=f"Who may compute it says {line}: change that, or what excludes the others.",
        param="operators",
    )
