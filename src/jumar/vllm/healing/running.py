"""The front and the life of the engine in one process, until a signal or its end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import nullcontext

from jumar.contracts.errors import InvalidValue
from jumar.vllm.healing.front import app
from jumar.vllm.healing.healing import Healing

log = logging.getLogger(__name__)

GRACE_S = 10.0
"""After a signal nobody new is let in, and callers get this long for their answers. Then the engine
ends, and those that have none yet are told so."""

ENDING_S = 15.0
"""How long that takes at most: an engine that does not end by itself is killed after ten seconds.
Orchestrators kill thirty seconds after their signal (Kubernetes)."""


def run(made: Callable[[], Healing], *, host: str, port: int) -> int:
    """Serve until SIGTERM or SIGINT (exit code 0), or until nothing helps (1).

    After a signal it ends within `GRACE_S + ENDING_S`, each caller with an answer or an error.

    Raises:
        InvalidValue: it cannot listen there; no engine was started.
    """
    with _listening(host, port) as listener:
        return asyncio.run(_served(made, listener))


async def _served(made: Callable[[], Healing], listener: socket.socket) -> int:
    import uvicorn

    healing = made()
    patience = round(GRACE_S + ENDING_S)
    config = uvicorn.Config(app(healing), log_level="warning", timeout_graceful_shutdown=patience)
    server = uvicorn.Server(config)
    # uvicorn's own handlers raise the signal once more at the end: the exit code would be its.
    server.capture_signals = nullcontext  # type: ignore[assignment,method-assign]
    loop = asyncio.get_running_loop()

    def leave(number: int) -> None:
        server.handle_exit(number, None)
        loop.call_later(GRACE_S, healing.stop)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, leave, number)
    telling = asyncio.create_task(_tell(healing, _address(listener)))
    life = asyncio.create_task(healing.run())
    life.add_done_callback(lambda _: setattr(server, "should_exit", True))
    try:
        await server.serve(sockets=[listener])
    finally:
        healing.stop()
        telling.cancel()
    if healing.state == "investigating":
        life.cancel()
        await asyncio.wait({life})
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # whose thread looks into it would be waited for; its children end with us
    await life
    return 1 if healing.state == "failed" else 0


async def _tell(healing: Healing, address: str) -> None:
    """Where callers come, and since when: the engine's own log names a port that is not theirs."""
    log.warning("Listening on %s; GET /jumar/health says how it goes.", address)
    while await healing.settled(healing.starts if healing.state == "ready" else 0):
        log.warning("Ready: %s answers.", address)


def _listening(host: str, port: int) -> socket.socket:
    """Held before an engine is started, which takes a minute and would be in vain."""
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        raise InvalidValue(
            f"Cannot listen on {host}:{port}: {error.strerror}.",
            hint="--port 0 takes one that is free.",
            param="port",
        ) from error


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
