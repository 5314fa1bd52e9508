"""One watched child for everything that may crash or hang: workers, probes, trials, commands.

>>> from jumar.isolate import Zygote, run
>>> with Zygote(preload=["torch"]) as zygote:
...     child = zygote.spawn(make_worker, "all-minilm-l6-v2")   # make_worker(model) -> answer
...     outcome = child.call("some text", deadline=30, heartbeat=10)
>>> match outcome:
...     case Returned(value): ...                  # what the worker's function returned
...     case Raised(failure): ...                  # its exception, as data
...     case Died(signal=number, exit_code=code): ...
...     case Hung(stacks=stacks): ...              # ended by the watchdog; where it stood
>>> run(["voice", "--text", "hello"], deadline=60, heartbeat=10)   # the same for a command

Three processes stand behind each child. The *zygote* has the heavy imports done and is forked. The
*guard* is the child's only parent: it keeps its output, takes its stacks, ends it with all its
descendants and tells how it ended. The *child* does the work. See docs/isolation.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumar.isolate.child import Child
    from jumar.isolate.command import Command, run
    from jumar.isolate.outcomes import (
        Died,
        Failure,
        Hung,
        Outcome,
        Output,
        Raised,
        Returned,
        Stacks,
    )
    from jumar.isolate.worker import progress, tell
    from jumar.isolate.zygote import Zygote

__all__ = [
    "Child",
    "Command",
    "Died",
    "Failure",
    "Hung",
    "Outcome",
    "Output",
    "Raised",
    "Returned",
    "Stacks",
    "Zygote",
    "progress",
    "run",
    "tell",
]

_HOMES = {
    "Child": "child",
    "Command": "command",
    "run": "command",
    "progress": "worker",
    "tell": "worker",
    "Zygote": "zygote",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'outcomes')}"), name)
