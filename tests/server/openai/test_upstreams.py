"""Models of other servers: what arrives there, what comes back, and when."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from tests.support import actor
from tests.support import speech_server as upstream
from tests.support.serving import PATIENT, Running, serving
from tests.support.speech_server import Handler, SpeechServer, answering

from jumar.contracts.errors import InvalidInput, InvalidValue, UnknownKey
from jumar.runtime.families.remote import client as remote
from jumar.runtime.families.remote.service import Service
from jumar.server.forwarding.upstreams import SPEECH, Upstream, Upstreams, read_upstreams

Says = Callable[[Handler], None]
BUSY = answering(503, {"error": {"message": "The model is loading."}})
CHAT = {"model": "far", "messages": [{"role": "user", "content": "Hello?"}]}
SPOKEN = {"model": "Qwen/Qwen3-TTS", "input": "Hello.", "voice": "vivian", "response_format": "wav"}


@pytest.fixture(scope="module", autouse=True)
def short_pauses() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "PAUSES_S", (0.01, 0.01))
        yield


@pytest.fixture(scope="module")
def there() -> Iterator[SpeechServer]:
    with SpeechServer() as one:
        yield one


@pytest.fixture(scope="module")
def server(
    actors: None, there: SpeechServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """`far` and every unknown voice are the upstream's; `nobody` is where nobody listens."""

    def at(url: str, name: str, **more: Any) -> Upstream:
        return Upstream(
            Service(url, name=f"The upstream {name!r}", **more.pop("service", {})), **more
        )

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{taken.getsockname()[1]}"
    named = {
        "far": at(there.url, "far", service={"api_key": "sesame"}),
        "alias": at(there.url, "alias", model="Org/Its-Name"),
        "hasty": at(there.url, "hasty", service={"silence_s": 0.3}),
        "nobody": at(nowhere, "nobody"),
    }
    upstreams = Upstreams(named, speech=at(there.url, "voice"))
    with serving(tmp_path_factory.mktemp("data"), upstreams=upstreams) as running:
        yield running


@pytest.fixture
def says(there: SpeechServer) -> Callable[..., SpeechServer]:
    """Tell the upstream how to behave, one behaviour per request, the last for all further ones."""

    def say(*behaviours: Says) -> SpeechServer:
        there.says[:] = behaviours
        there.asked.clear()
        there.gone.clear()
        return there

    return say


def events(*parts: str, end: bool = True, pause: float = 0.0) -> Says:
    """Server-sent events, as vLLM streams them; without their end where `end` is False."""

    def say(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for part in parts:
            handler.piece(f"data: {part}\n\n".encode())
            time.sleep(pause)
        if end:
            handler.piece(b"")
        else:
            handler.close_connection = True

    return say


def delta(text: str) -> str:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return json.dumps({"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "far",
                       "choices": [choice]})  # fmt: skip


@contextmanager
def client_of(server: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as one:
        yield one


def error_of(answer: httpx.Response) -> tuple[int, str, str]:
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["message"]


def test_an_unknown_voice_is_the_speech_services_under_that_name(
    server: Running, says: Callable[..., SpeechServer]
) -> None:
    there = says(upstream.speak)
    with client_of(server) as client:
        sound = client.audio.speech.create(
            model="Qwen/Qwen3-TTS", voice="vivian", input="Hello.", response_format="wav",
            extra_body={"language": "English"},
        )  # fmt: skip
    assert sound.read() == upstream.wav()
    assert sound.response.headers["x-jumar-device"] == "remote"
    assert there.asked[0]["path"] == "/v1/audio/speech"
    assert there.asked[0]["body"] == {**SPOKEN, "language": "English"}


def test_the_catalogs_name_for_the_service_leaves_the_voice_to_it(
    server: Running, says: Callable[..., SpeechServer]
) -> None:
    there = says(upstream.speak)
    server.client.post("/v1/audio/speech", json={**SPOKEN, "model": SPEECH}).raise_for_status()
    assert "model" not in there.asked[0]["body"]


def test_a_voice_of_this_server_is_its_own(
    server: Running, says: Callable[..., SpeechServer]
) -> None:
    there = says(upstream.speak)
    body = {"model": "actor", "input": "Hello."}
    assert server.client.post("/v1/audio/speech", json=body).content == actor.wav()
    assert not there.asked


def test_the_first_byte_leaves_before_the_last_has_come(
    server: Running, says: Callable[..., SpeechServer]
) -> None:
    import threading

    heard = threading.Event()

    def second_after_first_was_heard(handler: Handler) -> None:
        handler.begin_pieces()
        handler.piece(upstream.wav()[:100])
        assert heard.wait(PATIENT), "the first piece was held back"
        handler.piece(upstream.wav()[100:])
        handler.piece(b"")

    says(second_after_first_was_heard)
    with server.client.stream("POST", "/v1/audio/speech", json=SPOKEN) as answer:
        chunks = answer.iter_raw()
        got = next(chunks)
        heard.set()
        assert got + b"".join(chunks) == upstream.wav()


def test_a_chat_is_streamed_byte_for_byte(
    server: Running, says: Callable[..., SpeechServer]
) -> None:
    parts = [delta("Hel"), delta("lo."), "[DONE]"]
    there = says(events(*parts))
    with client_of(server) as client:
        told = client.chat.completions.create(**CHAT, stream=True)  # type: ignore[call-overload]
        assert [chunk.choices[0].delta.content for chunk in told] == ["Hel", "lo."]
    assert there.asked[0]["path"] == "/v1/chat/completions"
    raw = b'{ "model":"far",  "messages": [], "stream":true,"odd\\u00e9":1e2 }'
    headers = {"content-type": "application/json"}
    answer = server.client.post("/v1/chat/completions", content=raw, headers=headers)
    assert answer.content == "".join(f"data: {part}\n\n" for part in parts).encode()
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert there.asked[1]["raw"] == raw


def test_the_operators_key_is_shown_there_and_the_callers_is_not(
    server: Running, says: Callable[..., SpeechServer]
) -> None:
    there = says(answering(200, {"choices": []}))
    headers = {"authorization": "Bearer caller", "x-request-id": "mine"}
    server.client.post("/v1/chat/completions", json=CHAT, headers=headers).raise_for_status()
    sent = {name.lower(): value for name, value in there.asked[0]["headers"].items()}
    assert sent["authorization"] == "Bearer sesame"
    assert sent["x-request-id"] == "mine"


def test_a_model_may_have_another_name_there(
    server: Running, says: Callable[..., SpeechServer]
) -> None:
    there = says(answering(200, {"data": []}))
    server.client.post("/v1/embeddings", json={"model": "alias", "input": "a"}).raise_for_status()
    assert there.asked[0]["body"] == {"model": "Org/Its-Name", "input": "a"}
    there = says(answering(200, {"text": "Hello."}))
    with client_of(server) as client:
        file = ("a.wav", upstream.wav())
        assert client.audio.transcriptions.create(model="alias", file=file).text == "Hello."
    assert b"Org/Its-Name" in there.asked[0]["raw"] and upstream.wav() in there.asked[0]["raw"]


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/v1/completions", {"prompt": "Hello"}),
        ("/v1/embeddings", {"input": ["a", "b"]}),
        ("/v1/images/generations", {"prompt": "a hat", "size": "1024x1024"}),
    ],
)
def test_every_surface_passes_on(
    server: Running, says: Callable[..., SpeechServer], route: str, body: dict[str, Any]
) -> None:
    there = says(answering(200, {"data": [1]}))
    answer = server.client.post(route, json={"model": "far", **body})
    assert answer.json() == {"data": [1]}
    assert there.asked[0]["path"] == route
    assert there.asked[0]["body"] == {"model": "far", **body}


@pytest.mark.parametrize(
    ("behaviour", "status", "code", "said"),
    [
        (answering(400, {"error": {"message": "No voice."}}), 400, "invalid_request", "No voice."),
        (answering(422, {"detail": [{"msg": "too fast"}]}), 400, "invalid_request", "too fast"),
        (answering(401, {"error": "no key"}), 502, "upstream_failed", "401: no key"),
        (answering(404, {"message": "no such model"}), 404, "model_not_found", "no such model"),
        (answering(429, {"error": "later"}), 429, "overloaded", "later"),
        (answering(500, {"error": {"message": "CUDA"}}), 502, "upstream_failed", "500: CUDA"),
        (answering(500, b"<html>Oh", "text/html"), 502, "upstream_failed", "500: <html>Oh"),
        (BUSY, 502, "upstream_failed", "The model is loading."),
        (answering(200, b"", "audio/wav"), 502, "upstream_failed", "200 and nothing else"),
        (answering(200, {"error": "no"}, "audio/wav"), 502, "upstream_failed", "no wav audio"),
        (answering(200, b"<html>", "audio/wav"), 502, "upstream_failed", "no wav audio"),
        (answering(200, b"\xff\xfb" * 99, "audio/wav"), 502, "upstream_failed", "no wav audio"),
        (upstream.hung_up, 502, "upstream_failed", "did not answer"),
    ],
)  # fmt: skip
def test_what_goes_wrong_there_is_a_typed_error_here(
    server: Running, says: Callable[..., SpeechServer], behaviour: Says, status: int, code: str,
    said: str,
) -> None:  # fmt: skip
    there = says(behaviour)
    answer = server.client.post("/v1/audio/speech", json=SPOKEN)
    found = error_of(answer)
    assert found[:2] == (status, code)
    assert said in found[2]
    assert there.url not in answer.text, "where it is, is the operator's business"
    assert ("retry-after" in answer.headers) == (status == 429)


def test_a_page_is_no_completion(server: Running, says: Callable[..., SpeechServer]) -> None:
    says(answering(200, b"<html>Login</html>", "text/html"))
    answer = server.client.post("/v1/chat/completions", json=CHAT)
    assert error_of(answer)[:2] == (502, "upstream_failed")
    says(answering(200, {"choices": []}))
    answer = server.client.post("/v1/chat/completions", json={**CHAT, "stream": True})
    assert error_of(answer)[:2] == (502, "upstream_failed")


def test_nobody_there_and_silence_are_told(
    server: Running, says: Callable[..., SpeechServer]
) -> None:
    answer = server.client.post("/v1/audio/speech", json={**SPOKEN, "model": "nobody"})
    assert error_of(answer) == (502, "upstream_failed", "The upstream 'nobody' cannot be reached.")
    there = says(upstream.silent)
    answer = server.client.post("/v1/audio/speech", json={**SPOKEN, "model": "hasty"})
    assert error_of(answer)[:2] == (502, "upstream_failed")
    assert "was silent for 0.3 s" in answer.text
    assert len(there.asked) == 1, "who is slow may be at work: not asked twice"


def test_it_is_tried_again_before_the_first_byte_and_never_after(
    server: Running, says: Callable[..., SpeechServer]
) -> None:
    there = says(BUSY, upstream.hung_up, upstream.speak)
    assert server.client.post("/v1/audio/speech", json=SPOKEN).content == upstream.wav()
    assert len(there.asked) == 3
    there = says(upstream.cut_off, upstream.speak)
    with pytest.raises(httpx.RemoteProtocolError):
        server.client.post("/v1/audio/speech", json=SPOKEN)
    assert len(there.asked) == 1


def test_a_chat_that_breaks_off_ends_with_its_error(
    server: Running, says: Callable[..., SpeechServer]
) -> None:
    says(events(delta("Hel"), end=False))
    heard: list[str] = []
    with client_of(server) as client, pytest.raises(openai.APIError, match="before its end"):
        told = client.chat.completions.create(**CHAT, stream=True)  # type: ignore[call-overload]
        heard.extend(chunk.choices[0].delta.content for chunk in told)


@pytest.mark.parametrize("behaviour", [upstream.for_ever, upstream.silent])
def test_a_caller_who_goes_away_ends_the_request_there(
    server: Running, says: Callable[..., SpeechServer], behaviour: Says
) -> None:
    there = says(behaviour)

    async def listen_for_a_moment() -> None:
        async with (
            httpx.AsyncClient(base_url=server.url) as client,
            client.stream("POST", "/v1/audio/speech", json=SPOKEN) as answer,
        ):
            await anext(answer.aiter_raw())

    async def leave() -> None:
        listening = asyncio.ensure_future(listen_for_a_moment())
        while not there.asked:
            await asyncio.sleep(0.01)
        await asyncio.wait({listening}, timeout=0.2)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)

    asyncio.run(leave())
    assert there.gone.wait(PATIENT)


def test_an_upstream_fetches_nothing_for_a_caller(
    server: Running, says: Callable[..., SpeechServer]
) -> None:
    there = says(upstream.speak)
    for voice in ("http://169.254.169.254/", "file:///etc/passwd", "/etc/passwd"):
        answer = server.client.post("/v1/audio/speech", json={**SPOKEN, "ref_audio": voice})
        assert error_of(answer)[:2] == (403, "not_permitted")
    assert not there.asked
    spoken = {**SPOKEN, "ref_audio": "data:audio/wav;base64,AAAA"}
    assert server.client.post("/v1/audio/speech", json=spoken).content == upstream.wav()


def test_upstreams_stand_in_the_list_of_models(server: Running) -> None:
    with client_of(server) as client:
        listed = {model.id: model.owned_by for model in client.models.list()}
        assert listed["far"] == client.models.retrieve("far").owned_by == "upstream"
        assert listed["actor"] == "jumar"


def test_unknown_names_stay_unknown_on_other_surfaces(server: Running) -> None:
    for route, body in (("embeddings", {"input": "a"}), ("chat/completions", {"messages": []})):
        answer = server.client.post(f"/v1/{route}", json={"model": "Qwen/Qwen3", **body})
        assert error_of(answer)[:2] == (404, "model_not_found")


def test_upstreams_are_read_from_pairs_a_file_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "upstreams.yaml"
    file.write_text(
        "plain: http://127.0.0.1:1/v1\n"
        "full: {url: http://127.0.0.1:2, model: Org/Name, api_key_env: FAR_KEY, silence_s: 5}\n"
    )
    monkeypatch.setenv("FAR_KEY", "sesame")
    monkeypatch.setenv("OMNIRT_VLLM_OMNI_SPEECH_URL", "http://127.0.0.1:4")
    found = read_upstreams(["third=http://127.0.0.1:3"], file)
    assert {name: one.service.url for name, one in found.named.items()} == {
        "plain": "http://127.0.0.1:1",
        "full": "http://127.0.0.1:2",
        "third": "http://127.0.0.1:3",
    }
    full = found.named["full"]
    assert (full.model, full.service.api_key, full.service.silence_s) == ("Org/Name", "sesame", 5.0)
    assert "sesame" not in repr(found)
    assert found.speech is not None and found.speech.service.url == "http://127.0.0.1:4"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("far: not an address", InvalidValue),
        ("far: {model: x}", InvalidInput),
        ("far: {url: 'http://a', modell: x}", UnknownKey),
        ("far: {url: 'http://a', api_key_env: SURELY_NOT_SET}", InvalidInput),
        ("far: {url: 'http://a', silence_s: soon}", InvalidValue),
        ("hibari: http://a", InvalidValue),
        ("- far", InvalidInput),
        ("far: [", InvalidInput),
    ],
)
def test_a_wrong_row_is_refused(tmp_path: Path, text: str, error: type[Exception]) -> None:
    file = tmp_path / "upstreams.yaml"
    file.write_text(text)
    with pytest.raises(error):
        read_upstreams(file=file)


@pytest.mark.parametrize("pair", ["far", "=http://a", "far="])
def test_a_pair_is_name_and_url(pair: str) -> None:
    with pytest.raises(InvalidValue, match="NAME=URL"):
        read_upstreams([pair])
