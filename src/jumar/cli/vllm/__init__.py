"""`jumar vllm serve|golden|status|patches`."""
