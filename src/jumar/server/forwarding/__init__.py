"""Models that other servers run, behind the same door: passed on as they come, byte for byte.

The operator names each one and its address (`--upstream NAME=URL`); callers only name models. What
is refused, fails or is no answer there becomes an error of Jumar's tree here.
"""

from __future__ import annotations
