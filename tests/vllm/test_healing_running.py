"""Specifications of where a server that heals listens, and of its way to its engine."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jumar.contracts.errors import InvalidValue

httpx = pytest.importorskip("httpx")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

ENGINE = Path(__file__).with_name("engine_of_paper.py")


def healing_of(folder: Path) -> Any:
    """A server over the stand-in."""
    from jumar.vllm.healing.healing import Healing, Options

    (folder / "faults").write_text("none")
    return Healing(
        Options(flags=[str(folder)], device="cpu"), program=(sys.executable, str(ENGINE))
    )


def stopped_when_ready(folder: Path) -> Any:
    """The same; half a second after it was ready somebody stops it."""
    healing, loop = healing_of(folder), asyncio.get_running_loop()

    def stop() -> None:
        until = time.monotonic() + 60
        while healing.state != "ready" and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.5)
        loop.call_soon_threadsafe(healing.stop)

    threading.Thread(target=stop, daemon=True).start()
    return healing


@pytest.mark.parametrize(
    ("host", "because"),
    [("127.0.0.1", "Address already in use"), ("nowhere.invalid", "not known|failure")],
)
def test_where_it_cannot_listen_no_engine_is_started(host: str, because: str) -> None:
    from jumar.vllm.healing.running import run

    def made() -> Any:
        raise AssertionError("an engine would be started")

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(InvalidValue, match=f"Cannot listen on {host}:{port}.*({because})"):
            run(made, host=host, port=port)


def test_it_says_where_callers_come_and_when_it_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from jumar.vllm.healing.running import run

    with caplog.at_level(logging.WARNING, "jumar.vllm.healing.running"):
        assert run(lambda: stopped_when_ready(tmp_path), host="127.0.0.1", port=0) == 0
    told = [one.getMessage() for one in caplog.records if one.name.endswith("running")]
    assert len(told) == 2
    address = told[0].removeprefix("Listening on ").partition(";")[0]
    assert address.startswith("http://127.0.0.1:") and not address.endswith(":0")
    assert told[1] == f"Ready: {address} answers."


@pytest.mark.parametrize("name", ["HTTP_PROXY", "ALL_PROXY"])
def test_a_proxy_of_the_environment_does_not_stand_between_it_and_its_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)

    async def run() -> None:
        healing = healing_of(tmp_path)
        life = asyncio.create_task(healing.run())
        assert await healing.settled(timeout=20), healing.as_dict()
        await asked(healing, 1)
        healing.stop()
        await life

    asyncio.run(run())


def test_callers_by_the_hundred_wait_for_the_engine_and_not_for_each_other() -> None:
    """Half a thousand at once: the engine here answers nobody before it has met all of them."""
    callers = 500

    async def run() -> None:
        together = asyncio.Event()
        inside = 0

        async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal inside
            await reader.readuntil(b"\r\n\r\n")
            inside += 1
            if inside == callers:
                together.set()
            await together.wait()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
            await writer.drain()
            writer.close()

        engine = await asyncio.start_server(answers, "127.0.0.1", 0, backlog=callers)
        address = f"http://127.0.0.1:{engine.sockets[0].getsockname()[1]}"

        async def settled(*_: Any) -> Any:
            return SimpleNamespace(address=address)

        healing = SimpleNamespace(
            settled=settled, asked={}, starts=1, reason="", state="ready", stopping=False
        )
        await asyncio.wait_for(asked(healing, callers), 30)
        engine.close()

    asyncio.run(run())


def test_a_caller_does_not_meet_the_connection_that_an_error_of_anothers_closed() -> None:
    """As vLLM does after some answers of 400: it says keep-alive, and hangs up."""

    async def run() -> None:
        async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
            await writer.drain()
            await reader.read(2)  # of this caller's body
            await reader.read()  # the end, or the next request: nobody answers that
            writer.close()

        engine = await asyncio.start_server(answers, "127.0.0.1", 0)
        await asyncio.wait_for(asked(engine_at(engine), 1, rounds=3), 10)
        engine.close()

    asyncio.run(run())


def engine_at(server: asyncio.Server) -> Any:
    """As much of a `Healing` as the front looks at, whose engine is this server."""
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def healthy(_: Any) -> bool:
        return True

    async def settled(*_: Any) -> Any:
        return SimpleNamespace(address=address, healthy=healthy)

    return SimpleNamespace(
        settled=settled, asked={}, starts=1, reason="", state="ready", stopping=False
    )


async def asked(healing: Any, callers: int, rounds: int = 1) -> None:
    """Each gets an answer through one front."""
    from jumar.vllm.healing.front import app

    transport = httpx.ASGITransport(app=app(healing))
    async with httpx.AsyncClient(transport=transport, base_url="http://front") as client:
        for _ in range(rounds):
            answers = await asyncio.gather(
                *(client.post("/v1/completions", json={}) for _ in range(callers))
            )
            assert {one.status_code for one in answers} == {200}, answers[0].text
