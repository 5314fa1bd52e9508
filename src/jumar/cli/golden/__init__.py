"""`jumar golden record|verify|diff`."""
