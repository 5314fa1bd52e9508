"""How a call or a command ended: exactly one of `Returned`, `Raised`, `Died`, `Hung`.

All are plain data. `outcome.result()` gives the value, or raises the rest as a `JumarError`.
"""

from __future__ import annotations

import signal as signals
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn, Union

from jumar.contracts.errors import DeadlineExceeded, JumarError, RunFailed, with_code


@dataclass(frozen=True)
class Output:
    """The end of what a child wrote, and how many bytes before it were let go."""

    stdout: bytes = b""
    stderr: bytes = b""
    stdout_dropped: int = 0
    stderr_dropped: int = 0

    def last_line(self) -> str:
        """The last line with something in it, of stderr if it has one, else of stdout."""
        for written in (self.stderr, self.stdout):
            lines = written.decode("utf-8", "replace").split("\n")
            if said := [line.strip() for line in lines if line.strip()]:
                return said[-1]
        return ""


@dataclass(frozen=True)
class Stacks:
    """Where a child stood: Python's frames (faulthandler), and the native ones (py-spy).

    Either is empty where it could not be had; `reason` then says why.
    """

    python: str = ""
    native: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Failure:
    """An exception of a child as data; `code`, `hint` and `param` are those of a `JumarError`.

    `causes` are the (type, text) pairs of its ``__cause__`` chain, outermost first.
    """

    type: str
    message: str
    traceback: str
    code: str | None = None
    hint: str | None = None
    param: str | None = None
    causes: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Read an exception. One whose own ``str`` raises is shown by its type alone."""
        import traceback

        known = error if isinstance(error, JumarError) else None
        return cls(
            type=_name(error),
            message=_text(error),
            traceback="".join(traceback.format_exception(type(error), error, error.__traceback__)),
            code=known.code if known else None,
            hint=known.hint if known else None,
            param=known.param if known else None,
            causes=tuple((type(link).__name__, _text(link)) for link in _causes(error)),
        )

    def error(self) -> JumarError:
        """The `JumarError` that this was, with its causes; of any other exception a `RunFailed`."""
        if kind := with_code(self.code):
            error = kind(self.message, hint=self.hint, param=self.param)
            causes = self.causes
        else:
            error = RunFailed(f"{self.type}: {self.message}" if self.message else self.type)
            causes = ((self.type, self.message), *self.causes)
        link: BaseException = error
        for name, text in causes:
            link.__cause__ = type(name, (Exception,), {})(text)
            link = link.__cause__
        return error


@dataclass(frozen=True)
class Returned:
    """It ended well: `value` is what the function returned; of a command, its `Output`."""

    value: Any

    def result(self) -> Any:
        """The value."""
        return self.value


@dataclass(frozen=True)
class Raised:
    """The function raised. The child goes on and takes the next call."""

    failure: Failure

    def result(self) -> NoReturn:
        """Raise it, as `Failure.error` makes it."""
        raise self.failure.error()


@dataclass(frozen=True)
class Died:
    """The process ended, by a signal or with an exit code; neither where the guard was lost too.

    `reason` is a sentence for people. `stacks.python` is where a crash happened, by faulthandler.
    `out_of_memory`: the kernel's counter of such kills rose during its life and SIGKILL ended it; a
    guess, and None where no counter can be read. `left`: processes that even SIGKILL did not end.
    """

    reason: str
    signal: int | None = None
    exit_code: int | None = None
    stacks: Stacks = field(default_factory=Stacks)
    output: Output = field(default_factory=Output)
    out_of_memory: bool | None = None
    left: tuple[int, ...] = ()

    def result(self) -> NoReturn:
        """Raise it as a `RunFailed` that quotes the last line it wrote."""
        said = self.output.last_line()
        raise RunFailed(f"{self.reason} It last wrote: {said}" if said else self.reason)


@dataclass(frozen=True)
class Hung:
    """The watchdog ended it. `limit` is "deadline" or "heartbeat", `seconds` the limit's value.

    `progress` is the last (done, total) that it reported, None before the first.
    """

    limit: str
    seconds: float
    progress: tuple[int, int | None] | None = None
    stacks: Stacks = field(default_factory=Stacks)
    output: Output = field(default_factory=Output)
    left: tuple[int, ...] = ()

    @property
    def reason(self) -> str:
        """A sentence for people."""
        what = "was not done after" if self.limit == "deadline" else "made no progress for"
        return f"It {what} {self.seconds:g} s and was ended."

    def result(self) -> NoReturn:
        """Raise it: `DeadlineExceeded`, or `RunFailed` where the time limit was still far."""
        raise (DeadlineExceeded if self.limit == "deadline" else RunFailed)(self.reason)


Outcome = Union[Returned, Raised, Died, Hung]  # noqa: UP007  (an object at run time on 3.10 too)


def said(number: int) -> str:
    """A signal's name and meaning: ``SIGSEGV (Segmentation fault)``."""
    try:
        return f"{signals.Signals(number).name} ({signals.strsignal(number)})"
    except ValueError:  # a real-time signal has a number only
        return f"signal {number}"


def _name(error: BaseException) -> str:
    kind = type(error)
    plain = kind.__module__ == "builtins" or isinstance(error, JumarError)
    return kind.__name__ if plain else f"{kind.__module__}.{kind.__qualname__}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001  (foreign code; what it raised is named)
        return f"<its __str__ raises {type(broken).__name__}>"


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen = {id(error)}
    while (error := error.__cause__) is not None and id(error) not in seen:  # type: ignore[assignment]
        seen.add(id(error))
        yield error
