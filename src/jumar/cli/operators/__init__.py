"""`jumar operators`: names, policies, and what was found out about both."""
