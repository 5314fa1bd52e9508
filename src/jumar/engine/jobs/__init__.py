"""Jobs: requests whose answers are fetched later; see `base` for what a store has to offer."""

from jumar.engine.jobs.base import OVER, Change, Job, JobState, JobStore, now_ms
from jumar.engine.jobs.opening import open_store
from jumar.engine.jobs.redis import RedisStore
from jumar.engine.jobs.running import Jobs
from jumar.engine.jobs.sqlite import SqliteStore

__all__ = [
    "OVER",
    "Change",
    "Job",
    "JobState",
    "JobStore",
    "Jobs",
    "RedisStore",
    "SqliteStore",
    "now_ms",
    "open_store",
]
