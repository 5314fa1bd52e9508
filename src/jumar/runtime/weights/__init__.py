"""Weights on disk: from a folder, an installed package, a registry package or a hub.

    path = ensure(manifest, "model", converters=family.converters, progress=show)
    for row in where(manifest): print(row.name, row.path, row.complete)

One cache (`JUMAR_CACHE`, else the user's cache folder); a set of weights in it is whole, checked
and converted, or it is not there. `base.py` says what a source is; `sources.py` lists them.
"""

from jumar.runtime.weights.base import Job, Progress, Source
from jumar.runtime.weights.cache import cache_root
from jumar.runtime.weights.ensure import Located, ensure, ensure_all, plan, where
from jumar.runtime.weights.sources import SCHEMES, source_of

__all__ = [
    "SCHEMES",
    "Job",
    "Located",
    "Progress",
    "Source",
    "cache_root",
    "ensure",
    "ensure_all",
    "plan",
    "source_of",
    "where",
]
