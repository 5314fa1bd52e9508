"""A checkpoint on this machine as a model of the catalog, for as long as this process lives.

    adopt(Path("./my-classifier")).id       # what its config.json says decides task and family

Only whoever runs Jumar may do that: a caller of a server names models, never folders.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jumar.catalog.index import Catalog
from jumar.catalog.manifest import Manifest
from jumar.contracts.errors import InvalidInput
from jumar.reporting.entailment import sides_of

_TEXTS: dict[str, Any] = {"texts": {"required": True}}
_PAIRS: dict[str, Any] = {**_TEXTS, "text_pairs": None}
_HYPOTHESES: dict[str, Any] = {"texts": {"required": True}, "hypotheses": {"required": True}}
_QUESTIONS: dict[str, Any] = {"state": {"required": True}, "questions": {"required": True}}
_QUERY: dict[str, Any] = {"texts": {"required": True}, "query": {"required": True}}

_SURFACES = {
    "classification": "classify",
    "reranking": "rerank",
    "embeddings": "embeddings",
    "decisions": "decisions",
}
"""By task, what the model runtime calls it."""


def adopt(folder: Path, catalog: Catalog, *, name: str | None = None) -> Manifest:
    """The manifest of a folder that transformers or sentence-transformers has written.

    `name` is what callers call it, else the folder's own name; adopted twice, it is the same.

    Raises:
        InvalidInput: the folder holds no model that Jumar can read with.
    """
    place = folder.expanduser().resolve()
    if str(place) in catalog.names():
        return catalog.get(str(place))
    called, reads = name or place.name, _reads(place)
    tasks = list(reads.tasks)
    try:
        catalog.add_own(
            {
                "id": _id(called),
                "aliases": sorted({called, str(place)} - {_id(called)}),
                "summary": f"A checkpoint of this machine's, for {', '.join(tasks)}.",
                "family": reads.family,
                "tier": "experimental",
                "licence": "as its authors say",
                "tasks": {task: {"inputs": inputs} for task, inputs in reads.tasks.items()},
                "weights": {"model": {"source": str(place)}},
                "resources": {"memory_gb": _gigabytes(place)},
                "surfaces": [_SURFACES[task] for task in tasks if task in _SURFACES],
                "options": reads.options,
                "backends": {"cpu": {"status": "unknown"}},
            }
        )
    except ValueError as error:
        raise InvalidInput(f"{place} cannot be called {called!r}: {error}.") from error
    return catalog.get(str(place))


@dataclass(frozen=True)
class _Reads:
    """What a checkpoint does: its family, the inputs of each task, and what the family is told."""

    family: str
    tasks: dict[str, dict[str, Any]]
    options: dict[str, Any] = field(default_factory=dict)


def _reads(folder: Path) -> _Reads:
    """What `config.json` says: its architecture, and whether its labels are those of an NLI head.

    Raises:
        InvalidInput: nothing that Jumar can read with.
    """
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        architecture = str(next(iter(config.get("architectures") or ()), ""))
        labels = config.get("id2label") or dict.fromkeys(range(config.get("num_labels", 2)), "")
        names = [str(labels[key]) for key in sorted(labels, key=int)]
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise InvalidInput(f"{folder} has no config.json that can be read.") from error
    if architecture.endswith("ForTokenClassification"):
        tasks = {"classification": _TEXTS, "decisions": _QUESTIONS}
        return _Reads("decision", tasks, {"questions": ["span"]})
    if architecture.endswith("ForSequenceClassification"):
        if len(names) == 1:
            return _Reads("classifier", {"reranking": _QUERY})
        several = config.get("problem_type") == "multi_label_classification"
        if sides_of(names) is None or several:
            return _Reads("classifier", {"classification": _PAIRS})
        tasks = {"decisions": _QUESTIONS, "entailment": _HYPOTHESES, "classification": _PAIRS}
        return _Reads("decision", tasks)
    if (folder / "modules.json").is_file() or architecture.endswith("Model"):
        return _Reads("encoder", {"embeddings": _TEXTS})
    raise InvalidInput(
        f"{folder} holds {architecture or 'no named architecture'}, which Jumar cannot read with.",
        hint="…ForSequenceClassification, …ForTokenClassification, and encoders can be served.",
    )


def _id(name: str) -> str:
    """The name in the signs that ids have."""
    return re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-.") or "model"


def _gigabytes(folder: Path) -> float:
    """What its weights take, in GiB."""
    return round(sum(file.stat().st_size for file in folder.glob("*.safetensors")) / 2**30, 3)
