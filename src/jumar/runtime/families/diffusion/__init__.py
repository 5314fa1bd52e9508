"""Pictures and video from any pipeline class of diffusers: a manifest, not a module."""

from __future__ import annotations

from jumar.runtime.families.diffusion.family import Diffusion

__all__ = ["Diffusion"]
