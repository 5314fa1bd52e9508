"""What a model that reads says of itself once it is loaded, so that it holds of what answers.

about(plan, model)    # {"longest": 256, "embedding": {"dimension": 384, "pooling": "mean", …}}
                      # {"longest": 512, "head": {"kind": "sequence", "labels": ["benign", …], …}}
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jumar.runtime.families.base import LoadPlan, Model
from jumar.runtime.families.encoder.recipe import Recipe


def about(plan: LoadPlan, model: Model) -> dict[str, Any]:
    """Plain data, of what the model has: `head` (`readings.Head`), `embedding` (the space of its
    vectors), `longest` (a text in tokens).
    """
    told: dict[str, Any] = {}
    if (longest := getattr(model, "longest", None)) is not None:
        told["longest"] = longest
    if (head := getattr(model, "head", None)) is not None:
        told["head"] = head.to_dict()
    if plan.manifest.family == "encoder":
        told["embedding"] = _space(plan.weights["model"])
    return told


def _space(folder: Path) -> dict[str, Any]:
    """`dimension` and `layer` are None where the folder does not say them."""
    from transformers import AutoConfig

    recipe = Recipe.read(folder)
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    width = getattr(config, "hidden_size", None)
    return {
        "dimension": None if width is None else width * len(recipe.pooling),
        "layer": getattr(config, "num_hidden_layers", None),
        "pooling": "+".join(_POOLING.get(name, name) for name in recipe.pooling),
        "normalized": recipe.normalize,
    }


_POOLING = {"mean_tokens": "mean", "cls_token": "cls", "max_tokens": "max", "lasttoken": "last"}
"""Names of sentence-transformers as cards have them."""
