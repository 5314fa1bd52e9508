"""Specifications of healing, with a stand-in for the engine: the callers' side of a failure."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jumar.contracts.errors import InvalidValue, ParityFailed
from jumar.evidence import Evidence, Store, Subject
from jumar.vllm.healing.steps import SHADOW, Steps, beats

httpx = pytest.importorskip("httpx")
pytest.importorskip("starlette")

ENGINE = Path(__file__).with_name("engine_of_paper.py")


def guilty(operator: str = "aten::silu") -> Evidence:
    return Evidence(
        subject=Subject(operator=operator, implementation="device"),
        fingerprint={"device_class": "npu-emulated"},
        verdict="aborts",
        reason="killed by SIGABRT",
        found_by="recorder",
        at=time.time(),
    )


@asynccontextmanager
async def served(
    folder: Path, faults: str, **options: Any
) -> AsyncIterator[tuple[Any, Any, list[Any]]]:
    """A healing server over the stand-in: it, a client of its front, and the cases looked into."""
    from jumar.vllm.healing.front import app
    from jumar.vllm.healing.healing import Healing, Options

    (folder / "faults").write_text(faults)
    cases: list[Any] = []

    def look(case: Any, *, answers_wrong: bool) -> tuple[list[Evidence], str]:
        cases.append((case, answers_wrong))
        return ([guilty()], "") if "found" not in options else options["found"]

    settings = {key: value for key, value in options.items() if key != "found"}
    healing = Healing(
        Options(flags=[str(folder)], device="npu:0", **settings),
        program=(sys.executable, str(ENGINE)),
        look=look,
    )
    life = asyncio.create_task(healing.run())
    transport = httpx.ASGITransport(app=app(healing))
    async with httpx.AsyncClient(transport=transport, base_url="http://front") as client:
        try:
            yield healing, client, cases
        finally:
            healing.stop()
            await asyncio.wait_for(life, 30)


def asked(run: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(run())


def test_an_engine_that_dies_is_started_again_and_its_callers_get_their_answers(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with served(tmp_path, "dies") as (_healing, client, cases):
            answers = await asyncio.gather(
                *(client.post("/v1/completions", json={"prompt": str(n)}) for n in range(4))
            )
            assert [one.json() for one in answers] == [
                {"start": 1, "body": {"prompt": str(n)}} for n in range(4)
            ]
            ((case, answers_wrong),) = cases
            assert not answers_wrong
            assert {one.body["prompt"] for one in case.asked} <= {"0", "1", "2", "3"}
            assert case.asked  # what they waited for is what is looked into
            health = await client.get("/jumar/health")
            assert health.status_code == 200
            assert [one["operator"] for one in health.json()["healed"]] == ["aten::silu"]

    before = {one.id for one in Store()}
    asked(run)
    assert len({one.id for one in Store()} - before) == 1  # the evidence is kept


def test_evidence_that_somebody_else_writes_meanwhile_is_not_this_servers(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, "dies") as (healing, client, cases):
            await healing.settled(timeout=20)
            Store().add(guilty("aten::anothers"))
            await client.post("/v1/completions", json={"prompt": "a"})
            assert len(cases) == 1
            assert [one.subject.operator for one in healing.healed] == ["aten::silu"]

    asked(run)


def test_whom_its_own_shadow_found_guilty_is_not_looked_for_again(tmp_path: Path) -> None:
    own = guilty("aten::own")
    (tmp_path / "evidence.json").write_text(own.model_dump_json())

    async def run() -> None:
        async with served(tmp_path, "accuses") as (healing, client, cases):
            await client.post("/v1/completions", json={"prompt": "a"})
            assert (cases, healing.healed) == ([], [own])
            assert own in list(Store())

    asked(run)


def test_an_engine_without_a_step_while_somebody_waits_hangs_and_is_replaced(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with served(tmp_path, "hangs", silence_s=1.0) as (_healing, client, cases):
            answer = await client.post("/v1/completions", json={"prompt": "a"})
            assert answer.json()["start"] == 1
            assert len(cases) == 1

    asked(run)


def test_an_engine_that_nobody_asks_anything_is_left_in_peace(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, "none", silence_s=0.5) as (healing, _client, cases):
            await healing.settled(timeout=20)
            await asyncio.sleep(1.5)
            assert (healing.state, healing.starts, cases) == ("ready", 1, [])

    asked(run)


def test_a_caller_who_went_away_does_not_make_an_idle_engine_look_hung(tmp_path: Path) -> None:
    from jumar.vllm.healing.front import app

    async def run() -> None:
        async with served(tmp_path, "none", silence_s=1.0) as (healing, _client, cases):
            await healing.settled(timeout=20)
            front, body = app(healing), b'{"prompt": "a"}'
            scope = {
                "type": "http",
                "method": "POST",
                "path": "/v1/completions",
                "query_string": b"",
                "headers": [],
                "asgi": {"spec_version": "2.3"},
            }
            told = [{"type": "http.request", "body": body, "more_body": False}]

            async def receive() -> dict[str, Any]:
                return told.pop() if told else {"type": "http.disconnect"}

            async def send(message: Any) -> None:
                await asyncio.sleep(0.1)  # a slow line, which is cut before the first byte

            await front(scope, receive, send)
            assert healing.asked == {}
            await asyncio.sleep(2.0)
            assert (healing.state, healing.starts, cases) == ("ready", 1, [])

    asked(run)


@pytest.mark.parametrize("failure", [ParityFailed("no"), ValueError("not a model that speaks")])
def test_whatever_goes_wrong_with_golden_answers_nobody_is_listened_to(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    from jumar.vllm.healing import gate

    async def fails(engine: Any) -> None:
        raise failure

    async def inner(*_: Any) -> None:
        raise AssertionError("the application starts")

    monkeypatch.setattr(gate, "hold", fails)
    monkeypatch.setattr(gate.atexit, "register", lambda _: None)
    sent: list[Any] = []

    async def run() -> None:
        async def receive() -> dict[str, str]:
            return {"type": "lifespan.startup"}

        async def send(message: Any) -> None:
            sent.append(message)

        state = SimpleNamespace(engine_client=None)
        scope = {"type": "lifespan", "app": SimpleNamespace(state=state)}
        await gate.Gate(inner)(scope, receive, send)

    asked(run)
    assert [one["type"] for one in sent] == ["lifespan.startup.failed"]


def test_half_a_stream_ends_with_an_error_and_is_not_asked_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, "streams") as (_healing, client, _):
            answer = await client.post("/v1/completions", json={"prompt": "a", "stream": True})
            told, failed = answer.text.strip().split("\n\n")  # what was half of an event is none
            assert told == "data: 1"
            assert '"code": "run_failed"' in failed
            again = await client.post("/v1/completions", json={"prompt": "b"})
            assert again.json() == {"start": 1, "body": {"prompt": "b"}}

    asked(run)


def test_openais_client_raises_its_own_error_where_a_stream_breaks(tmp_path: Path) -> None:
    openai = pytest.importorskip("openai")

    async def run() -> None:
        async with served(tmp_path, "streams") as (_healing, client, _):
            caller = openai.AsyncOpenAI(
                api_key="none", base_url="http://front/v1", http_client=client, max_retries=0
            )
            stream = await caller.completions.create(model="m", prompt="a", stream=True)
            with pytest.raises(openai.APIError, match="failed while it answered"):
                async for _ in stream:
                    pass

    asked(run)


def test_half_an_answer_that_is_no_stream_is_asked_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, "halves") as (_healing, client, cases):
            answer = await client.post("/v1/completions", json={"prompt": "a"})
            assert answer.json() == {"start": 1, "body": {"prompt": "a"}}
            assert len(cases) == 1

    asked(run)


def test_an_error_of_an_engine_in_good_health_is_passed_on_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jumar.vllm.healing import front

    monkeypatch.setattr(front, "DYING_S", 600.0)

    async def run() -> None:
        async with served(tmp_path, "errs") as (healing, client, cases):
            asking = client.post("/v1/completions", json={"prompt": "a"})
            answer = await asyncio.wait_for(asking, 60)
            assert (answer.status_code, answer.json()["error"]["message"]) == (
                500,
                "It cannot be.",
            )
            assert (healing.starts, cases, healing.asked) == (1, [], {})

    asked(run)


def test_an_error_of_an_engine_in_bad_health_is_asked_of_the_next(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, "sickens") as (_healing, client, cases):
            answer = await client.post("/v1/completions", json={"prompt": "a"})
            assert answer.json() == {"start": 1, "body": {"prompt": "a"}}
            assert len(cases) == 1

    asked(run)


def test_golden_answers_that_fail_are_looked_into_as_wrong_numbers(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, "refuses") as (_healing, client, cases):
            assert (await client.post("/v1/completions", json={})).json()["start"] == 1
            ((_, answers_wrong),) = cases
            assert answers_wrong

    asked(run)


def test_golden_answers_of_something_else_end_it_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, "declines") as (healing, client, cases):
            answer = await client.post("/v1/completions", json={})
            assert answer.status_code == 503
            assert "are of embeddings" in answer.json()["error"]["message"]
            assert (healing.state, healing.starts, cases) == ("failed", 1, [])

    asked(run)


def test_where_nobody_is_found_guilty_it_gives_up_in_the_end_and_says_so(tmp_path: Path) -> None:
    async def run() -> None:
        options = {"found": ([], "unreproducible"), "restarts": 1}
        async with served(tmp_path, "refuses refuses refuses", **options) as (healing, client, _):
            answer = await client.post("/v1/completions", json={})
            assert answer.status_code == 503
            assert "No operator was found guilty" in answer.json()["error"]["message"]
            assert (await client.get("/health")).json()["state"] == "failed"
            assert healing.starts == 2

    asked(run)


def test_a_request_whose_answer_fails_twice_is_refused_and_not_asked_a_third_time(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with served(tmp_path, "dies dies none") as (_healing, client, _):
            answer = await client.post("/v1/completions", json={"prompt": "a"})
            assert answer.status_code == 503
            assert answer.json()["error"]["code"] == "run_failed"
            again = await client.post("/v1/completions", json={"prompt": "b"})
            assert again.json()["start"] == 2

    asked(run)


def test_each_step_of_a_worker_beats(tmp_path: Path) -> None:
    steps = Steps("cpu", rank=1, state=tmp_path)
    assert beats(tmp_path) == {"beats.1": 0}
    with steps.forward():
        begun = beats(tmp_path)["beats.1"]
    with steps.sampling():
        pass
    assert 0 < begun < beats(tmp_path)["beats.1"]


def test_steps_without_anything_to_do_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SHADOW, raising=False)
    steps = Steps.from_environment("cpu")
    with steps.forward(), steps.sampling():
        pass


def test_a_shadow_of_a_word_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHADOW, "often")
    with pytest.raises(InvalidValue, match="often"):
        Steps.from_environment("cpu")
