"""What a checkpoint's head says, read from its `config.json`, and from logits to values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.contracts.errors import WeightsUnavailable
from jumar.reporting.entailment import sides_of
from jumar.reporting.readings import Head

if TYPE_CHECKING:
    import numpy as np

SEQUENCE, TOKEN = "ForSequenceClassification", "ForTokenClassification"


def head_of(folder: Path, task: str) -> tuple[str, Head]:
    """The class of transformers that loads the folder, and the head.

    One label alone is a reranker's; `multi_label_classification` gives each label its own sigmoid,
    as transformers trains it.

    Raises:
        WeightsUnavailable: the folder holds no classifier, or one of another task.
    """
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise WeightsUnavailable(f"{folder} has no config.json that can be read.") from error
    architecture = str(next(iter(config.get("architectures") or ()), ""))
    labels = _labels(config)
    if architecture.endswith(TOKEN):
        return f"AutoModel{TOKEN}", Head("token", labels)
    if not architecture.endswith(SEQUENCE):
        raise WeightsUnavailable(
            f"{folder} holds {architecture or 'no named architecture'}, which is no classifier.",
            hint=f"Architectures that end with {SEQUENCE} or {TOKEN} are.",
        )
    if (len(labels) == 1) != (task == "reranking"):
        raise WeightsUnavailable(f"A head of {len(labels)} labels is not for {task}.")
    several = config.get("problem_type") == "multi_label_classification"
    kind = "rerank" if len(labels) == 1 else "scores" if several else "sequence"
    return f"AutoModel{SEQUENCE}", Head(kind, labels)  # type: ignore[arg-type]


def _labels(config: dict[str, Any]) -> tuple[str, ...]:
    """`id2label` in the order of its numbers; transformers' own names where there is none."""
    named = config.get("id2label") or {n: f"LABEL_{n}" for n in range(config.get("num_labels", 2))}
    return tuple(str(named[key]) for key in sorted(named, key=int))


def values(head: Head, logits: np.ndarray) -> np.ndarray:
    """float32 [..., labels]: probabilities or scores; the logits themselves of a reranker, and
    where they are compared between texts (`entailment`).
    """
    import numpy as np

    if head.kind in ("rerank", "entailment"):
        return logits
    if head.kind == "scores":
        scores: np.ndarray = 1.0 / (1.0 + np.exp(-logits.astype(np.float64)))
        return scores.astype(np.float32)
    grown = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    shares: np.ndarray = grown / grown.sum(-1, keepdims=True)
    return shares.astype(np.float32)


def reduced(head: Head, windows: np.ndarray) -> np.ndarray:
    """One value [labels] from those of a text's windows [n, labels]: the mean of probabilities,
    else the largest, as what is found anywhere is in the text. So what follows from one window
    most, against what speaks against it, follows from the text.
    """
    if head.kind == "entailment" and (sides := sides_of(head.labels)):
        lead: np.ndarray = windows[:, sides.entailment] - windows[:, sides.contradiction]
        most: np.ndarray = windows[lead.argmax()]
        return most
    value: np.ndarray = windows.mean(0) if head.kind == "sequence" else windows.max(0)
    return value
