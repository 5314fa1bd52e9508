"""The catalogue of this process: torch's dispatcher, and each library that is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path

from jumar.contracts.errors import InvalidValue, did_you_mean
from jumar.operators.catalogue import flag_gems, torch_names, torch_npu, vllm
from jumar.operators.catalogue.base import Catalogue, Reentry, merged
from jumar.operators.catalogue.record import CALLS, read, shipped

PACKAGES: dict[str, Callable[[Path, str | None], Catalogue]] = {
    flag_gems.NAME: flag_gems.read,
    vllm.NAME: vllm.read,
}
"""Packages whose names are read from their source, installed or unpacked."""

SETTLED = frozenset({vllm.NAME})
"""Those whose names depend on nothing but the version: a shipped record saves reading a second."""


def live(packages: Iterable[Path] = ()) -> Catalogue:
    """What torch's dispatcher and the installed libraries know.

    `packages` are folders of unpacked packages (`…/flag_gems`) to read in place of installed ones.

    Raises:
        DependencyMissing: torch is not installed.
        InvalidValue: a folder is no package that is known here.
    """
    dispatcher = torch_names.read()
    parts = [dispatcher]
    if (device := torch_npu.read(dispatcher.operators)) is not None:
        parts.append(device)
    given: dict[str, Path] = {}
    for folder in packages:
        if folder.name not in PACKAGES:
            hint = did_you_mean(folder.name, PACKAGES)
            raise InvalidValue(f"{folder} is no package to read.", hint=hint, param="package")
        given[folder.name] = folder.resolve()
    parts += [PACKAGES[name](folder, _version(name, folder)) for name, folder in given.items()]
    for name in PACKAGES:
        if name not in given and (found := _installed(name)) is not None:
            parts.append(_names(name, found))
    parts.append(vllm.replaced())
    return replace(merged(parts, live=True), reentries=_known_calls(dispatcher.versions["torch"]))


def _known_calls(torch: str) -> Mapping[str, tuple[Reentry, ...] | None]:
    """What was recorded of calls between the operators of just this version of torch."""
    path = CALLS / f"torch-{torch.partition('+')[0]}.json"
    return read(path).reentries if path.is_file() else {}


def _names(name: str, folder: Path) -> Catalogue:
    """What an installed package registers."""
    version = _version(name, folder)
    recorded = shipped().get(f"{name}-{version}") if name in SETTLED else None
    return read(recorded) if recorded else PACKAGES[name](folder, version)


def _installed(name: str) -> Path | None:
    """The folder of an installed package; nothing is imported."""
    spec = PathFinder.find_spec(name)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]) if places else None


def _version(name: str, folder: Path) -> str | None:
    """By the metadata that stands beside a package's folder."""
    from importlib.metadata import distributions

    found = next(iter(distributions(name=name, path=[str(folder.parent)])), None)
    return None if found is None else found.version
