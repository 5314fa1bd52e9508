"""Operators: what they are called here, who may compute them, and who does."""
