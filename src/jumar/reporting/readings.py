"""What a classifier or a reranker read, as callers see it.

    head = Head("sequence", ("benign", "jailbreak"))
    shown(head, [0.25, 0.75])        # {"label": "jailbreak", "probabilities": [0.25, 0.75]}

The names are those of the semantic router's model runtime (contract 2.x).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from jumar.reporting.entailment import sides_of

Kind = Literal["sequence", "scores", "token", "rerank", "entailment"]


@dataclass(frozen=True)
class Head:
    """What comes out of a model: one label of several (`sequence`), any number of them (`scores`),
    `token` labels of stretches of text, how well two texts go together (`rerank`), or the logits of
    whether one follows from the other (`entailment`).
    """

    kind: Kind
    labels: tuple[str, ...]
    name: str = "default"

    def to_dict(self) -> dict[str, Any]:
        """As plain data; `Head.of` reads it."""
        return asdict(self)

    @classmethod
    def of(cls, data: dict[str, Any]) -> Head:
        """The inverse of `to_dict`."""
        return cls(data["kind"], tuple(data["labels"]), data["name"])


@dataclass(frozen=True)
class Span:
    """A stretch of text; `start` and `end` count Unicode code points."""

    label: str
    start: int
    end: int
    text: str
    probability: float


def shown(head: Head, value: Any, threshold: float | None = None) -> dict[str, Any]:
    """The value of one text. `threshold` selects labels of `scores` (0.5 where it is not given) and
    spans (all of them).
    """
    if head.kind == "token":
        spans = [span for span in value if span.probability >= (threshold or 0.0)]
        return {"spans": [asdict(span) for span in spans]}
    numbers = [float(number) for number in value]
    if head.kind == "rerank":
        return {"relevance_score": sigmoid(numbers[0]), "logit": numbers[0]}
    if head.kind == "entailment":
        sides = sides_of(head.labels)
        assert sides is not None, "no such head is made without both labels"
        entailed, against = numbers[sides.entailment], numbers[sides.contradiction]
        return {"entailment": sigmoid(entailed - against), "logits": numbers}
    if head.kind == "scores":
        least = 0.5 if threshold is None else threshold
        picked = [head.labels[at] for at, number in enumerate(numbers) if number >= least]
        return {"scores": numbers, "selected": picked}
    best = max(range(len(numbers)), key=numbers.__getitem__)
    return {"label": head.labels[best], "probabilities": numbers}


def ranked(logits: Sequence[float], most: int | None = None) -> list[int]:
    """Places of documents, the best first; of equals the first first."""
    order = sorted(range(len(logits)), key=lambda place: -logits[place])
    return order[:most]


def name_of(label: str) -> tuple[str, str]:
    """Prefix and name of a token's label: `B-PER` is (`B`, `PER`); some have no prefix."""
    prefix, dash, name = label.partition("-")
    return (prefix, name) if dash and prefix in "BIESLU" and len(prefix) == 1 else ("", label)


def sigmoid(logit: float) -> float:
    """1 / (1 + e^-x), without overflow."""
    if logit >= 0:
        return 1.0 / (1.0 + math.exp(-logit))
    grown = math.exp(logit)
    return grown / (1.0 + grown)
