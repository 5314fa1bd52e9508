"""A foreign command in trials: an environment variable tells it which operators to leave alone."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jumar.isolate import Died, Hung, Returned, run
from jumar.lab.base import Override, Overrides, Verdict
from jumar.lab.trials import LEAST, PATIENCE, stopped

LONGEST = 600.0
"""Seconds for the first run, with everything off, that the limit of all others follows from."""

_OUT_OF_MEMORY = ("OutOfMemoryError", "out of memory", "error[insufficient_memory]")


@dataclass(frozen=True)
class Command:
    """A `Check` of a program: what is not on stands in `variable`, separated by commas.

    What the variable holds already stays there. It passes with exit code 0 within `limit` seconds,
    and where `expect` is said, with that text in its output.
    """

    argv: Sequence[str]
    operators: Sequence[str]
    variable: str
    limit: float = LONGEST
    expect: str | None = None

    @property
    def overrides(self) -> list[Override]:
        """All that can be switched."""
        return [Override(name, "device") for name in self.operators]

    def __call__(self, on: Overrides) -> Verdict:
        """Run it with only these on."""
        names = {one.operator for one in on}
        off = [name for name in self.operators if name not in names]
        outcome = run(
            self.argv, deadline=self.limit, env={self.variable: self.denying(off)}, keep=1 << 20
        )
        if isinstance(outcome, Died):
            return _died(outcome)
        if isinstance(outcome, Hung):
            return stopped(outcome)
        assert isinstance(outcome, Returned)
        written = outcome.value.stdout + outcome.value.stderr
        if self.expect is not None and self.expect not in written.decode("utf-8", "replace"):
            return Verdict("wrong", f"{self.expect!r} is not in its output.")
        return Verdict("correct", "It ended with exit code 0.")

    def measured(self) -> Command:
        """The same with a limit that follows from how long it takes with everything off."""
        begun = time.monotonic()
        self(frozenset())
        return replace(self, limit=max(LEAST, PATIENCE * (time.monotonic() - begun)))

    def denying(self, names: Sequence[str]) -> str:
        """What the variable holds where these are off."""
        return ",".join([*filter(None, [os.environ.get(self.variable)]), *names])

    def line(self, off: Sequence[str]) -> str:
        """The command line of a shell that runs it with these off."""
        return f"{self.variable}={shlex.quote(self.denying(off))} {shlex.join(self.argv)}"


def _died(outcome: Died) -> Verdict:
    """A signal is an abort, an exit code is told as it is; out of memory is no verdict."""
    verdict = stopped(outcome)
    said = outcome.output.last_line()
    if verdict.kind == "aborts" and any(word in said for word in _OUT_OF_MEMORY):
        return replace(verdict, kind="out_of_memory")
    return verdict if outcome.exit_code is None else replace(verdict, kind="raises")
