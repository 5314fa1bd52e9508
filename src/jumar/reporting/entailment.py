"""Which labels of a classifier say that one sentence follows from another.

    sides_of(("contradiction", "neutral", "entailment"))    # Sides(entailment=2, contradiction=0)

By name alone: checkpoints order these labels in every way there is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_NO_LETTERS = re.compile(r"[^a-z]+")


@dataclass(frozen=True)
class Sides:
    """Places of the two labels that are held against each other. Where a head has but two,
    `contradiction` is that of `not_entailment`.
    """

    entailment: int
    contradiction: int


def sides_of(labels: Sequence[str]) -> Sides | None:
    """The two labels of an NLI head, by their names; None where they are not both there once."""
    names = [_NO_LETTERS.sub("", label.lower()) for label in labels]
    follows = [at for at, name in enumerate(names) if name.startswith("entail")]
    against = [at for at, name in enumerate(names) if name.startswith("contradict")]
    if len(names) == 2 and not against:
        against = [at for at in (0, 1) if names[at].startswith(("notentail", "nonentail"))]
    if len(follows) != 1 or len(against) != 1:
        return None
    return Sides(follows[0], against[0])
