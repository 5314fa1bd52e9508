"""The engine: requests in, results and reports out."""

from jumar.engine.life import PlacedModel, embed, generate, load, validate

__all__ = ["PlacedModel", "embed", "generate", "load", "validate"]
