"""What a card says of a model's heads and vectors, as the model runtime has it (contract 2.x).

It is what the loaded model told of itself (`jumar.runtime.families.about`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jumar.catalog.manifest import Manifest
from jumar.reporting.readings import Head

_REDUCTION = {"sequence": "mean", "scores": "max", "token": "span_union"}
"""What becomes of the windows of a text, by the kind of head."""
_THRESHOLD = {"scores": 0.5, "token": 0.0}
_MODALITY = "text"


def abilities(manifest: Manifest, about: Mapping[str, Any]) -> dict[str, Any]:
    """`heads` and `embedding`; nothing of what the model has not, or has not told yet."""
    found: dict[str, Any] = {}
    if "classification" in manifest.tasks and "head" in about:
        found["heads"] = [_head(manifest, Head.of(about["head"]))]
    if "embedding" in about:
        found["embedding"] = _embedding(about["embedding"])
    return found


def representation(
    about: Mapping[str, Any], sha256: str | None, dimension: int
) -> dict[str, Any] | None:
    """The space of vectors: two of different spaces cannot be compared. None: nobody told it."""
    if "embedding" not in about:
        return None
    return {
        "model_sha256": sha256,
        "layer": about["embedding"]["layer"],
        "dimension": dimension,
        "normalized": about["embedding"]["normalized"],
        "modality": _MODALITY,
    }


def _head(manifest: Manifest, head: Head) -> dict[str, Any]:
    spec = manifest.tasks["classification"]
    pairs = head.kind != "token" and "text_pairs" in spec.inputs
    windows = "overflow" in spec.config  # else no text is too long
    return {
        "name": head.name,
        "kind": head.kind,
        "labels": list(head.labels),
        "inputs": ["text", *(["pair"] if pairs else [])],
        "default_threshold": _THRESHOLD.get(head.kind),
        "thresholds": None,
        "overflow": spec.config["overflow"].default if windows else None,
        "window": None,
        "reduction": _REDUCTION[head.kind] if windows else None,
        "operating_point_sha256": None,
    }


def _embedding(space: Mapping[str, Any]) -> dict[str, Any]:
    """`dimensions` and `layers` are those that the model was made for."""
    return {
        "dimensions": [one for one in [space["dimension"]] if one is not None],
        "layers": [one for one in [space["layer"]] if one is not None],
        "modalities": [_MODALITY],
        "normalized": space["normalized"],
        "pooling": space["pooling"],
        "input_types": [],
    }
