"""A checkpoint on this machine as a model of the catalog, for as long as this process lives.

    adopt(Path("./my-classifier")).id       # what its config.json says decides task and family

Only whoever runs Jumar may do that: a caller of a server names models, never folders.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from jumar.catalog.index import Catalog
from jumar.catalog.manifest import Manifest
from jumar.contracts.errors import InvalidInput

_TEXTS = {"texts": {"required": True}}
_PAIRS = {**_TEXTS, "text_pairs": None}
_QUERY = {"texts": {"required": True}, "query": {"required": True}}


def adopt(folder: Path, catalog: Catalog, *, name: str | None = None) -> Manifest:
    """The manifest of a folder that transformers or sentence-transformers has written.

    `name` is what callers call it, else the folder's own name; adopted twice, it is the same.

    Raises:
        InvalidInput: the folder holds no model that Jumar can read with.
    """
    place = folder.expanduser().resolve()
    if str(place) in catalog.names():
        return catalog.get(str(place))
    called, (family, task, inputs) = name or place.name, _reads(place)
    surface = {"classification": "classify", "reranking": "rerank"}.get(task, task)
    try:
        catalog.add_own(
            {
                "id": _id(called),
                "aliases": sorted({called, str(place)} - {_id(called)}),
                "summary": f"A checkpoint of this machine's, for {task}.",
                "family": family,
                "tier": "experimental",
                "licence": "as its authors say",
                "tasks": {task: None},
                "inputs": inputs,
                "weights": {"model": {"source": str(place)}},
                "resources": {"memory_gb": _gigabytes(place)},
                "surfaces": [surface],
                "backends": {"cpu": {"status": "unknown"}},
            }
        )
    except ValueError as error:
        raise InvalidInput(f"{place} cannot be called {called!r}: {error}.") from error
    return catalog.get(str(place))


def _reads(folder: Path) -> tuple[str, str, dict[str, Any]]:
    """Family, task and inputs, from the architecture that `config.json` names."""
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        architecture = str(next(iter(config.get("architectures") or ()), ""))
        labels = len(config.get("id2label") or ()) or config.get("num_labels", 2)
    except (OSError, ValueError, AttributeError) as error:
        raise InvalidInput(f"{folder} has no config.json that can be read.") from error
    if architecture.endswith("ForTokenClassification"):
        return "classifier", "classification", _TEXTS
    if architecture.endswith("ForSequenceClassification"):
        if labels == 1:
            return "classifier", "reranking", _QUERY
        return "classifier", "classification", _PAIRS
    if (folder / "modules.json").is_file() or architecture.endswith("Model"):
        return "encoder", "embeddings", _TEXTS
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
