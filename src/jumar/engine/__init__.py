"""The engine: requests in, results and reports out."""

from jumar.engine.life import embed, generate, isolated, load, validate, watch
from jumar.engine.placed import PlacedModel
from jumar.engine.watched import WatchedModel

__all__ = [
    "PlacedModel",
    "WatchedModel",
    "embed",
    "generate",
    "isolated",
    "load",
    "validate",
    "watch",
]
