"""What workers have imported before they are forked, so that a lost one is replaced soon."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from jumar import catalog
from jumar.catalog.manifest import Manifest
from jumar.contracts.errors import JumarError
from jumar.runtime.families import family_of
from jumar.runtime.weights import where

_OURS = "jumar.engine.worker"

_LAZY = {
    "transformers": (
        "transformers.modeling_utils",
        "transformers.generation.utils",
        "transformers.models.auto.modeling_auto",
        "transformers.models.auto.tokenization_auto",
        "transformers.tokenization_utils_tokenizers",
    )
}
"""What a library imports at its first model only, and which takes most of the time."""

_THREADED = ("onnxruntime", "hibari")
"""What starts a thread when it is imported (hibari imports onnxruntime): a process that has it
cannot be forked, and all workers would be started anew. Those that need it import it themselves.
"""


def preloaded(names: Iterable[str]) -> list[str]:
    """The modules that the named models need and that can be forked, ours last.

    Raises:
        UnknownModel: there is none of that name.
        DependencyMissing: a package that a family needs is not installed.
    """
    manifests = [catalog.get(name) for name in names]
    families = [family_of(manifest) for manifest in manifests]
    needed = dict.fromkeys(module for family in families for module in family.requires)
    here = [module for module in needed if module not in _THREADED and find_spec(module)]
    lazy = [module for library in here for module in _LAZY.get(library, ())]
    architectures = [module for manifest in manifests for module in _architectures(manifest)]
    ours = [_OURS, *(type(family).__module__ for family in families)]
    return list(dict.fromkeys([*here, *lazy, *architectures, *ours]))


def _architectures(manifest: Manifest) -> Iterator[str]:
    """The modules of transformers that compute for weights that are here already."""
    try:
        folders = [weights.path for weights in where(manifest) if weights.path is not None]
        configs = [file for folder in folders if (file := folder / "config.json").is_file()]
        told = [json.loads(file.read_text("utf-8")) for file in configs]
    except (JumarError, ValueError):  # whoever loads them says what is wrong with them
        return
    for config in (one for one in told if isinstance(one, dict)):
        yield from _modeling(str(config.get("model_type")).replace("-", "_"))


def _modeling(architecture: str) -> Iterator[str]:
    """Looked up as a file: to ask the library would import it here."""
    library = find_spec("transformers") if architecture.isidentifier() else None
    for folder in (library.submodule_search_locations or ()) if library else ():
        if Path(folder, "models", architecture, f"modeling_{architecture}.py").is_file():
            yield f"transformers.models.{architecture}.modeling_{architecture}"
