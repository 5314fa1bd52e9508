"""A server with OpenAI's speech route, on a thread: it speaks, or fails in the way it is told."""

from __future__ import annotations

import io
import json
import threading
import time
import wave
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECONDS, RATE = 0.5, 24_000
PIECES = 5


def wav() -> bytes:
    """Half a second of a rising tone."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(RATE)
        samples = ((place * place // 997) % 20_000 for place in range(int(SECONDS * RATE)))
        sound.writeframes(b"".join(one.to_bytes(2, "little") for one in samples))
    return file.getvalue()


class SpeechServer:
    """`says` are behaviours, one per request, the last for all further ones."""

    def __init__(self, *says: Callable[[Handler], None]) -> None:
        self.says = list(says or (speak,))
        self.asked: list[dict[str, Any]] = []
        self.gone = threading.Event()
        """Set where a caller left before the answer was complete."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.owner = self  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> SpeechServer:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        owner: SpeechServer = self.server.owner  # type: ignore[attr-defined]
        length = int(self.headers["Content-Length"])
        raw = self.rfile.read(length)
        body = json.loads(raw) if self.headers["Content-Type"] == "application/json" else None
        headers = dict(self.headers)
        owner.asked.append({"path": self.path, "headers": headers, "body": body, "raw": raw})
        says = owner.says.pop(0) if len(owner.says) > 1 else owner.says[0]
        try:
            says(self)
        except OSError:
            owner.gone.set()
            self.close_connection = True

    def answer(self, data: bytes, media_type: str = "audio/wav", status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def piece(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def begin_pieces(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "audio/wav")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Silent."""


def speak(handler: Handler) -> None:
    handler.answer(wav())


def slowly(handler: Handler, pause: float = 0.1) -> None:
    """The sound in pieces, with pauses between them."""
    handler.begin_pieces()
    sound = wav()
    size = len(sound) // PIECES + 1
    for start in range(0, len(sound), size):
        handler.piece(sound[start : start + size])
        time.sleep(pause)
    handler.piece(b"")


def for_ever(handler: Handler) -> None:
    """Pieces without end, until the caller leaves."""
    handler.begin_pieces()
    handler.piece(wav())
    while True:
        handler.piece(b"\0" * 1000)
        time.sleep(0.05)


def silent(handler: Handler) -> None:
    """No byte, until the caller leaves."""
    handler.connection.settimeout(30)
    if handler.connection.recv(1) == b"":
        raise ConnectionResetError


def cut_off(handler: Handler) -> None:
    """Half of what was promised."""
    sound = wav()
    handler.send_response(200)
    handler.send_header("Content-Type", "audio/wav")
    handler.send_header("Content-Length", str(len(sound)))
    handler.end_headers()
    handler.wfile.write(sound[: len(sound) // 2])
    handler.close_connection = True


def hung_up(handler: Handler) -> None:
    """The connection ends without an answer."""
    handler.close_connection = True


def answering(
    status: int, body: Any, media_type: str = "application/json"
) -> Callable[[Handler], None]:
    """Always this; what is no bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda handler: handler.answer(data, media_type, status)
