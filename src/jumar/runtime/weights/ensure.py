"""From a manifest to files that can be loaded: found, or fetched once, checked and converted."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.catalog.manifest import Manifest, Weights
from jumar.contracts.errors import (
    DigestMismatch,
    InvalidValue,
    JumarError,
    WeightsUnavailable,
    did_you_mean,
)
from jumar.runtime.weights.base import Fetched, Job, Listener, Source
from jumar.runtime.weights.cache import FULL, Marker, Slot, cache_root
from jumar.runtime.weights.digests import compare, hash_all, missing, require, sizes
from jumar.runtime.weights.inplace import check_in_place
from jumar.runtime.weights.sources import source_of

if TYPE_CHECKING:
    from jumar.runtime.families.base import Converter

TRUTH = {"": False, "0": False, "false": False, "no": False, "off": False} | dict.fromkeys(
    ("1", "true", "yes", "on"), True
)


@dataclass(frozen=True)
class Located:
    """Where one set of weights is. `path` is None where there is nothing yet; `size` counts the
    bytes on disk; `missing` names files that are not there or have changed size.
    """

    name: str
    source: str
    path: Path | None
    size: int
    complete: bool
    missing: tuple[str, ...] = ()


def ensure(
    manifest: Manifest,
    name: str = "model",
    *,
    cache: Path | None = None,
    base: Path | None = None,
    converters: Mapping[str, Converter] | None = None,
    offline: bool | None = None,
    verify: bool = False,
    progress: Listener | None = None,
    cancel: threading.Event | None = None,
) -> Path:
    """The file or folder to load for the weights called `name`; fetched first where need be.

    Args:
        cache: instead of JUMAR_CACHE or the user's cache folder.
        base: the folder of a plugin's manifest, for a relative `source`.
        converters: the family's, for the manifest's `convert`.
        offline: fetch nothing; None asks JUMAR_OFFLINE (and HF_HUB_OFFLINE for hf://).
        verify: hash all files; otherwise what was checked once is trusted by its sizes.
        progress: called with a `Progress`, about ten times a second.
        cancel: set it to stop; parts that can be resumed stay.

    Raises:
        WeightsUnavailable: not here and not to be had; partial; the cache cannot be written.
        DigestMismatch: a file is not the one that the manifest or its origin names.
        DependencyMissing: a package that the source needs.
        InvalidValue: a source, converter or weights name that does not exist.
        Cancelled: `cancel` was set.
    """
    weights = _named(manifest, name)
    return _ensure(
        weights,
        model=manifest.id,
        slot=Slot(cache_root(cache), weights),
        base=base,
        converters=converters or {},
        offline=offline,
        verify=verify,
        job=Job(progress, cancel),
    )


def ensure_all(
    manifest: Manifest,
    *,
    model_path: str | Path | None = None,
    cache: Path | None = None,
    base: Path | None = None,
    converters: Mapping[str, Converter] | None = None,
    offline: bool | None = None,
    verify: bool = False,
    progress: Listener | None = None,
    cancel: threading.Event | None = None,
) -> dict[str, Path]:
    """`ensure` for every name in `manifest.weights`.

    `model_path`, a folder or any other source, is used instead of the weights called `model`;
    its files are the caller's own, so the manifest's digests and converter do not apply to them.
    """
    sets = {name: (weights, base) for name, weights in manifest.weights.items()}
    if model_path is not None:
        own = Weights(source=str(model_path), include=_named(manifest, "model").include)
        sets["model"] = (own, Path.cwd())
    return {
        name: _ensure(
            weights,
            model=manifest.id,
            slot=Slot(cache_root(cache), weights),
            base=folder,
            converters=converters or {},
            offline=offline,
            verify=verify,
            job=Job(progress, cancel),
        )
        for name, (weights, folder) in sets.items()
    }


def where(
    manifest: Manifest, *, cache: Path | None = None, base: Path | None = None
) -> list[Located]:
    """Where each set of weights is, without fetching and without hashing anything."""
    return [
        _locate(name, weights, Slot(cache_root(cache), weights), source_of(weights, base))
        for name, weights in manifest.weights.items()
    ]


def plan(
    manifest: Manifest, *, cache: Path | None = None, base: Path | None = None
) -> list[Located]:
    """What `ensure_all` would have to fetch or convert."""
    return [row for row in where(manifest, cache=cache, base=base) if not row.complete]


def _ensure(
    weights: Weights,
    *,
    model: str,
    slot: Slot,
    base: Path | None,
    converters: Mapping[str, Converter],
    offline: bool | None,
    verify: bool,
    job: Job,
) -> Path:
    convert = _converter(weights, converters)
    source = source_of(weights, base)
    if (marker := slot.marker()) is not None:
        return slot.open(marker, job, verify=verify)
    forbidden = _forbidden(source, offline)
    here = source.here(offline=forbidden is not None)
    if here is not None:
        check_in_place(here, weights, slot.folder.parent, job, verify=verify)
        if convert is None:
            return here
    elif forbidden is not None:
        raise _offline_error(model, weights, slot, forbidden)
    elif not source.offline_switches:
        source.fetch(slot.part, job)  # raises: says why what is never fetched is not here
    with slot.writing(), slot.locked(job):
        marker = slot.marker() or _bring(here, source, weights, convert, slot, job)
    return slot.open(marker, job, verify=False)


def _named(manifest: Manifest, name: str) -> Weights:
    if name not in manifest.weights:
        raise InvalidValue(
            f"{manifest.id} has no weights called {name!r}.",
            hint=did_you_mean(name, manifest.weights),
            param="weights",
        )
    return manifest.weights[name]


def _converter(weights: Weights, converters: Mapping[str, Converter]) -> Converter | None:
    if weights.convert is None:
        return None
    if weights.convert not in converters:
        raise InvalidValue(
            f"The family has no converter {weights.convert!r} for {weights.source}.",
            hint=did_you_mean(weights.convert, converters),
            param="convert",
        )
    return converters[weights.convert]


def _forbidden(source: Source, offline: bool | None) -> str | None:
    """What forbids fetching, in words; None where it is allowed or nothing is ever fetched."""
    if offline is None:
        return next((f"{s}=1" for s in source.offline_switches if _is_on(s)), None)
    return "offline=True" if offline and source.offline_switches else None


def _is_on(switch: str) -> bool:
    value = os.environ.get(switch, "").lower()
    if value not in TRUTH:
        raise InvalidValue(
            f"{switch} is {os.environ[switch]!r}.", hint="Set it to 1 or 0.", param=switch
        )
    return TRUTH[value]


def _offline_error(model: str, weights: Weights, slot: Slot, forbidden: str) -> WeightsUnavailable:
    named = f" (files: {', '.join(weights.files)})" if weights.files else ""
    return WeightsUnavailable(
        f"{weights.source} is not on this machine{named}, and {forbidden} forbids fetching it.",
        hint=f"On a connected machine run 'jumar models pull {model}', then copy the folder "
        f"{slot.folder.name!r} of its cache to {str(slot.folder.parent)!r} here.",
    )


def _bring(
    here: Path | None,
    source: Source,
    weights: Weights,
    convert: Converter | None,
    slot: Slot,
    job: Job,
) -> Marker:
    """Fetch, check, convert, commit. Until the commit nothing of it is to be seen as weights."""
    raw = slot.part / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    entry, digests = "", {}
    if here is None:
        fetched = source.fetch(raw, job)
        entry, digests = fetched.entry, _checked(raw, fetched, weights, job)
    elif here.is_file():
        shutil.copy2(here, raw)
    if convert is None:
        return slot.commit(raw, entry, digests)
    given = here if here is not None and here.is_dir() else raw
    made = _converted(convert, given, slot.part / "made", weights, job)
    return slot.commit(made, "", hash_all(made, sizes(made), job))


def _checked(raw: Path, fetched: Fetched, weights: Weights, job: Job) -> dict[str, str]:
    """All digests; a wrong file is removed, so that the next try fetches it again."""
    require(raw, weights.files, weights.source)
    digests = hash_all(raw, sizes(raw), job)
    try:
        compare(weights.files, digests, weights.source, by="the manifest")
        compare(fetched.digests, digests, weights.source, by="its origin")
    except DigestMismatch as error:
        (raw / str(error.param)).unlink()
        raise
    return digests


def _converted(convert: Converter, given: Path, made: Path, weights: Weights, job: Job) -> Path:
    job.tell(f"converting {weights.source}", 0)
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    try:
        convert(given, made)
    except JumarError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in FULL:
            raise
        raise WeightsUnavailable(
            f"The converter {weights.convert!r} failed on {weights.source}.",
            hint="The fetched files may be of another version than the converter knows.",
        ) from error
    require(made, (), f"What the converter {weights.convert!r} made")
    return made


def _locate(name: str, weights: Weights, slot: Slot, source: Source) -> Located:
    if (marker := slot.marker()) is not None:
        changed, path = slot.damaged(marker), slot.files / marker.entry
        size = sum(sizes(slot.files).values())
        return Located(name, weights.source, path, size, not changed, tuple(changed))
    here = source.here(offline=False)
    if here is None or weights.convert is not None:
        begun = sum(sizes(slot.part).values())
        lost = tuple(weights.files) if here is None else ()
        return Located(name, weights.source, None, begun, False, lost)
    lost = tuple(missing(here, weights.files))
    return Located(name, weights.source, here, sum(sizes(here).values()), not lost, lost)
