"""What commands that read texts have in common: where they run, and the texts."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from jumar.cli.flags import complete_model
from jumar.cli.isolating import investigator
from jumar.cli.naming import known
from jumar.cli.progress import watching
from jumar.cli.stopping import stoppable
from jumar.contracts.errors import InvalidInput

if TYPE_CHECKING:
    from jumar.contracts.results import StageEventRecord
    from jumar.engine import PlacedModel, WatchedModel
    from jumar.engine.life import Isolate


def place_options(what: str, default: str | None = None) -> Callable[[Any], Any]:
    """--model, of which `what` says what it has to be, and --device."""

    # Said to be None, a default is a value for click, and nothing is missing.
    needed: dict[str, Any] = {"required": True} if default is None else {"default": default}

    def with_them(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    options = (
        click.option(
            "--model",
            "-m",
            metavar="MODEL",
            shell_complete=complete_model,
            show_default=True,
            help=what,
            **needed,
        ),
        click.option(
            "--device",
            "--backend",
            "-d",
            "backend",
            default="auto",
            metavar="DEVICE",
            help="auto, cpu, cuda[:N], npu[:N], npu:free.",
        ),
    )
    return with_them


class Where(NamedTuple):
    """The model, and where it is to run: what `place_options` and `isolation_options` ask for."""

    task: str
    model: str
    backend: str
    isolate: Isolate
    heartbeat: float | None
    load_heartbeat: float | None
    heal: str

    def watched(self) -> dict[str, Any]:
        """What only a process of its own is given."""
        return {
            "heartbeat": self.heartbeat,
            "load_heartbeat": self.load_heartbeat,
            "investigate": investigator(self.heal),
        }

    def open(self, **heard: Any) -> AbstractContextManager[PlacedModel | WatchedModel]:
        """Load it, here or in a process of its own."""
        from jumar import engine

        given = {"task": self.task, "backend": self.backend, **heard}
        if engine.isolated(self.isolate, self.backend):
            return engine.watch(known(self.model), **self.watched(), **given)
        return engine.load(known(self.model), **given)


class Read(NamedTuple):
    """A value for each text, and what the model said of its head."""

    values: Any
    head: dict[str, Any] | None


def read(where: Where, texts: list[str], given: dict[str, Any], quiet: bool) -> Read:
    """The values; loading is shown and can be stopped, as in a run."""
    told: list[str] = []
    heads: list[dict[str, Any]] = []

    def hear(event: StageEventRecord) -> None:
        if event.event == "warning":
            told.append(event.data["text"])
        if event.event == "tokenized" and "head" in event.data:
            heads.append(event.data["head"])
        if watch.listener is not None:
            watch.listener(event)

    def work(cancel: threading.Event) -> Any:
        with where.open(listener=watch.listener, cancel=cancel) as placed:
            return placed.encode(texts, listener=hear, cancel=cancel, **given)

    with watching(quiet=quiet, verbose=False) as watch:
        values = stoppable(work, on_first=watch.stopping, on_second=watch.close)
    for warning in () if quiet else told:
        click.secho(f"warning: {warning}", fg="yellow", err=True)
    return Read(values, heads[-1] if heads else None)


def lines_of(file: str | None) -> list[str]:
    """A text per line; `-` is stdin."""
    if file is None:
        return []
    try:
        content = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"Cannot read the texts in {file}.", param="file") from error
    return [line for line in content.splitlines() if line.strip()]
