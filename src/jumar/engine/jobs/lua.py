"""What a job store in Redis does in one step: scripts, and the keys that they use.

| key, after `jumar:` | |
|---|---|
| `job:ID`, `events:ID`, `told:ID` | the job as JSON; its newest events; how many it has had |
| `jobs`, `state:STATE` | ids by age: all, and those of a state |
| `over` | ids by the millisecond in which they came to their end |
| `owners`, `server:ID` | the server of each job; there for as long as the server is heard of |
| `changed`, `cancel:SERVER` | channels: jobs that have changed, jobs that a server is to stop |

The scripts make the names of keys themselves, which a Redis Cluster does not allow.
"""

from __future__ import annotations

from typing import get_args

from jumar.engine.jobs.base import OVER, JobState

_PREFIX = "jumar:"


def key(*parts: str) -> str:
    """The name of a key or a channel."""
    return _PREFIX + ":".join(parts)


def _lua(words: tuple[str, ...]) -> str:
    return "{" + ", ".join(f"'{word}'" for word in words) + "}"


_STATES = get_args(JobState)
_LIVE = tuple(state for state in _STATES if state not in OVER)
_NAMES = f"local P, STATES, LIVE = '{_PREFIX}', {_lua(_STATES)}, {_lua(_LIVE)}"

PUT = (
    _NAMES
    + """
local id, state, at, finished, body, me = unpack(ARGV)
local owner = redis.call('HGET', P .. 'owners', id)
if owner and owner ~= me then return 0 end
redis.call('HSET', P .. 'owners', id, me)
local age = redis.call('ZSCORE', P .. 'jobs', id)
if not age then  -- jobs of the same millisecond in the order in which they came
  age = at + (redis.call('INCR', P .. 'count') % 4096) / 4096
  redis.call('ZADD', P .. 'jobs', age, id)
end
for _, other in ipairs(STATES) do redis.call('ZREM', P .. 'state:' .. other, id) end
redis.call('ZADD', P .. 'state:' .. state, age, id)
redis.call('ZREM', P .. 'over', id)
if finished ~= '' then redis.call('ZADD', P .. 'over', finished, id) end
redis.call('SET', P .. 'job:' .. id, body)
redis.call('PUBLISH', P .. 'changed', id)
return 1
"""
)
"""id, state, asked for (ms), ended (ms) or '', body, server -> 0 where another server has it."""

TELL = (
    _NAMES
    + """
local id, body, most = unpack(ARGV)
local list = P .. 'events:' .. id
if redis.call('LINDEX', list, -1) == body then return end  -- sent again, as no answer came
redis.call('RPUSH', list, body)
redis.call('LTRIM', list, -most, -1)
redis.call('INCR', P .. 'told:' .. id)
redis.call('PUBLISH', P .. 'changed', id)
"""
)
"""id, body, how many are kept."""

CLAIM = (
    _NAMES
    + """
local me, found = ARGV[1], {}
for _, state in ipairs(LIVE) do
  for _, id in ipairs(redis.call('ZREVRANGE', P .. 'state:' .. state, 0, -1)) do
    local owner = redis.call('HGET', P .. 'owners', id) or ''
    local body = redis.call('GET', P .. 'job:' .. id)
    if body and owner ~= me and redis.call('EXISTS', P .. 'server:' .. owner) == 0 then
      redis.call('HSET', P .. 'owners', id, me)
      found[#found + 1] = body
    end
  end
end
return found
"""
)
"""server -> the bodies of the jobs that it has from now on."""

DELETE = (
    _NAMES
    + """
local id = ARGV[1]
for _, other in ipairs(STATES) do redis.call('ZREM', P .. 'state:' .. other, id) end
redis.call('ZREM', P .. 'over', id)
redis.call('HDEL', P .. 'owners', id)
redis.call('DEL', P .. 'job:' .. id, P .. 'events:' .. id, P .. 'told:' .. id)
redis.call('PUBLISH', P .. 'changed', id)
return redis.call('ZREM', P .. 'jobs', id)
"""
)
"""id -> 1 where there was such a job."""
