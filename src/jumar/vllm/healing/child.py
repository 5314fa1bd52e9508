"""The `vllm serve` that is watched: its process, its health, and whether its steps go on."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jumar.evidence import Evidence
from jumar.isolate import Command, Died, Hung, Outcome
from jumar.vllm.healing.goldens import FAILED, REFUSED
from jumar.vllm.healing.steps import STATE, beats, found_by_shadow

HEALTH_S = 5.0
"""Within this an API server answers about its health, whatever its engine computes."""


class Serving:
    """One `vllm serve` on a private port of this machine, from start to end.

    `state` is a folder of its own that goes with it.
    """

    def __init__(self, command: Sequence[str], port: int, environ: Mapping[str, str]) -> None:
        self.state = Path(tempfile.mkdtemp(prefix="jumar-vllm-"))
        self.address = f"http://127.0.0.1:{port}"
        argv = [*command, "--host", "127.0.0.1", "--port", str(port)]
        self._command = Command(argv, env={**environ, STATE: str(self.state)}, echo=True)
        self._ended: asyncio.Task[Outcome] = asyncio.create_task(
            asyncio.to_thread(self._command.wait), name="vllm"
        )
        self._counts: dict[str, int] = {}
        self._moved = time.monotonic()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return not self._ended.done()

    @property
    def golden_failed(self) -> str | None:
        """What its golden answers were not, where they failed."""
        return self._told(FAILED)

    @property
    def golden_refused(self) -> str | None:
        """Why they cannot be held against it, where they cannot."""
        return self._told(REFUSED)

    @property
    def guilty(self) -> list[Evidence]:
        """Whom its own shadow found guilty."""
        return found_by_shadow(self.state)

    def _told(self, name: str) -> str | None:
        told = self.state / name
        return told.read_text() if told.exists() else None

    async def ended(self, timeout: float) -> Outcome | None:
        """How it ended; None where it still runs after `timeout` seconds."""
        done, _ = await asyncio.wait({self._ended}, timeout=timeout)
        return self._ended.result() if done else None

    def silent_s(self, busy: bool) -> float:
        """Seconds without a step of any worker; 0 while nobody asks anything."""
        now, counts = time.monotonic(), beats(self.state)
        if counts != self._counts or not busy:
            self._counts, self._moved = counts, now
        return now - self._moved

    async def healthy(self, client: Any) -> bool:
        """Whether it says so itself."""
        import httpx

        try:
            answer = await client.get(f"{self.address}/health", timeout=HEALTH_S)
            return bool(answer.status_code == 200)
        except httpx.TransportError:
            return False

    async def end(self, grace: float = 10.0) -> Outcome:
        """End it and all its processes; how it ended."""
        await asyncio.to_thread(self._command.close, grace)
        return await self._ended

    async def close(self) -> None:
        """End it, and forget its folder."""
        await self.end()
        shutil.rmtree(self.state, ignore_errors=True)


def told(outcome: Outcome) -> str:
    """How it ended, for people, with the last line that says something."""
    if isinstance(outcome, Hung | Died):
        said = outcome.output.last_line() if isinstance(outcome, Died) else ""
        return f"{outcome.reason} {said}".strip()
    return "vLLM ended by itself, as it does when its engine has died."
