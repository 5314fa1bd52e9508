"""`jumar bisect`."""
