"""Families of models, found by name through the entry point group `jumar.families`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec

from jumar.catalog.manifest import Manifest
from jumar.contracts.errors import DependencyMissing, InvalidRequest, did_you_mean
from jumar.plugins import installed, load
from jumar.runtime.families.base import Converter, Draft, Family, LoadPlan, Model

__all__ = ["Converter", "Draft", "Family", "LoadPlan", "Model", "family_of"]

_BUILT_IN = {
    "avatar": "jumar.runtime.families.avatar:Avatar",
    "classifier": "jumar.runtime.families.classifier:Classifier",
    "decision": "jumar.runtime.families.decision:Decision",
    "diffusion": "jumar.runtime.families.diffusion:Diffusion",
    "encoder": "jumar.runtime.families.encoder:Encoder",
    "ngrams": "jumar.runtime.families.ngrams:Ngrams",
    "remote": "jumar.runtime.families.remote:Remote",
    "speech": "jumar.runtime.families.speech:Speech",
    "transcription": "jumar.runtime.families.transcription:Transcription",
    "vllm": "jumar.runtime.families.vllm:VLLM",
}


def family_of(manifest: Manifest) -> Family:
    """The family of a model, with everything it needs installed.

    Raises:
        InvalidRequest: nobody provides this family.
        DependencyMissing: a package that the family needs is not installed.
    """
    family = _families(manifest.family)
    missing = [module for module in family.requires if not _is_installed(module)]
    if missing:
        raise DependencyMissing(
            f"{manifest.id} needs {', '.join(missing)}.",
            hint="Install it with: pip install 'jumar[runtime]'",
        )
    return family


@cache
def _is_installed(module: str) -> bool:
    """Looked up once: it reads folders, and every request asks."""
    return find_spec(module) is not None


@cache
def _families(name: str) -> Family:
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        built_in: Family = getattr(import_module(module), attribute)()
        return built_in
    others = {plugin.name: plugin for plugin in installed("jumar.families", foreign_only=True)}
    if name not in others:
        raise InvalidRequest(
            f"No family {name!r} is installed.", hint=did_you_mean(name, [*_BUILT_IN, *others])
        )
    family: Family = load(others[name])()
    return family
