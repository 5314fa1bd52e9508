"""A command in a watched process: any program, in its own environment, with the same outcomes."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from jumar.contracts.errors import DependencyMissing, InvalidValue
from jumar.isolate.frames import Kind
from jumar.isolate.messages import End, Job
from jumar.isolate.outcomes import Outcome, Returned
from jumar.isolate.watched import Watch, Watched, died, existing, merged, started_anew

_SLICE_S = 0.5  # another thread may have read the report that this one waits for


class Command(Watched):
    """A running program; arguments as those of `run`."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str | None] | None = None,
        cwd: str | Path | None = None,
        stdin: bytes = b"",
        keep: int = 1 << 16,
        echo: bool = False,
    ) -> None:
        environ = merged(env)
        job = Job(
            "command", os.getpid(), environ, existing(cwd), _found(argv, environ, cwd), keep, echo
        )
        with tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            super().__init__(started_anew(job, given.fileno()))

    def wait(self, *, deadline: float | None = None, heartbeat: float | None = None) -> Outcome:
        """Wait for its end: `Returned(Output)` for exit code 0, else `Died` or `Hung`.

        Args:
            deadline: Seconds for the whole, from now.
            heartbeat: Longest silence in seconds on both stdout and stderr.
        """
        watch = Watch(deadline, heartbeat)
        try:
            while self.alive:
                if self._over_before(watch.until):
                    continue
                if (quiet := self._asked(Kind.BEAT)) is None:
                    continue  # it has ended meanwhile
                watch.beat(ago=quiet.value())
                watch.check()
        except TimeoutError:
            return watch.hung(self._ended(End(stacks=True)))
        except BaseException:
            self.close()
            raise
        outcome = died(self._ended(), "It was closed.")
        return Returned(outcome.output) if outcome.exit_code == 0 else outcome

    def _over_before(self, until: float | None) -> bool:
        """Whether a report has come, here or to another thread, before `until`."""
        while self.alive:
            now = time.monotonic()
            if until is not None and until <= now:
                return False
            if not self._control.ready(min(until or now + _SLICE_S, now + _SLICE_S)):
                continue
            with self._asking:
                if self._report is None and self._control.ready(now):
                    self._awaited(Kind.REPORT, time.monotonic() + _SLICE_S)
        return True


def run(
    argv: Sequence[str],
    *,
    deadline: float | None = None,
    heartbeat: float | None = None,
    env: Mapping[str, str | None] | None = None,
    cwd: str | Path | None = None,
    stdin: bytes = b"",
    keep: int = 1 << 16,
    echo: bool = False,
) -> Outcome:
    """Run a program to its end: `Returned(Output)` for exit code 0, else `Died` or `Hung`.

    Args:
        argv: Program and arguments; no shell looks at them.
        deadline: Seconds for the whole.
        heartbeat: Longest silence in seconds on both stdout and stderr.
        env: Put over this process's environment; None takes a name away.
        cwd: Its working folder.
        stdin: What it can read.
        keep: How many bytes of the end of stdout, and of stderr, are kept.
        echo: Also pass its output on to ours.

    Raises:
        DependencyMissing: There is no such program.
        InvalidValue: `argv` is empty, or there is no such folder.
        DeadlineExceeded: `deadline` is not positive.
    """
    Watch(deadline, heartbeat)
    with Command(argv, env=env, cwd=cwd, stdin=stdin, keep=keep, echo=echo) as command:
        return command.wait(deadline=deadline, heartbeat=heartbeat)


def _found(
    argv: Sequence[str], environ: Mapping[str, str], cwd: str | Path | None
) -> tuple[str, ...]:
    if not argv:
        raise InvalidValue("There is no command to run.", param="argv")
    program = str(argv[0])
    if os.sep in program:
        found = shutil.which(str(Path(cwd or ".").absolute() / program))
    else:
        found = shutil.which(program, path=environ.get("PATH", os.defpath))
    if found is None:
        raise DependencyMissing(
            f"There is no program {program!r} that can be run.",
            hint="Name it with its folder, or put its folder on PATH.",
        )
    return (found, *(str(argument) for argument in argv[1:]))
