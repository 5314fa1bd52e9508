"""What a name of a model on the command line stands for: the catalog's, a folder, a repository."""

from __future__ import annotations

import re
from pathlib import Path

from jumar.contracts.errors import UnknownModel

_REPOSITORY = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[0-9a-f]{40}))?")
_INCLUDE = ("*.json", "*.safetensors", "*.txt", "*.model", "1_Pooling/*")


def known(name: str) -> str:
    """The name under which the catalog knows the model; a folder or a repository is taken in.

    Raises:
        UnknownModel: a repository without a revision: what it holds could change.
        WeightsUnavailable: the repository cannot be fetched.
        InvalidInput: it holds no model that Jumar can read with.
    """
    from jumar import catalog

    if name in catalog.names():
        return name
    folder = Path(name).expanduser()
    if folder.is_dir():
        return catalog.adopt(folder).id
    found = _REPOSITORY.fullmatch(name)
    if found is None or folder.is_absolute() or name.startswith("."):
        return name  # the catalog says what is near it
    if found["revision"] is None:
        raise UnknownModel(
            f"{name} is not in the catalog.",
            hint=f"A repository of the hub is named with its commit: {name}@<40 hex digits>."
            " A copy of it on this machine is named by its folder.",
            param="model",
        )
    return catalog.adopt(_fetched(found["repo"], found["revision"]), name=found["repo"]).id


def _fetched(repository: str, revision: str) -> Path:
    from jumar.catalog.manifest import Manifest, Weights
    from jumar.runtime.weights import ensure

    source = Weights(source=f"hf://{repository}@{revision}", include=_INCLUDE)
    stub = Manifest(
        id=repository.replace("/", "-").lower(),
        summary=repository,
        family="encoder",
        tier="experimental",
        licence="as its authors say",
        tasks={},
        weights={"model": source},
    )
    return ensure(stub, "model", converters={})
