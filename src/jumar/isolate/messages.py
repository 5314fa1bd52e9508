"""What parent, zygote and guard tell each other, beside the calls of a child."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jumar.isolate.outcomes import Failure, Output, Stacks

KILL_S = 10.0  # SIGKILL is not heard in uninterruptible sleep, where a driver may hold a process


@dataclass(frozen=True)
class Job:
    """What a guard is to run: `body` is a key of `bodies.BODIES`, `argv` is that of a command.

    `keep` bytes of each output stream are kept; `echo` also passes them on. `owner` is the parent.
    """

    body: str
    owner: int
    environ: Mapping[str, str]
    cwd: str
    argv: tuple[str, ...] = ()
    keep: int = 1 << 16
    echo: bool = False


@dataclass(frozen=True)
class End:
    """How to end a child: wait `patience` s, take its stacks, SIGTERM, `grace` s, SIGKILL."""

    patience: float = 0.0
    stacks: bool = False
    grace: float = 1.0


@dataclass(frozen=True)
class Report:
    """How a child ended: `status` of `os.waitpid`, None if unknown; `ended` if the guard did it."""

    status: int | None = None
    ended: bool = False
    stacks: Stacks = field(default_factory=Stacks)
    output: Output = field(default_factory=Output)
    out_of_memory: bool | None = None
    left: tuple[int, ...] = ()


@dataclass(frozen=True)
class Preload:
    """What a zygote is to import, on which path, and for whom."""

    owner: int
    path: tuple[str, ...]
    modules: tuple[str, ...]


@dataclass(frozen=True)
class Ready:
    """`failure`: an import raised. `unsafe`: why children must not be forked, else empty."""

    failure: Failure | None = None
    unsafe: str = ""
