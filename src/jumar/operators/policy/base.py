"""A policy: who may compute which operator, and which line says so.

A policy is a stack of layers, each from one place: the platform's file, then the user's, then the
environment. A layer holds rules of three kinds:

    order     the providers that may compute, best first
    deny      a provider that must not compute these operators
    require   the one provider that must compute these operators, else nothing is loaded

Of `order` and `require` the last layer that speaks of an operator decides; within a layer the
narrowest rule (operators, then families, then all), and of equals the later line. `deny` adds up
over all layers and beats every order; only a `require` of a later layer lifts it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from jumar.operators.policy.conditions import Condition

Key = Literal["order", "deny", "require"]
KEYS: tuple[Key, ...] = get_args(Key)

REFERENCE = "reference"
BUILT_IN_ORDER = ("device", REFERENCE)
"""Where no file gives an order."""

EVERYTHING = 2
"""The breadth of a rule that names no operators."""

PROVIDERS = ("device", REFERENCE, "torch_npu", "flag_gems")
"""Those that a policy may name though they are not installed here."""


class Origin(NamedTuple):
    """Where a line stands; `line` counts from 1, and is 0 where there are no lines."""

    place: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.place}:{self.line}" if self.line else self.place


BUILT_IN = Origin("built in")


@dataclass(frozen=True)
class Rule:
    """One entry of a policy. Without operators and families it speaks of every operator.

    `operators` are single overloads (`aten::add.out`), `families` stand for all overloads of a
    name, in-place and out variants among them.
    """

    key: Key
    providers: tuple[str, ...]
    operators: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    when: tuple[Condition, ...] = ()
    because: str = ""
    sources: tuple[str, ...] = ()
    origin: Origin = BUILT_IN

    @property
    def breadth(self) -> int:
        """0 for a rule on operators, 1 on families, EVERYTHING on all."""
        return 0 if self.operators else 1 if self.families else EVERYTHING

    @property
    def subject(self) -> str:
        """What it speaks of, in words."""
        return ", ".join([*self.operators, *(f"the family {one}" for one in self.families)]) or (
            "every operator"
        )

    def __str__(self) -> str:
        joined = ", ".join(self.providers)
        return {
            "order": f"order of {self.subject}: {joined}",
            "deny": f"{joined} must not compute {self.subject}",
            "require": f"{joined} must compute {self.subject}",
        }[self.key]


class Strict(NamedTuple):
    """Whether an order may leave the reference out."""

    on: bool
    origin: Origin


@dataclass(frozen=True)
class Layer:
    """The rules of one place, in the order of their lines."""

    name: str
    rules: tuple[Rule, ...] = ()
    strict: Strict | None = None


@dataclass(frozen=True)
class Policy:
    """Layers, the weakest first."""

    layers: tuple[Layer, ...] = ()

    @property
    def strict(self) -> Strict:
        """What the last layer says that speaks of it; off where none does."""
        said = [layer.strict for layer in self.layers if layer.strict is not None]
        return said[-1] if said else Strict(False, BUILT_IN)

    def rules(self, key: Key) -> list[tuple[int, Rule]]:
        """The rules of one kind with the number of their layer, the strongest last."""
        found = [
            (number, rule)
            for number, layer in enumerate(self.layers)
            for rule in layer.rules
            if rule.key == key
        ]
        return sorted(found, key=lambda one: (one[0], -one[1].breadth))
