"""The life of a served model: started, proven, served; and after a failure found out and healed.

starting → ready → (it ended, or its steps stand still) → investigating → starting → …
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from jumar.evidence import Evidence, Store
from jumar.isolate import Died
from jumar.vllm.healing.child import Serving, told
from jumar.vllm.healing.goldens import GOLDEN, requests
from jumar.vllm.healing.guilt import Case, looked_into
from jumar.vllm.healing.program import Asked
from jumar.vllm.healing.steps import SHADOW

State = Literal["starting", "ready", "investigating", "failed", "stopped"]

POLL_S = 0.25

USAGE = 2
"""Exit code of a program whose options mean nothing to it (argparse)."""

SERVE = (sys.executable, "-m", "vllm.entrypoints.cli.main", "serve")

Look = Callable[..., tuple[list[Evidence], str]]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """What is asked for. Times are in seconds.

    `shadow`: one step in so many is judged, 0 for none. `silence_s`: how long no step may be taken
    while somebody waits. `restarts`: how often in a row it starts again without anyone found
    guilty, once it could be asked anything.
    """

    flags: Sequence[str]
    device: str
    golden: str | None = None
    shadow: int = 0
    silence_s: float = 60.0
    loading_s: float = 1800.0
    restarts: int = 3


@dataclass
class Healing:
    """A server that is kept alive; `run` returns when `stop` was called or nothing helps."""

    options: Options
    program: Sequence[str] = SERVE
    look: Look = looked_into
    state: State = "starting"
    reason: str = ""
    healed: list[Evidence] = field(default_factory=list)
    starts: int = 0
    serving: Serving | None = None
    asked: dict[int, Asked] = field(default_factory=dict)
    """What callers wait for just now."""

    def __post_init__(self) -> None:
        self._changed = asyncio.Condition()
        self._stopping = asyncio.Event()
        self._in_vain = 0
        self._started = False

    async def run(self) -> None:
        """Start, serve and heal until stopped.

        Raises:
            OutputFailed: evidence cannot be written.
        """
        Store().ready()
        while self.state not in ("failed", "stopped"):
            await self._once()

    def stop(self) -> None:
        """End the server, and `run` with it; who waits for an engine is told so at once."""
        self._stopping.set()
        self._telling = asyncio.create_task(self._look_again())

    @property
    def stopping(self) -> bool:
        """Whether it was told to end."""
        return self._stopping.is_set()

    async def settled(self, past: int = 0, timeout: float | None = None) -> Serving | None:
        """Wait for a server that is ready, started after the `past`-th; None where none will be."""

        def over() -> bool:
            return (
                self.stopping
                or self.state in ("failed", "stopped")
                or (self.state == "ready" and self.starts > past)
            )

        try:
            async with self._changed:
                await asyncio.wait_for(self._changed.wait_for(over), timeout)
        except asyncio.TimeoutError:
            return None
        return self.serving if self.state == "ready" and not self.stopping else None

    # ---- one life of the engine ------------------------------------------------------------------

    async def _once(self) -> None:
        self.starts += 1
        await self._becomes("starting")
        self.serving = Serving([*self.program, *self.options.flags], _free_port(), self._environ())
        try:
            hung = await self._served(self.serving)
            if self.stopping:
                await self._becomes("stopped")
                return
            await self._heal(self.serving, hung)
        finally:
            await self.serving.close()

    async def _served(self, serving: Serving) -> str | None:
        """Until it ends or is told to; why, where its steps stood still."""
        import httpx

        began = time.monotonic()
        async with httpx.AsyncClient(trust_env=False) as client:
            while serving.alive and not self.stopping:
                if self.state == "ready":
                    if (silent := serving.silent_s(bool(self.asked))) > self.options.silence_s:
                        return f"No step was taken for {silent:.0f} s while callers waited."
                elif await serving.healthy(client):
                    self._started = True
                    await self._becomes("ready")
                elif time.monotonic() - began > self.options.loading_s:
                    return f"It was not ready after {self.options.loading_s:g} s."
                await serving.ended(POLL_S)
        return None

    async def _heal(self, serving: Serving, hung: str | None) -> None:
        if (refused := serving.golden_refused) is not None:
            await self._gives_up(refused)
            return
        asked = list(self.asked.values())
        ended = await serving.end()
        why = hung or serving.golden_failed or told(ended)
        if isinstance(ended, Died) and ended.exit_code == USAGE:
            await self._gives_up(why)
            return
        await self._becomes("investigating", why)
        log.error("The engine of vLLM failed: %s", why)
        found = serving.guilty
        if not found:
            wrong = serving.golden_failed is not None
            if wrong and self.options.golden is not None:
                asked = requests(self.options.golden)
            case = Case(
                self.options.flags,
                asked,
                self.options.device,
                self.options.loading_s,
                self.options.silence_s,
            )
            found, failed = await asyncio.to_thread(self.look, case, answers_wrong=wrong)
            if failed:
                log.error("It was looked into, and that failed too: %s", failed)
        for one in found:
            Store().add(one)
            log.error("Found guilty: %s %s (evidence %s). %s", one.subject, one.verdict, one.id,
                      one.reason)  # fmt: skip
        self.healed += found
        self._started |= serving.golden_failed is not None
        self._in_vain = 0 if found else self._in_vain + 1
        if self._in_vain > (self.options.restarts if self._started else 0):
            await self._gives_up(f"{why} No operator was found guilty.")
        else:
            log.warning("It starts again%s.", " with that quarantined" if found else "")

    async def _gives_up(self, why: str) -> None:
        log.error("It gives up: %s", why)
        await self._becomes("failed", why)

    async def _becomes(self, state: State, reason: str = "") -> None:
        async with self._changed:
            self.state, self.reason = state, reason
            self._changed.notify_all()

    async def _look_again(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _environ(self) -> dict[str, str]:
        environ = {SHADOW: str(self.options.shadow)}
        if self.options.golden is not None:
            environ[GOLDEN] = self.options.golden
        return environ

    def as_dict(self) -> dict[str, Any]:
        """What `/jumar/health` says."""
        return {
            "state": self.state,
            "reason": self.reason,
            "starts": self.starts,
            "waiting": len(self.asked),
            "healed": [
                {
                    "operator": one.subject.operator,
                    "implementation": one.subject.implementation,
                    "verdict": one.verdict,
                    "evidence": one.id,
                }
                for one in self.healed
            ],
        }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
