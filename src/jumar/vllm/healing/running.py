"""The front and the life of the engine in one process, until a signal or its end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext

from jumar.vllm.healing.front import app
from jumar.vllm.healing.healing import Healing


def run(made: Callable[[], Healing], *, host: str, port: int) -> int:
    """Serve until SIGTERM or SIGINT (exit code 0), or until nothing helps (1)."""
    code, investigating = asyncio.run(_served(made, host, port))
    if investigating:  # its children end with this process, its thread would be waited for
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


async def _served(made: Callable[[], Healing], host: str, port: int) -> tuple[int, bool]:
    import uvicorn

    healing = made()
    config = uvicorn.Config(
        app(healing), host=host, port=port, log_level="warning", timeout_graceful_shutdown=10
    )
    server = uvicorn.Server(config)
    # uvicorn's own handlers raise the signal once more at the end: the exit code would be its.
    server.capture_signals = nullcontext  # type: ignore[assignment,method-assign]
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.handle_exit, number, None)
    life = asyncio.create_task(healing.run())
    life.add_done_callback(lambda _: setattr(server, "should_exit", True))
    try:
        await server.serve()
    finally:
        healing.stop()
    if healing.state == "investigating":
        return 0, True
    await life
    return (1 if healing.state == "failed" else 0), False
