"""Pictures and video from any pipeline class of diffusers: a manifest, not a module."""
