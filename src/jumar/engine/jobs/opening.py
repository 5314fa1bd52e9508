"""Which store an operator means."""

from __future__ import annotations

from pathlib import Path

from jumar.contracts.errors import InvalidValue
from jumar.engine.jobs.base import JobStore
from jumar.engine.jobs.redis import RedisStore
from jumar.engine.jobs.sqlite import SqliteStore

_REDIS = ("redis", "rediss", "unix")


def open_store(address: str | None, file: Path) -> JobStore:
    """A Redis at an address; without one, SQLite in a file.

    Raises:
        InvalidValue: an address of something else.
        JumarError: as `RedisStore` and `SqliteStore`.
    """
    if address is None:
        return SqliteStore(file)
    if address.partition("://")[0] not in _REDIS:
        raise InvalidValue(
            "A job store is a Redis: redis://HOST:PORT/DB, rediss://… or unix://PATH.",
            hint="Without --job-store it is a file in --data-dir.",
            param="job-store",
        )
    return RedisStore(address)
