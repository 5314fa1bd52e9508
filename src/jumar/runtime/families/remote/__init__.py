"""Models that a server runs: Jumar asks, and looks at the answer.

async with Client(service) as client:            # for a file's whole content, and for passing on
    async with client.stream(route, body) as answer: ...
"""

from __future__ import annotations

from jumar.runtime.families.remote.family import Remote

__all__ = ["Remote"]
