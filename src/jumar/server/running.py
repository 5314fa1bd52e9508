"""A server from its first word to its last process."""

from __future__ import annotations

import atexit
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from types import FrameType

import uvicorn

from jumar.contracts.errors import InvalidValue
from jumar.server.app import application
from jumar.server.desk import Desk

KEEP_ALIVE_S = 75
"""For an idle connection. Longer than clients keep theirs (httpx, and so OpenAI's: 5 s, as uvicorn
by itself), so that none sends a request just when the server hangs up.
"""
_LINES_S = 0.01


class Server(uvicorn.Server):
    """uvicorn's, which tells the desk of a signal at once, and the operator of the address."""

    def __init__(
        self, desk: Desk, config: uvicorn.Config, listening: Callable[[str], None]
    ) -> None:
        super().__init__(config)
        self._desk = desk
        self._listening = listening

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal: nothing new, what runs may end. The second: now."""
        if not self.should_exit:
            threading.Thread(target=self._desk.stop, name="jumar-stop", daemon=True).start()
        super().handle_exit(sig, frame)

    def _log_started_message(self, listeners: object) -> None:
        self._listening(self.address)

    @property
    def address(self) -> str:
        """Where it listens; the port is known once it does."""
        if self.config.uds:
            return f"unix:{self.config.uds}"
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def serve(
    desk: Desk,
    *,
    host: str,
    port: int,
    uds: str | None = None,
    grace: float = 30.0,
    listening: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve until SIGTERM or SIGINT; then let running work end, for `grace` seconds at most.

    `listening` is called with the address once callers can come.

    Raises:
        InvalidValue: it cannot listen there.
    """
    config = uvicorn.Config(
        application(desk),
        host=host,
        port=port,
        uds=uds,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=round(grace),
        timeout_keep_alive=KEEP_ALIVE_S,
        server_header=False,
    )
    server = Server(desk, config, listening)
    if uds and _answers(uds):  # asyncio would remove it, and nobody could reach that server again
        raise InvalidValue(f"Cannot listen on {uds}: another server does.", param="uds")
    # uvicorn raises the signal once more when it has stopped: this server ends by returning.
    before = {sig: signal.signal(sig, lambda *_: None) for sig in (signal.SIGTERM, signal.SIGINT)}
    try:
        server.run()
    except (SystemExit, OSError) as error:  # uvicorn logs why no port, and exits
        if server.started:
            raise
        where, param = (uds, "uds") if uds else (f"{host}:{port}", "port")
        cause = error if isinstance(error, OSError) else None
        raise InvalidValue(
            f"Cannot listen on {where}.", hint="--port 0 takes one that is free.", param=param
        ) from cause
    finally:
        for sig, handler in before.items():
            signal.signal(sig, handler)
        if uds and server.started:  # else what is there is not this server's
            Path(uds).unlink(missing_ok=True)


def _answers(uds: str) -> bool:
    """Whether somebody listens on a Unix socket; one that was left behind is free."""
    with socket.socket(socket.AF_UNIX) as caller:
        try:
            caller.connect(uds)
        except OSError:
            return False
    return True


class _Lines(logging.Handler):
    """Hands lines over to the thread that writes them."""

    def __init__(self, lines: SimpleQueue[str | None]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Let it be written."""
        self._lines.put(self.format(record))


def _write(lines: SimpleQueue[str | None]) -> None:
    """Write lines until there is None, those of `_LINES_S` seconds at once: to wake this thread for
    each would take longer than the writing.
    """
    ready: list[str | None] = []
    while None not in ready:
        ready = [lines.get()]
        time.sleep(_LINES_S)
        while not lines.empty():
            ready.append(lines.get())
        with suppress(OSError, ValueError):  # nobody reads it any more
            sys.stderr.write("".join(f"{line}\n" for line in ready if line is not None))
            sys.stderr.flush()


def log_to_stderr(level: str) -> None:
    """One JSON line per request as it is; other messages with time, level and name.

    A thread writes them: whoever reads stderr slowly, or not at all, keeps no request waiting.
    """
    lines: SimpleQueue[str | None] = SimpleQueue()
    writing = threading.Thread(target=_write, args=(lines,), name="jumar-log", daemon=True)
    writing.start()

    def end() -> None:  # what is left is written first
        lines.put(None)
        writing.join()

    atexit.register(end)

    def into(form: str) -> logging.Handler:
        handler = _Lines(lines)
        handler.setFormatter(logging.Formatter(form))
        return handler

    told = into("%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.basicConfig(level=logging.WARNING, handlers=[told])
    access = logging.getLogger("jumar.access")
    access.handlers, access.propagate = [into("%(message)s")], False
    access.setLevel(logging.DEBUG if level == "debug" else logging.INFO)
    logging.getLogger("jumar").setLevel(level.upper())
    # uvicorn 0.54 logs an error for a WebSocket that is refused with a status, which is no fault.
    logging.getLogger("uvicorn.error").addFilter(
        lambda record: "without completing handshake" not in record.getMessage()
    )
