"""The first byte of speech through Jumar, beside the same request to the service itself.

The service answers its first piece at once and four more over 0.2 s. One caller, then four at a
time, each through one connection that stays open; direct and through Jumar in turn. Beside the
clock stands the CPU time of Jumar's process, which says the same on a busy machine.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

ROUNDS, CALLERS = 40, (1, 4)
PIECES, PAUSE_S = 4, 0.05
LIMIT_MS = 5.0
BODY = {"model": "Qwen/Qwen3-TTS", "input": "Hello.", "voice": "vivian", "response_format": "wav"}
_JSON = json.dumps(BODY).encode()
REQUEST = (
    b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_JSON), _JSON)
)
Times = list[tuple[float, float]]
_PIECE = b"RIFF" + bytes(4796)


class _Program(NamedTuple):
    url: str
    pid: int

    @property
    def cpu_s(self) -> float:
        """CPU time of all its threads so far."""
        files = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(file.read_text().split()[0]) for file in files) / 1e9


def main() -> None:
    """Print medians, the least of all rounds, and how much later the first byte comes."""
    asyncio.run(_compared())


async def _compared() -> None:
    print(f"{'speech proxy (ms)':<44}{'through':>10}{'direct':>10}{'over':>9}")
    async with _service() as service, _jumar(service) as ours:
        await _settled(ours)
        for callers in CALLERS:
            begun = ours.cpu_s
            through, direct = await _in_turn(ours.url, service.url, callers)
            each = (ours.cpu_s - begun) / (ROUNDS + 1) / callers
            # On a busy machine the median is of its other work; the best round is of this.
            for what, of in (("median", statistics.median), ("best round", min)):
                name = f"first byte, slowest of {callers}, {what}"
                a, b = (of([first * 1e3 for first, _ in way]) for way in (through, direct))
                print(f"{name:<44}{a:>10.2f}{b:>10.2f}{a - b:>9.2f}")
            a, b = (statistics.median(last * 1e3 for _, last in way) for way in (through, direct))
            print(
                f"{f'last byte, slowest of {callers}, median':<44}{a:>10.2f}{b:>10.2f}{a - b:>9.2f}"
            )
            print(f"{f'CPU of Jumar per request, {callers} at a time':<44}{each * 1e3:>10.2f}")
    print(f"The first byte is to come at most {LIMIT_MS:g} ms later.")


async def _settled(program: _Program) -> None:
    """Wait until a program has nothing more to do after its start."""
    spent = program.cpu_s
    for _ in range(30):
        await asyncio.sleep(0.5)
        before, spent = spent, program.cpu_s
        if spent - before < 0.02:
            return


async def _in_turn(ours: str, service: str, callers: int) -> tuple[Times, Times]:
    """(First byte, last byte) of the slowest caller in seconds, for each round."""
    lines = {url: [await _opened(url) for _ in range(callers)] for url in (ours, service)}
    found: dict[str, Times] = {ours: [], service: []}
    for number in range(ROUNDS + 1):
        for url in (ours, service) if number % 2 else (service, ours):
            times = await asyncio.gather(*(_asked(*line) for line in lines[url]))
            if number:  # the first opens Jumar's own connections
                found[url].append((max(t[0] for t in times), max(t[1] for t in times)))
    for _, writer in (*lines[ours], *lines[service]):
        writer.close()
    return found[ours], found[service]


async def _opened(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = url.removeprefix("http://").partition(":")
    return await asyncio.open_connection(host, int(port))


async def _asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[float, float]:
    """Plain sockets: a client library takes longer than what is measured."""
    begun = time.perf_counter()
    writer.write(REQUEST)
    said = b""
    while b"RIFF" not in said:
        said += await _some(reader)
    assert said.startswith(b"HTTP/1.1 200 "), said[:300]
    first = time.perf_counter() - begun
    while not said.endswith(b"0\r\n\r\n"):
        said += await _some(reader)
    return first, time.perf_counter() - begun


async def _some(reader: asyncio.StreamReader) -> bytes:
    some = await reader.read(1 << 16)
    assert some, "the connection was closed"
    return some


@asynccontextmanager
async def _jumar(service: _Program) -> AsyncIterator[_Program]:
    with tempfile.TemporaryDirectory() as data:
        line = ["-m", "jumar", "serve", "--port", "0", "--device", "cpu", "--data-dir", data,
                "--speech-url", service.url]  # fmt: skip
        async with _program(*line) as program:
            yield program


@asynccontextmanager
async def _service() -> AsyncIterator[_Program]:
    async with _program("-m", "benchmarks.proxy") as program:
        yield program


@asynccontextmanager
async def _program(*line: str) -> AsyncIterator[_Program]:
    """A Python program that tells on stderr where it listens."""
    process = await asyncio.create_subprocess_exec(sys.executable, *line, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = b""
    while b"listens on " not in said:
        said = await process.stderr.readline()
        assert said, "it ended at once"
    rest = asyncio.ensure_future(process.stderr.read())  # nobody reads it; it must not fill up
    try:
        yield _Program(said.partition(b"listens on ")[2].decode().strip(), process.pid)
    finally:
        process.terminate()
        await process.wait()
        await rest


async def _speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The service: HTTP as far as this needs it."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: audio/wav\r\n"
                         b"Transfer-Encoding: chunked\r\n\r\n")  # fmt: skip
            for number in range(PIECES + 1):
                await asyncio.sleep(PAUSE_S if number else 0)
                writer.write(b"%x\r\n%s\r\n" % (len(_PIECE), _PIECE))
                await writer.drain()
            writer.write(b"0\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _listen() -> None:
    server = await asyncio.start_server(_speak, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"listens on http://{host}:{port}", file=sys.stderr, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_listen())
